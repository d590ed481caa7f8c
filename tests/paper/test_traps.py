"""Faults that implementations of these papers have had, and the property that catches each."""

from math import inf, sqrt

import pytest
import torch
from einops import einsum, rearrange
from models import ABSOLUTE, ENCODINGS, RELATIVE, in_segments, small_config, small_model, some_tokens
from torch import nn

from minitxl.attention import (
    MultiHeadAttention,
    ShawAttention,
    XLAttention,
    attention_mask,
    concat_memory,
    masked_softmax,
    merge_heads,
    split_heads,
    weighted_sum,
)
from minitxl.data.batching import ContiguousBatches
from minitxl.inference.config import EvaluateConfig
from minitxl.inference.evaluation import cached
from minitxl.memory import extend
from minitxl.position_encodings import sinusoids
from minitxl.relative_shift import rel_shift
from minitxl.training import loop
from minitxl.training.config import TrainConfig
from minitxl.training.schedules import learning_rate
from minitxl.training.step import train_step

every_encoding = pytest.mark.parametrize("encoding", ENCODINGS)
every_relative_encoding = pytest.mark.parametrize("encoding", RELATIVE)


def same(found: torch.Tensor, expected: torch.Tensor) -> bool:
    return torch.allclose(found, expected, rtol=0, atol=1e-10)


def differ(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """By far more than rounding; what is not a number differs from everything."""
    return not torch.allclose(found, expected, rtol=0, atol=1e-3)


def random_attention(kind, **settings):
    torch.manual_seed(0)
    attention = kind(6, 2, 3, **settings).double()
    for parameter in attention.parameters():
        nn.init.normal_(parameter)
    return attention, torch.randn(1, 4, 6, dtype=torch.float64), torch.randn(1, 3, 6, dtype=torch.float64)


# 1. The memory update and its lengths


def test_swapped_lengths_in_the_memory_update_keep_the_wrong_tokens():
    def update(memory, states, mem, seg, *, mem_len, ext_len):
        """Up to ``ext_len`` tokens before the end: those are read again with the next segment."""
        end = mem + max(0, seg - ext_len)
        return torch.cat([memory, states], dim=2)[:, :, max(0, end - mem_len) : end]

    time = torch.arange(7.0).reshape(1, 1, 7, 1)
    memory, states = time[:, :, :2], time[:, :, 2:]
    right = extend(memory, states, mem_len=4)
    assert torch.equal(right, time[:, :, 3:])
    for first, second in ((2, 5), (5, 2)):  # nothing to notice while ext_len is 0
        assert torch.equal(update(memory, states, first, second, mem_len=4, ext_len=0), right)
    without_the_end = extend(memory, states[:, :, :-3], mem_len=4)
    assert torch.equal(update(memory, states, 2, 5, mem_len=4, ext_len=3), without_the_end)
    assert not torch.equal(update(memory, states, 5, 2, mem_len=4, ext_len=3), without_the_end)


# 2. same_length


def same_length(query: int, mem: int, *, mem_len: int) -> torch.Tensor:
    """The original mask, True for seen: ``mem_len`` keys, the query itself among them."""
    key = mem + query
    past_the_window = query - max(0, key - mem_len)
    hidden = torch.ones(query, key).triu(1 + mem) + torch.ones(query, key).tril(-past_the_window)
    return (hidden == 0)[None]


def test_same_length_never_reads_the_oldest_slot_of_memory():
    attention, x, memory = random_attention(XLAttention)
    for mem in range(4):
        assert torch.equal(same_length(4, mem, mem_len=3), attention_mask(4, mem + 4, window=3))

    def gradient_of_the_oldest_slot(window):
        slots = memory.clone().requires_grad_()
        attention(x, slots, window=window).square().sum().backward()
        return slots.grad[:, 0]

    assert (gradient_of_the_oldest_slot(3) == 0).all()
    assert (gradient_of_the_oldest_slot(4) != 0).all()


def test_same_length_without_memory_hides_everything():
    hidden = ~same_length(4, 0, mem_len=0)
    assert hidden.all()
    scores = torch.randn(1, 2, 4, 4)
    assert scores.masked_fill(hidden[:, None], -inf).softmax(-1).isnan().all()
    assert (masked_softmax(scores, ~hidden) == 0).all()
    assert torch.equal(attention_mask(4, 4, window=1)[0], torch.eye(4, dtype=torch.bool))
    with pytest.raises(ValueError, match="window must be 1 or more"):
        attention_mask(4, 4, window=0)


# 3. The two free invariants


FAULTY_UPDATES = {
    "no memory": lambda memory, states, *, mem_len: extend(None, states, mem_len=0),
    "the last segment alone": lambda memory, states, *, mem_len: extend(None, states, mem_len=mem_len),
    "each layer given the memory of the next": lambda memory, states, *, mem_len: extend(
        memory, states.roll(-1, dims=0), mem_len=mem_len
    ),
    "the newest tokens in front": lambda memory, states, *, mem_len: (
        states if memory is None else torch.cat([states, memory], dim=2)[:, :, :mem_len]
    ).detach(),
    "one token too few": lambda memory, states, *, mem_len: extend(memory, states, mem_len=mem_len - 1),
}


FAULTS = [
    (encoding, fault)
    for encoding in RELATIVE
    for fault in FAULTY_UPDATES
    if (encoding, fault) != ("no positions", "the newest tokens in front")  # no order, no fault
]


@pytest.mark.parametrize(("encoding", "fault"), FAULTS)
def test_a_faulty_memory_breaks_both_invariants(encoding, fault):
    model, tokens = small_model(**RELATIVE[encoding]), some_tokens(2, 12)
    update = FAULTY_UPDATES[fault]
    whole, _ = model(tokens)
    assert same(in_segments(model, tokens, 4, mem_len=8), whole)
    assert differ(in_segments(model, tokens, 4, mem_len=8, update=update), whole)
    near, _ = model(tokens, window=6)
    for seg_len in (2, 3):
        assert same(in_segments(model, tokens, seg_len, mem_len=5, window=6), near)
        assert differ(in_segments(model, tokens, seg_len, mem_len=5, window=6, update=update), near)


@pytest.mark.parametrize("encoding", ABSOLUTE)
def test_positions_counted_from_the_segment_break_both_invariants(encoding):
    model, tokens = small_model(**ABSOLUTE[encoding]), some_tokens(2, 12)
    assert differ(in_segments(model, tokens, 4, mem_len=8), model(tokens)[0])
    assert differ(in_segments(model, tokens, 3, mem_len=5, window=6), model(tokens, window=6)[0])


# 4. rel_shift


def test_rel_shift_leaves_the_next_row_in_its_upper_triangle():
    by_distance = torch.arange(15.0).reshape(3, 5)  # columns of distance 4, 3, 2, 1, 0
    shifted = rel_shift(by_distance)
    assert shifted[0].tolist() == [2, 3, 4, 0, 5]
    for i in range(3):
        for j in range(3 + i):
            assert shifted[i, j] == by_distance[i, 4 - (2 + i - j)]


def test_rel_shift_without_a_causal_mask_reads_another_query():
    attention, x, _ = random_attention(XLAttention)
    seen = attention_mask(4, 4)[0]

    def by_pair(x):
        """(q_i + v) · W_kR R_{i-j} for every i and j, with the future's negative distances."""
        q = split_heads(attention.W_q(x), 2)[0] + attention.v[:, None]
        r = split_heads(attention.W_kR(sinusoids(torch.arange(-3.0, 4).double(), 6))[None], 2)[0]
        distance = torch.arange(4)[:, None] - torch.arange(4)
        return einsum(q, r[:, distance + 3], "head i dim, head i j dim -> head i j")

    def by_shift(x):
        terms = attention.terms(x)
        return (terms.b + terms.d)[0] * sqrt(3)

    assert same(by_shift(x)[:, seen], by_pair(x)[:, seen])
    assert differ(by_shift(x)[:, ~seen], by_pair(x)[:, ~seen])
    other = x.clone()
    other[:, 1] += 1
    assert torch.equal(by_pair(x)[:, 0], by_pair(other)[:, 0])
    assert differ(by_shift(x)[:, 0], by_shift(other)[:, 0])


# 5. Absolute positions and memory


@every_encoding
def test_positions_added_in_place_change_the_callers_memory(encoding):
    def faulty(tokens, memory):
        memory += sinusoids(torch.arange(memory.shape[2], dtype=memory.dtype), 8)
        return model(tokens, memory)

    model, tokens = small_model(**ENCODINGS[encoding]), some_tokens(2, 4)
    memory = extend(None, model(some_tokens(2, 5, seed=1))[1], mem_len=5)
    before = memory.clone()
    once, twice = model(tokens, memory)[0], model(tokens, memory)[0]
    assert torch.equal(memory, before)
    assert torch.equal(once, twice)
    once, twice = faulty(tokens, memory)[0], faulty(tokens, memory)[0]
    assert not torch.equal(memory, before)
    assert differ(once, twice)


# 6. Pre-norm


@pytest.mark.parametrize("attention", ["absolute", "shaw"])
def test_pre_norm_of_keys_and_values_alone_makes_attention_depend_on_the_streams_scale(attention):
    block = small_model(norm="pre", attention=attention).blocks[0]
    block.norm_attention.eps = 0.0  # so that a norm undoes any scale
    x, past = torch.randn(2, 2, 4, 8, dtype=torch.float64)

    def right(x, past):
        return block.attention.attention_weights(block.attention_input(x), block.attention_input(past))

    def queries_not_normed(x, past):
        return block.attention.context_weights(
            x, block.norm_attention(concat_memory(past, x)), attention_mask(4, 8)
        )

    def memory_not_normed(x, past):
        return block.attention.attention_weights(block.norm_attention(x), past)

    assert same(right(5 * x, 5 * past), right(x, past))
    for faulty in (queries_not_normed, memory_not_normed):
        assert differ(faulty(5 * x, 5 * past), faulty(x, past))


@every_encoding
def test_pre_norm_without_a_final_norm_lets_the_streams_scale_through(encoding):
    def growth(**settings):
        model, tokens = small_model(norm="pre", **ENCODINGS[encoding], **settings), some_tokens(1, 5)
        hidden = []
        for scale in (1e4, 10):
            with torch.no_grad():
                for weight in (*model.embedding.parameters(), *model.positions.parameters()):
                    weight *= scale
            hidden.append(model.last_hidden(tokens)[0])
        return (hidden[1].norm() / hidden[0].norm()).item()

    assert growth() == pytest.approx(1, abs=1e-2)
    assert growth(final_norm=False) == pytest.approx(10, rel=0.1)


# 7. Losses of the adaptive softmax


@pytest.mark.parametrize("div_val", [1, 2])
def test_losses_grouped_by_cluster_have_the_right_mean_and_belong_to_other_tokens(div_val):
    model = small_model(cutoffs=(4, 7), div_val=div_val)
    tokens, targets = some_tokens(1, 12), some_tokens(1, 12, seed=1)
    losses, log_probs = model.token_losses(tokens, targets)[0][0], model(tokens)[0][0]
    expected = -log_probs.gather(1, targets[0, :, None])[:, 0]
    cluster = torch.bucketize(targets[0], torch.tensor([4, 7]), right=True)
    faulty = torch.cat([expected[cluster == i] for i in range(3)])
    assert same(losses, expected)
    assert same(faulty.mean(), losses.mean())
    assert differ(faulty, expected)


# 8. Zero memory


@every_encoding
def test_zero_memory_is_not_empty_memory(encoding):
    model, tokens = small_model(**ENCODINGS[encoding]), some_tokens(2, 4)
    zeros, empty = (torch.zeros(2, 2, mem, 8, dtype=torch.float64) for mem in (3, 0))
    assert torch.equal(model(tokens, empty)[0], model(tokens)[0])
    assert differ(model(tokens, zeros)[0], model(tokens)[0])
    key_mask = torch.tensor([[False] * 3 + [True] * 4] * 2)
    assert same(model(tokens, zeros, key_mask=key_mask)[0], model(tokens)[0])


# 9. The schedule


def test_a_schedule_applied_after_the_step_takes_step_1_at_full_rate():
    settings = TrainConfig(seg_len=4, mem_len=4, batch=2, steps=40, warmup=20)

    def first_move(rates):
        """Adam's first step moves each entry by its rate, whatever the gradient."""
        weight = nn.Parameter(torch.ones(3))
        optimizer = torch.optim.Adam([weight], lr=settings.learning_rate)
        for rate in rates:
            optimizer.param_groups[0]["lr"] = rate
        weight.pow(2).sum().backward()
        optimizer.step()
        return (1 - weight).abs().max().item()

    peak, warm = settings.learning_rate, settings.learning_rate / 20
    assert learning_rate(1, settings) == pytest.approx(warm)
    assert first_move([learning_rate(1, settings)]) == pytest.approx(warm, rel=1e-2)
    assert first_move([]) == pytest.approx(peak, rel=1e-2)
    run = loop.start(small_config(), settings)
    before = [parameter.clone() for parameter in run.model.parameters()]
    train_step(run, ContiguousBatches(some_tokens(1, 30)[0], batch=2, seg_len=4))
    moves = [(new - old).abs().max() for new, old in zip(run.model.parameters(), before, strict=True)]
    assert max(moves).item() == pytest.approx(warm, rel=1e-2)


# 10. Lanes


@pytest.mark.parametrize("batch", [2, 4, 5, 8])
def test_lanes_whose_first_token_is_never_scored_make_the_result_depend_on_their_number(batch):
    model, stream = small_model(), some_tokens(1, 40)[0]
    settings = EvaluateConfig(seg_len=3, mem_len=0, window=1)  # a window of 1 misses no lane's past
    alone, together = cached(model, stream, settings), cached(model, stream, settings, batch=batch)
    assert alone.tokens == together.tokens == 39
    assert together.nats == pytest.approx(alone.nats, abs=1e-10)
    faulty, _ = model.token_losses(
        *ContiguousBatches(stream, batch=batch, seg_len=40 // batch - 1)[0], window=1
    )
    assert faulty.numel() == 40 - batch
    assert abs(faulty.sum().item() - alone.nats) > 1


# 12. Generation


@every_relative_encoding
def test_a_prefix_fed_with_its_own_memory_is_counted_twice(encoding):
    model, tokens = small_model(**RELATIVE[encoding]), some_tokens(2, 7)
    memory = extend(None, model(tokens[:, :6])[1], mem_len=7)
    expected = model(tokens)[0][:, 6]
    assert same(model(tokens[:, 6:], memory)[0][:, 0], expected)
    assert differ(model(tokens, memory)[0][:, 6], expected)


# 13. nn.ParameterList


@pytest.mark.parametrize("words", [{}, {"cutoffs": (4, 7), "div_val": 2}], ids=["one table", "clusters"])
@every_encoding
def test_no_model_keeps_parameters_in_a_list_that_replicas_find_empty(encoding, words):
    def lists(model):
        return [m for m in model.modules() if isinstance(m, nn.ParameterList | nn.ParameterDict)]

    model = small_model(**ENCODINGS[encoding], **words)
    assert not lists(model)
    model.faulty = nn.ParameterList([nn.Parameter(torch.zeros(1))])
    assert lists(model)


# Tutorials: memory without a stop-gradient


@every_encoding
def test_memory_concatenated_without_a_stop_gradient_trains_the_segment_before(encoding):
    def faulty(memory, states, *, mem_len):
        return states[:, :, -mem_len:]

    model, first, second = small_model(**ENCODINGS[encoding]), some_tokens(1, 4), some_tokens(1, 3, seed=1)
    _, states = model(first)

    def log_probs_and_gradient(update):
        log_probs, _ = model(second, update(None, states, mem_len=4))
        return log_probs, torch.autograd.grad(log_probs.square().sum(), states, allow_unused=True)[0]

    log_probs, gradient = log_probs_and_gradient(extend)
    same_log_probs, leaked = log_probs_and_gradient(faulty)
    assert torch.equal(log_probs, same_log_probs)  # nothing but the gradient tells
    assert gradient is None
    assert (leaked[:, 0].abs().amax(dim=-1) > 0).all()


# Tutorials: which of its two values a mask hides


@pytest.mark.parametrize("kind", [MultiHeadAttention, ShawAttention, XLAttention])
def test_an_additive_mask_that_takes_1_for_hidden_shows_the_future_alone(kind):
    attention, x, memory = random_attention(kind, **({"max_distance": 2} if kind is ShawAttention else {}))
    seen = attention_mask(4, 7)
    scores = torch.randn(1, 2, 4, 7)
    future = ~seen[0, :3]  # the last query has none
    faulty = (scores + seen[:, None] * -1e9).softmax(-1)[:, :, :3]
    assert (faulty[:, :, ~future] == 0).all()
    assert (masked_softmax(scores, seen)[:, :, :3][:, :, future] == 0).all()
    assert (attention.attention_weights(x, memory)[:, :, :3][:, :, future] == 0).all()


# Tutorials: axes of the weights


def test_head_and_query_axes_swapped_give_a_query_the_weights_of_another():
    attention, x, _ = random_attention(MultiHeadAttention)
    x = x[:, :2]  # as many queries as heads: no shape disagrees
    weights, v = attention.attention_weights(x), split_heads(attention.W_v(x), 2)
    swapped = einsum(weights, v, "batch query head key, batch head key dim -> batch head query dim")
    itself = attention.W_o(attention.W_v(x[:, 0]))  # all that the first query can see
    assert same(attention.W_o(merge_heads(weighted_sum(weights, v)))[:, 0], itself)
    assert same(attention(x)[:, 0], itself)
    assert differ(attention.W_o(merge_heads(swapped))[:, 0], itself)


# Tutorials: half of Shaw's attention


def test_shaws_attention_with_its_key_term_alone_cannot_place_equal_tokens():
    attention, x, _ = random_attention(ShawAttention, max_distance=2)
    equal = x[:, :1].expand(1, 4, 6)
    both = attention.context_output(equal)
    with torch.no_grad():
        attention.a_V.zero_()
    keys_alone = attention.context_output(equal)
    assert differ(both, both[:, :1].expand_as(both))
    assert same(keys_alone, keys_alone[:, :1].expand_as(both))


def test_shaws_formulas_with_the_keys_and_values_of_token_i_see_no_other_token():
    attention, x, _ = random_attention(ShawAttention, max_distance=2)
    offset = torch.arange(4)[None, :] - torch.arange(4)[:, None]
    a_K, a_V = (table[offset.clamp(-2, 2) + 2] for table in (attention.a_K, attention.a_V))

    def formulas(x, index):
        """Equations 3 and 4 with the keys and values of x_j, or of x_i."""
        q, k, v = (split_heads(W(x), 2) for W in (attention.W_q, attention.W_k, attention.W_v))
        one = {"j": "batch head j dim -> batch head 1 j dim", "i": "batch head i dim -> batch head i 1 dim"}
        keys, values = rearrange(k, one[index]) + a_K, rearrange(v, one[index]) + a_V
        e = einsum(q, keys, "batch head i dim, batch head i j dim -> batch head i j") / sqrt(3)
        z = einsum(e.softmax(-1), values, "batch head i j, batch head i j dim -> batch head i dim")
        return attention.W_o(merge_heads(z))

    assert same(attention.context_output(x), formulas(x, "j"))
    other = x.clone()
    other[:, 3] += 1
    assert differ(attention.context_output(x)[:, :3], attention.context_output(other)[:, :3])
    assert torch.equal(formulas(x, "i")[:, :3], formulas(other, "i")[:, :3])
