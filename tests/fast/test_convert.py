"""to_fast and to_plain exchange the modules of a model and leave its parameters where they are."""

from typing import get_args, get_type_hints

import pytest
import torch
from models import ENCODINGS, NORMS, small_model, some_tokens
from torch import nn

from minitxl import fast
from minitxl.attention import MultiHeadAttention, XLAttention
from minitxl.config import ModelConfig
from minitxl.fast import kv_cache
from minitxl.fast.convert import FAST
from minitxl.fast.kv_cache import heads

every_encoding = pytest.mark.parametrize("encoding", ENCODINGS)


@every_encoding
@pytest.mark.parametrize("norm", NORMS)
def test_a_fast_model_has_the_same_parameters_under_the_same_names(encoding, norm):
    model = small_model(norm=norm, cutoffs=(4, 8), div_val=2, **ENCODINGS[encoding])
    fast_model = fast.to_fast(model)
    ours, theirs = dict(fast_model.named_parameters()), dict(model.named_parameters())
    assert list(ours) == list(theirs)
    assert all(ours[name] is theirs[name] for name in theirs)
    assert list(fast_model.state_dict()) == list(model.state_dict())


@every_encoding
@pytest.mark.parametrize("variational_dropout", [False, True])
def test_every_module_that_has_a_faster_form_gets_it_and_restore_gives_it_back(encoding, variational_dropout):
    model = small_model(variational_dropout=variational_dropout, **ENCODINGS[encoding])
    kinds = {name: type(module) for name, module in model.named_modules()}
    fast_model = fast.to_fast(model)
    for name, module in fast_model.named_modules():
        assert type(module) is FAST.get(kinds[name], kinds[name]), name
    assert {name: type(module) for name, module in model.named_modules()} == kinds
    assert {name: type(module) for name, module in fast.to_plain(fast_model).named_modules()} == kinds


def test_training_the_fast_model_trains_the_model():
    model, tokens = small_model(), some_tokens(1, 6)
    before, _ = model(tokens)
    with torch.no_grad():
        for parameter in fast.to_fast(model).parameters():
            parameter.mul_(2.0)
    after, _ = model(tokens)
    assert not torch.allclose(before, after)


def test_optimizing_twice_changes_nothing_more():
    twice = fast.to_fast(fast.to_fast(small_model()))
    once = fast.to_fast(small_model())
    assert [type(m) for m in twice.modules()] == [type(m) for m in once.modules()]


def test_a_shared_module_stays_shared():
    shared = nn.Linear(3, 3)
    fast_layers = fast.to_fast(nn.Sequential(shared, shared))
    assert fast_layers[0] is fast_layers[1]


def test_the_mode_of_the_model_is_left_alone():
    model = small_model().train()
    with fast.fast_evaluation(model) as evaluated:
        assert not any(module.training for module in evaluated.modules())
        assert all(module.training for module in model.modules())


class Rotated(MultiHeadAttention):
    """An attention that is not in the table, with scores of its own."""

    def context_weights(self, x, context=None, mask=None):
        return super().context_weights(x, context, mask).flip(-1)


def with_attention_of_its_own(kind):
    model = small_model(attention="absolute")
    for block in model.blocks:
        block.attention.__class__ = kind
    return model


def test_an_attention_that_is_not_in_the_table_runs_as_it_is_written():
    model, tokens = with_attention_of_its_own(Rotated), some_tokens(2, 7)
    expected, _ = model(tokens)
    plain, _ = small_model(attention="absolute")(tokens)
    found, _ = fast.to_fast(model)(tokens)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    assert not torch.allclose(found, plain)


def test_the_key_value_cache_refuses_an_attention_that_it_does_not_know():
    model = with_attention_of_its_own(Rotated)
    with pytest.raises(ValueError, match="the key-value cache must know the attention, got Rotated"):
        kv_cache.start(model, batch=1, mem_len=4)


def test_the_key_value_cache_refuses_the_cache_of_another_model():
    cache = kv_cache.start(small_model(), batch=1, mem_len=4)
    with pytest.raises(ValueError, match="cache must be one that start made for this model"):
        kv_cache.step(small_model(), some_tokens(1, 3), cache)


def test_an_attention_with_another_dropout_keeps_it():
    class NoDropout(nn.Dropout):
        def forward(self, x):
            return x

    torch.manual_seed(0)
    attention = XLAttention(8, 2, 4, attention_dropout=0.9).train()
    attention.attention_dropout = NoDropout(0.9)
    x = torch.randn(1, 5, 8)
    torch.testing.assert_close(fast.to_fast(attention)(x), attention(x))


def test_the_shared_tests_and_the_cache_know_every_attention_of_the_configuration():
    kinds = get_args(get_type_hints(ModelConfig)["attention"])
    assert {encoding["attention"] for encoding in ENCODINGS.values()} == set(kinds)
    for kind in kinds:
        assert type(small_model(attention=kind, d_head=4).blocks[0].attention) in heads.FUNCTIONS
