"""The presets against the parameter counts that were published for them."""

from dataclasses import replace

import pytest
import torch

from minitxl import config
from minitxl.model import TransformerLM


def millions(preset: config.Preset) -> float:
    with torch.device("meta"):
        model = TransformerLM(preset.model)
    return sum(parameter.numel() for parameter in model.parameters()) / 1e6


def tied(preset: config.Preset) -> config.Preset:
    return replace(preset, model=replace(preset.model, tie_embeddings=True))


@pytest.mark.parametrize(
    ("preset", "published"),
    [
        (config.enwik8_base(), 41.1),
        (config.text8_base(), 41.0),
        (config.enwik8_large(), 277.2),
        (config.text8_large(), 277.0),
        (config.wikitext103_base(), 151.1),
        (config.wikitext103_large(), 285.2),
        (config.one_billion_words_base(), 466.2),
        (tied(config.one_billion_words_base()), 357.5),
        (config.one_billion_words_large(), 840.8),
        (config.penn_treebank(), 24.0),
    ],
)
def test_a_preset_has_the_published_number_of_parameters(preset, published):
    assert millions(preset) == pytest.approx(published, abs=0.06)
