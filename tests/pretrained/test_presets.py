"""The presets against the parameter counts that were published for them."""

from dataclasses import replace

import pytest
import torch

from minitxl.data.batching import ContiguousBatches
from minitxl.pretrained import presets
from minitxl.training import loop
from minitxl.training.sizes import parameter_count
from minitxl.training.step import train_step


def millions(preset: presets.Preset) -> float:
    return parameter_count(preset.model) / 1e6


def tied(preset: presets.Preset) -> presets.Preset:
    return replace(preset, model=replace(preset.model, tie_embeddings=True))


@pytest.mark.parametrize(
    ("preset", "published"),
    [
        (presets.enwik8_base(), 41.1),
        (presets.text8_base(), 41.0),
        (presets.enwik8_large(), 277.2),
        (presets.text8_large(), 277.0),
        (presets.wikitext103_base(), 151.1),
        (presets.wikitext103_large(), 285.2),
        (presets.one_billion_words_base(), 466.2),
        (tied(presets.one_billion_words_base()), 357.5),
        (presets.one_billion_words_large(), 840.8),
        (presets.penn_treebank(), 24.0),
        (presets.ptb_small(), 4.93),
    ],
)
def test_a_preset_has_the_published_number_of_parameters(preset, published):
    assert millions(preset) == pytest.approx(published, abs=0.06)


def narrow(preset: presets.Preset) -> presets.Preset:
    """As deep as published, with the same dropout and clusters, and small enough to be trained here."""
    widths = {"d_model": 64, "n_head": 2, "d_head": 8, "d_inner": 32, "d_embed": 64}
    cutoffs = tuple(range(4, 4 + 4 * len(preset.model.cutoffs), 4))
    model = replace(preset.model, vocab_size=24, cutoffs=cutoffs, **widths)
    lengths = {"seg_len": 8, "mem_len": 8, "batch": 20, "average_from": None}
    return replace(preset, model=model, train=replace(preset.train, **lengths))


@pytest.mark.parametrize("name", presets.PRESETS)
def test_a_preset_takes_its_first_steps_from_any_seed(name):
    preset = narrow(presets.PRESETS[name]())
    for seed in range(3):
        text = torch.randint(24, (20 * 25,), generator=torch.Generator().manual_seed(seed))
        run = loop.start(preset.model, replace(preset.train, seed=seed))
        segments = ContiguousBatches(text, batch=20, seg_len=8)
        bits = [train_step(run, segments).bits for _ in range(2)]
        assert all(2 < one < 8 for one in bits)
