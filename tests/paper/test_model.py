from math import sqrt

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from models import (
    ABSOLUTE,
    ENCODINGS,
    NORMS,
    RELATIVE,
    VOCAB,
    in_segments,
    small_config,
    small_model,
    some_tokens,
    unchanged_model,
)
from torch.nn.functional import cross_entropy

from minitxl.config import ModelConfig
from minitxl.fast import to_fast, to_plain
from minitxl.fast.dropout import FastVariationalDropout
from minitxl.memory import extend
from minitxl.model import TransformerLM, initialise

every_encoding = pytest.mark.parametrize("encoding", ENCODINGS)
every_norm = pytest.mark.parametrize("norm", NORMS)
cuts = st.lists(st.integers(1, 5), min_size=2, max_size=6)


@every_encoding
@every_norm
def test_log_probabilities_are_normalised_and_agree_with_the_losses(encoding, norm):
    model, tokens = small_model(norm=norm, **ENCODINGS[encoding]), some_tokens(2, 7)
    targets = some_tokens(2, 7, seed=1)
    log_probs, states = model(tokens)
    losses, same_states = model.token_losses(tokens, targets)
    torch.testing.assert_close(log_probs.logsumexp(-1), torch.zeros(2, 7).double(), rtol=0, atol=1e-12)
    torch.testing.assert_close(losses, -log_probs.gather(2, targets[..., None])[..., 0], rtol=0, atol=1e-12)
    assert torch.equal(states, same_states)
    assert states.shape == (2, 2, 7, 8)


@pytest.mark.parametrize("encoding", RELATIVE)
@every_norm
@settings(max_examples=20)
@given(seg_lens=cuts)
def test_segments_with_full_memory_equal_one_long_segment(encoding, norm, seg_lens):
    model, tokens = unchanged_model(norm=norm, **RELATIVE[encoding]), some_tokens(2, sum(seg_lens))
    whole, _ = model(tokens)
    found = in_segments(model, tokens, seg_lens, mem_len=sum(seg_lens))
    torch.testing.assert_close(found, whole, rtol=0, atol=1e-10)


@pytest.mark.parametrize("encoding", ABSOLUTE)
@every_norm
def test_absolute_positions_with_memory_do_not_equal_one_long_segment(encoding, norm):
    model, tokens = small_model(norm=norm, **ABSOLUTE[encoding]), some_tokens(2, 12)
    whole, _ = model(tokens)
    found = in_segments(model, tokens, [6, 6], mem_len=12)
    torch.testing.assert_close(found[:, :6], whole[:, :6], rtol=0, atol=1e-10)
    assert (found[:, 6:] - whole[:, 6:]).abs().max() > 1e-3


@pytest.mark.parametrize("encoding", RELATIVE)
@settings(max_examples=30)
@given(
    window=st.integers(1, 6), spare=st.integers(0, 4), seg_lens=cuts, clamp_len=st.none() | st.integers(0, 5)
)
def test_same_window_makes_loss_independent_of_the_cut(encoding, window, spare, seg_lens, clamp_len):
    model, tokens = unchanged_model(**RELATIVE[encoding]), some_tokens(2, sum(seg_lens))
    options = {"window": window, "clamp_len": clamp_len}
    whole, _ = model(tokens, **options)
    found = in_segments(model, tokens, seg_lens, mem_len=window - 1 + spare, **options)
    torch.testing.assert_close(found, whole, rtol=0, atol=1e-10)


@pytest.mark.parametrize("encoding", ABSOLUTE)
def test_absolute_positions_with_a_window_depend_on_the_cut(encoding):
    model, tokens = small_model(**ABSOLUTE[encoding]), some_tokens(2, 12)
    threes = in_segments(model, tokens, [3] * 4, mem_len=3, window=4)
    fours = in_segments(model, tokens, [4] * 3, mem_len=3, window=4)
    assert (threes - fours).abs().max() > 1e-3


@every_encoding
@every_norm
def test_changing_a_future_token_changes_nothing_before_it(encoding, norm):
    model, tokens = small_model(norm=norm, **ENCODINGS[encoding]), some_tokens(2, 8)
    _, states = model(some_tokens(2, 4, seed=1))
    memory = extend(None, states, mem_len=4)
    changed = tokens.clone()
    changed[:, 5] = (changed[:, 5] + 1) % VOCAB
    before, after = model(tokens, memory)[0], model(changed, memory)[0]
    assert torch.equal(before[:, :5], after[:, :5])
    assert (before[:, 5:] - after[:, 5:]).abs().amax(dim=(0, 2)).min() > 0


@every_encoding
def test_no_gradient_crosses_a_segment_but_keys_and_values_learn_from_memory(encoding):
    model = small_model(**ENCODINGS[encoding])
    first, second = some_tokens(1, 5), some_tokens(1, 1, seed=1)
    _, old = model(first)
    old.retain_grad()
    memory = extend(None, old, mem_len=5)
    _, new = model.last_hidden(second, memory)
    hidden, _ = model.last_hidden(second, memory, key_mask=torch.tensor([[True] * 5 + [False]]))
    hidden.square().sum().backward()
    assert old.grad is None
    assert new.requires_grad
    attention = model.blocks[0].attention
    keys = attention.W_kE if hasattr(attention, "W_kE") else attention.W_k
    for weight in (keys.weight, attention.W_v.weight):  # memory was all that could be seen
        assert weight.grad.abs().sum() > 0


@every_encoding
@every_norm
def test_states_are_the_inputs_of_the_layers(encoding, norm):
    model, tokens = small_model(norm=norm, **ENCODINGS[encoding]), some_tokens(2, 5)
    _, states = model.last_hidden(tokens)
    assert torch.equal(states[0], model.embed(tokens))
    empty = states[0][:, :0]
    per_layer = model.positions[1].weight[:5] if len(model.positions) > 1 else 0
    torch.testing.assert_close(states[1], model.blocks[0](states[0], empty) + per_layer, rtol=0, atol=0)


@every_encoding
def test_attention_weights_are_those_the_layers_use(encoding):
    model, tokens = small_model(**ENCODINGS[encoding]), some_tokens(2, 4)
    _, states = model(some_tokens(2, 3, seed=1))
    memory = extend(None, states, mem_len=3)
    weights = model.attention_weights(tokens, memory)
    assert weights.shape == (2, 2, 2, 4, 7)
    _, states = model.last_hidden(tokens, memory)
    for layer, block in enumerate(model.blocks):
        expected = block.attention.attention_weights(states[layer], memory[layer])
        torch.testing.assert_close(weights[layer], expected, rtol=0, atol=1e-12)


@every_encoding
def test_a_memory_hidden_by_keep_is_an_empty_memory(encoding):
    model, tokens = small_model(**ENCODINGS[encoding]), some_tokens(2, 4)
    memory = torch.randn(2, 2, 3, 8).double()
    key_mask = torch.ones(2, 7, dtype=torch.bool)
    key_mask[0, :3] = False
    masked, fresh, whole = (
        model(tokens, memory, key_mask=key_mask)[0],
        model(tokens)[0],
        model(tokens, memory)[0],
    )
    torch.testing.assert_close(masked[0], fresh[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(masked[1], whole[1], rtol=0, atol=1e-12)


def test_zeros_in_memory_are_not_an_empty_memory():
    model, tokens = small_model(attention="xl"), some_tokens(2, 4)
    zeros = torch.zeros(2, 2, 3, 8).double()
    assert (model(tokens, zeros)[0] - model(tokens)[0]).abs().max() > 1e-3


def test_absolute_positions_restart_and_add_to_the_scaled_embedding():
    for positions in ("sinusoidal", "learned"):
        model = small_model(attention="absolute", positions=positions)
        token = torch.full((1, 4), 3)
        table = model.embed(token)[0] - model.embedding.tables[0].weight[3] * sqrt(8)
        assert torch.equal(model.embed(token[:, :2])[0], model.embed(token)[0, :2])
        assert (table[1:] - table[:-1]).abs().sum(1).min() > 1e-3


def test_tied_weights_are_one_parameter_and_shared_uv_are_one_pair():
    tied, apart = (
        small_model(attention="xl"),
        small_model(attention="xl", tie_embeddings=False, share_biases=False),
    )
    assert tied.output.tables[0].weight is tied.embedding.tables[0].weight
    assert tied.blocks[0].attention.u is tied.blocks[1].attention.u
    assert apart.output.tables[0].weight is not apart.embedding.tables[0].weight
    assert apart.blocks[0].attention.u is not apart.blocks[1].attention.u
    count = {name: sum(p.numel() for p in model.parameters()) for name, model in (("t", tied), ("a", apart))}
    assert count["a"] - count["t"] == VOCAB * 8 + 2 * 2 * 3  # one matrix, and one pair u, v of 2 heads × 3


def test_the_attention_is_the_only_difference_between_two_systems():
    xl, absolute = small_model(attention="xl"), small_model(attention="absolute")
    only_xl = {name for name, _ in xl.named_parameters()} - {name for name, _ in absolute.named_parameters()}
    assert {name.split(".")[-2] if "W" in name else name.split(".")[-1] for name in only_xl} == {
        "W_kE",
        "W_kR",
        "u",
        "v",
    }


def test_a_parameter_that_no_rule_of_initialisation_knows_is_refused_and_not_overwritten():
    module = torch.nn.Module()
    module.slopes = torch.nn.Parameter(torch.tensor([0.5, 0.25]))
    with pytest.raises(ValueError, match=r"model.GAUSSIAN must name each parameter, got Module\.slopes$"):
        initialise(module)
    assert module.slopes.tolist() == [0.5, 0.25]


def test_initialisation_is_the_papers():
    torch.manual_seed(0)
    model = TransformerLM(ModelConfig(vocab_size=1000, d_model=256, d_inner=512, share_biases=False))
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert (parameter == 0).all(), name
        else:
            mean = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            assert parameter.mean().item() == pytest.approx(mean, abs=0.02 * 5 / sqrt(parameter.numel())), (
                name
            )
            assert parameter.std().item() == pytest.approx(0.02, rel=5 / sqrt(2 * parameter.numel())), name


def test_pre_norm_norms_the_residual_stream_once_more_at_the_end():
    pre, post = small_model(norm="pre"), small_model(norm="post")
    assert isinstance(pre.final_norm, torch.nn.LayerNorm)
    assert isinstance(post.final_norm, torch.nn.Identity)
    with torch.no_grad():
        pre.embedding.tables[0].weight.mul_(1000)
    hidden, states = pre.last_hidden(some_tokens(1, 5))
    assert states[0].abs().max() > 1000  # un-normed
    assert hidden.abs().max() < 5


def test_dropout_acts_in_training_alone():
    model, tokens = TransformerLM(small_config(dropout=0.5)), some_tokens(1, 6)
    assert not torch.equal(model(tokens)[0], model(tokens)[0])
    model.eval()
    assert torch.equal(model(tokens)[0], model(tokens)[0])


def test_a_model_learns_to_copy():
    torch.manual_seed(0)
    model = TransformerLM(small_config(d_model=32, d_head=16, d_inner=64, norm="pre"))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for step in range(100):
        half = some_tokens(16, 6, seed=step)
        tokens = torch.cat([half, half], dim=1)
        loss = model.token_losses(tokens[:, :-1], tokens[:, 1:])[0][:, 5:].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] > 2.2
    assert losses[-1] < 0.5


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("tokens", "memory", "message"),
    [
        (torch.tensor([[0, VOCAB]]), None, f"tokens must lie in 0 … {VOCAB - 1}, got {VOCAB}"),
        (torch.tensor([[0, -1]]), None, f"tokens must lie in 0 … {VOCAB - 1}, got -1"),
        (
            torch.zeros(2, 3, dtype=torch.int64),
            torch.zeros(2, 4, 1, 8),
            "the batch size of tokens, 2, got 4",
        ),
        (
            torch.zeros(2, 3, dtype=torch.int64),
            torch.zeros(3, 2, 1, 8),
            "2 layers of width 8, got 3 of width 8",
        ),
        (
            torch.zeros(2, 3, dtype=torch.int64),
            torch.zeros(2, 2, 1, 6),
            "2 layers of width 8, got 2 of width 6",
        ),
    ],
)
def test_input_that_does_not_fit_the_model_is_refused(tokens, memory, message):
    with pytest.raises(ValueError, match=message):
        small_model()(tokens, memory)


def test_targets_outside_the_vocabulary_are_refused():
    with pytest.raises(ValueError, match=f"targets must lie in 0 … {VOCAB - 1}, got {VOCAB}"):
        small_model().token_losses(some_tokens(1, 2), torch.tensor([[0, VOCAB]]))


def test_a_segment_beyond_the_learned_table_is_refused():
    model = small_model(attention="absolute", positions="learned", max_seg_len=4)
    model(some_tokens(1, 4))
    with pytest.raises(ValueError, match="at most max_seg_len = 4 tokens, got 5"):
        model(some_tokens(1, 5))


def test_an_unknown_keyword_is_refused():
    with pytest.raises(TypeError, match="same_length"):
        small_model()(some_tokens(1, 4), same_length=True)


@given(window=st.integers(1, 9))
def test_cross_entropy_of_the_log_probabilities_is_the_loss(window):
    model, tokens, targets = small_model(), some_tokens(2, 5), some_tokens(2, 5, seed=1)
    expected = cross_entropy(model(tokens, window=window)[0].flatten(0, 1), targets.flatten())
    found = model.token_losses(tokens, targets, window=window)[0].mean()
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_variational_dropout_draws_one_mask_for_all_tokens_of_a_segment():
    dropout = FastVariationalDropout(0.5)
    torch.manual_seed(0)
    dropped = dropout(torch.ones(40, 7, 30))
    assert torch.equal(dropped, dropped[:, :1].expand(40, 7, 30))
    assert not torch.equal(dropped[0], dropped[1])
    assert dropped.mean().item() == pytest.approx(1, abs=0.15)
    assert torch.equal(dropout.eval()(dropped), dropped)


def test_a_variational_model_has_no_dropout_of_the_other_kind_on_its_residual_stream():
    model = TransformerLM(small_config(variational_dropout=True, dropout=0.5))
    kinds = [type(module) for name, module in model.named_modules() if isinstance(module, torch.nn.Dropout)]
    plain = [kind for kind in kinds if kind is torch.nn.Dropout]
    assert len(plain) == 2 * model.config.n_layer  # of attention weights, and of R: neither runs over tokens
    assert len(kinds) - len(plain) == 2 * model.config.n_layer + 1


def test_word_dropout_drops_every_occurrence_of_a_word_and_keeps_the_mean():
    model = TransformerLM(small_config(attention="xl", word_dropout=0.4))
    tokens = torch.arange(VOCAB).repeat(1, 2)
    torch.manual_seed(0)
    drawn = torch.stack([model.embed(tokens) for _ in range(2000)])
    assert torch.equal(drawn[:, :, :VOCAB], drawn[:, :, VOCAB:])
    gone = (drawn[:, 0, :VOCAB] == 0).all(-1)
    assert gone.double().mean().item() == pytest.approx(0.4, abs=0.02)
    plain = model.eval().embed(tokens)
    error = drawn.std(0) / sqrt(len(drawn))
    assert ((drawn.mean(0) - plain).abs() <= 5 * error).all()


def masked(model, tokens):
    """A memory of which the mask hides all, as of rows that begin a new text."""
    memory = model.empty_memory(1).new_zeros(6, 1, 4, 8)
    return {"memory": memory, "key_mask": torch.arange(4 + tokens.shape[1])[None] >= 4}


CALLS = {
    "no memory": lambda *_: {},
    "a memory that is hidden": masked,
    "a window of 1": lambda *_: {"window": 1},
    "a mask that hides the token itself": lambda _, tokens: {
        "key_mask": torch.arange(tokens.shape[1])[None] >= 1
    },
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("attention", ["xl", "rotary", "alibi", "t5"])
def test_word_dropout_leaves_a_token_that_sees_itself_alone(attention, call, monkeypatch):
    """A vector of 0 stays 0 in all layers, and each of the 12 norms multiplies its gradient by 316."""
    sizes = {"n_layer": 6, "d_head": 4, "norm": "post", "dropout": 0.0}
    config = small_config(attention=attention, word_dropout=0.5, **sizes)
    torch.manual_seed(0)
    model, tokens = TransformerLM(config).train(), torch.arange(VOCAB)[None]
    first_of_all = torch.ones(VOCAB).index_fill_(0, tokens[:, 0], 0.0)
    monkeypatch.setattr(
        "minitxl.model.functional.dropout", lambda x, *_: x * first_of_all if x.shape == (VOCAB,) else x
    )

    def greatest_gradient():
        model.zero_grad()
        model.token_losses(tokens, tokens, **CALLS[call](model, tokens))[0].mean().backward()
        return max(one.grad.abs().max().item() for one in model.parameters() if one.grad is not None)

    assert (model.embed(tokens)[:, 0] == 0).all()
    assert greatest_gradient() < 10
    embed = model.embed
    monkeypatch.setattr(model, "embed", lambda tokens, isolated: embed(tokens))
    assert greatest_gradient() > 1e20


def test_the_clamp_of_the_model_holds_where_a_call_names_none():
    clamped, free = small_model(attention="xl", clamp_len=2), small_model(attention="xl")
    tokens = some_tokens(2, 7)
    assert torch.equal(clamped(tokens)[0], free(tokens, clamp_len=2)[0])
    assert torch.equal(clamped(tokens, clamp_len=4)[0], free(tokens, clamp_len=4)[0])
    assert not torch.allclose(clamped(tokens)[0], free(tokens)[0])


def test_an_adaptive_model_is_normalised_and_its_losses_are_in_token_order():
    model = small_model(cutoffs=(4, 7), div_val=2, tie_projections=(False, True, True))
    tokens, targets = some_tokens(2, 6), some_tokens(2, 6, seed=1)
    log_probs, _ = model(tokens)
    losses, _ = model.token_losses(tokens, targets)
    torch.testing.assert_close(log_probs.logsumexp(-1), torch.zeros(2, 6).double(), rtol=0, atol=1e-12)
    torch.testing.assert_close(losses, -log_probs.gather(2, targets[..., None])[..., 0], rtol=0, atol=1e-12)
    assert model.output.projections[1].weight is model.embedding.projections[1].weight


def test_attention_weights_in_training_change_with_the_dropout_of_the_layers_below():
    model, tokens = small_model(dropout=0.0, attention_dropout=0.5).train(), some_tokens(2, 9)
    first, second = model.attention_weights(tokens), model.attention_weights(tokens)
    assert torch.equal(first[0], second[0])
    assert not any(torch.allclose(one, other) for one, other in zip(first[1:], second[1:], strict=True))


@every_encoding
@every_norm
def test_attention_dropout_and_residual_dropout_have_their_rates(encoding, norm):
    model = TransformerLM(small_config(norm=norm, dropout=0.3, attention_dropout=0.2, **ENCODINGS[encoding]))
    rates = {name: module.p for name, module in model.named_modules() if isinstance(module, torch.nn.Dropout)}
    assert {rate for name, rate in rates.items() if name.endswith("attention_dropout")} == {0.2}
    assert {rate for name, rate in rates.items() if not name.endswith("attention_dropout")} == {0.3}


@every_encoding
@pytest.mark.parametrize("implementation", [to_plain, to_fast])
def test_the_last_positions_alone_are_what_they_are_among_all(encoding, implementation):
    model, tokens = implementation(small_model(**ENCODINGS[encoding])), some_tokens(2, 12)
    _, memory = model.last_hidden(tokens[:, :4])
    key_mask = torch.rand(2, 12, generator=torch.Generator().manual_seed(0)) < 0.7
    options = {"window": 5, "clamp_len": 3, "key_mask": key_mask}
    hidden, states = model.last_hidden(tokens[:, 4:], memory, **options)
    for last in (1, 3, 8):
        some, same = model.last_hidden(tokens[:, 4:], memory, n_last=last, **options)
        torch.testing.assert_close(some, hidden[:, -last:], rtol=1e-10, atol=1e-10)
        assert torch.equal(same, states)


def test_an_ignored_target_has_no_loss_and_no_gradient():
    model, tokens = small_model(cutoffs=(4, 8), div_val=2), some_tokens(2, 6)
    targets = tokens.roll(-1, dims=1)
    padded = targets.clone()
    padded[0, 3:], padded[1, 0] = -100, -100
    expected, _ = model.token_losses(tokens, targets)
    losses, _ = model.token_losses(tokens, padded, ignore_index=-100)
    assert torch.equal(losses, expected.masked_fill(padded == -100, 0.0))
    parameters = list(model.parameters())
    found = torch.autograd.grad(losses.sum(), parameters)
    of_the_others = torch.autograd.grad(expected[padded != -100].sum(), parameters)
    for one, other in zip(found, of_the_others, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_an_option_that_does_not_exist_is_named(as_users_run_it):
    with pytest.raises(
        TypeError, match="the options of attention are window, clamp_len, key_mask, got windw"
    ):
        small_model()(some_tokens(1, 3), windw=3)
