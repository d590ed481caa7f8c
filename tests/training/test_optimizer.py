import pytest
import torch
from models import ENCODINGS, small_config
from torch.nn.utils import clip_grad_norm_

from minitxl.model import TransformerLM
from minitxl.training.config import TrainConfig
from minitxl.training.optimizer import adamw, decays, optimizer_step


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_weight_decay_shrinks_matrices_and_leaves_norms_and_biases_as_they_are(encoding):
    """With a gradient of zero, Adam moves nothing, and decay alone is left."""
    model = TransformerLM(small_config(**ENCODINGS[encoding]))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(2.0)
    optimizer = adamw(model, TrainConfig(weight_decay=0.5))
    sum(0 * parameter.sum() for parameter in model.parameters()).backward()
    optimizer_step(optimizer, torch.tensor(0.0), rate=0.1)
    for name, parameter in model.named_parameters():
        biases = parameter.ndim == 1 or name.endswith((".u", ".v", ".table"))
        expected = 2.0 if biases else 2.0 * (1 - 0.1 * 0.5)
        torch.testing.assert_close(parameter.detach(), torch.full_like(parameter, expected))


def test_every_parameter_is_stepped_once():
    model = TransformerLM(small_config())
    groups = adamw(model, TrainConfig()).param_groups
    assert sorted(id(one) for group in groups for one in group["params"]) == sorted(
        map(id, model.parameters())
    )
    assert any(decays(name, one) for name, one in model.named_parameters())


def test_a_gradient_that_is_no_number_never_reaches_the_weights():
    layer = torch.nn.Linear(2, 2)
    before = layer.weight.detach().clone()
    (layer.weight.sum() * float("nan")).backward()
    with pytest.raises(ValueError, match=r"the gradient must be finite, got norm nan at learning rate 0\.1"):
        optimizer_step(adamw(layer, TrainConfig()), clip_grad_norm_(layer.parameters(), 1.0), rate=0.1)
    assert torch.equal(layer.weight, before)
