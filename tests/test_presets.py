"""The presets against the parameter counts that were published for them."""

from dataclasses import replace

import pytest
import torch

from minitxl import presets
from minitxl.model import TransformerLM


def millions(preset: presets.Preset) -> float:
    with torch.device("meta"):
        model = TransformerLM(preset.model)
    return sum(parameter.numel() for parameter in model.parameters()) / 1e6


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
    ],
)
def test_a_preset_has_the_published_number_of_parameters(preset, published):
    assert millions(preset) == pytest.approx(published, abs=0.06)
