from math import exp, sqrt

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention

from minitxl.attention import MultiHeadAttention, XLAttention, split, visible
from minitxl.positions import sinusoids

D_MODEL = 6
shapes = st.tuples(
    st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(1, 5), st.integers(0, 6)
)
windows = st.none() | st.integers(1, 8)


def random_attention(kind: type, n_head: int, d_head: int, seed: int = 0):
    torch.manual_seed(seed)
    attention = kind(D_MODEL, n_head, d_head).double()
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.normal_()
    return attention


def context(batch: int, query: int, mem: int, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(batch, query, D_MODEL, dtype=torch.float64, generator=generator)
    memory = torch.randn(batch, mem, D_MODEL, dtype=torch.float64, generator=generator)
    return x, memory


@given(query=st.integers(1, 6), mem=st.integers(0, 6), window=windows)
def test_a_query_sees_itself_and_at_most_window_keys_before_it(query, mem, window):
    seen = visible(query, mem + query, window=window)[0, 0]
    for i in range(query):
        for j in range(mem + query):
            distance = mem + i - j
            assert seen[i, j] == (0 <= distance < (window or mem + query))


def test_keep_hides_a_key_of_its_own_row_from_every_query():
    keep = torch.tensor([[True, False, True], [True, True, True]])
    seen = visible(2, 3, keep=keep)[:, 0]
    assert seen[0].tolist() == [[True, False, False], [True, False, True]]
    assert seen[1].tolist() == [[True, True, False], [True, True, True]]


def test_a_window_of_no_keys_and_a_keep_of_another_length_are_refused():
    with pytest.raises(ValueError, match=r"window must be 1 or more, .* got 0"):
        visible(2, 3, window=0)
    with pytest.raises(ValueError, match="one flag for each of the 3 keys, got 2"):
        visible(2, 3, keep=torch.ones(1, 2, dtype=torch.bool))


@given(shape=shapes, window=windows)
def test_multi_head_attention_equals_torchs_own(shape, window):
    batch, n_head, d_head, query, mem = shape
    attention = random_attention(MultiHeadAttention, n_head, d_head)
    x, memory = context(batch, query, mem)
    h = torch.cat([memory, x], dim=1)
    q, k, v = (split(w(a), n_head) for w, a in ((attention.W_q, x), (attention.W_k, h), (attention.W_v, h)))
    seen = visible(query, mem + query, window=window)
    heads = scaled_dot_product_attention(q, k, v, attn_mask=seen)
    expected = attention.W_o(heads.transpose(1, 2).flatten(2))
    torch.testing.assert_close(attention(x, memory, window=window), expected, rtol=0, atol=1e-10)


@settings(max_examples=30)
@given(shape=shapes, window=windows, clamp_len=st.none() | st.integers(0, 8))
def test_xl_attention_equals_the_papers_sum_computed_one_entry_at_a_time(shape, window, clamp_len):
    batch, n_head, d_head, query, mem = shape
    attention = random_attention(XLAttention, n_head, d_head)
    x, memory = context(batch, query, mem)
    h = torch.cat([memory, x], dim=1)
    key = mem + query
    R = sinusoids(torch.arange(key, dtype=torch.float64), D_MODEL)

    def head_rows(weight: torch.nn.Linear, n: int) -> torch.Tensor:
        return weight.weight[n * d_head : (n + 1) * d_head]

    outputs = torch.zeros(batch, query, n_head * d_head, dtype=torch.float64)
    for b in range(batch):
        for n in range(n_head):
            W_q, W_kE = head_rows(attention.W_q, n), head_rows(attention.W_kE, n)
            W_kR, W_v = head_rows(attention.W_kR, n), head_rows(attention.W_v, n)
            u, v = attention.u[n], attention.v[n]
            for i in range(query):
                q, scores = W_q @ x[b, i], {}
                for j in range(mem + i + 1):
                    distance = mem + i - j
                    if distance >= (window or key):
                        continue
                    R_ij = R[distance if clamp_len is None else min(distance, clamp_len)]
                    a, c = q @ W_kE @ h[b, j], u @ W_kE @ h[b, j]
                    b_term, d = q @ W_kR @ R_ij, v @ W_kR @ R_ij
                    scores[j] = ((a + b_term + c + d) / sqrt(d_head)).item()
                total = sum(exp(score - max(scores.values())) for score in scores.values())
                outputs[b, i, n * d_head : (n + 1) * d_head] = sum(
                    exp(score - max(scores.values())) / total * (W_v @ h[b, j]) for j, score in scores.items()
                )
    expected = attention.W_o(outputs)
    found = attention(x, memory, window=window, clamp_len=clamp_len)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


@given(shape=shapes, clamp_len=st.none() | st.integers(0, 8))
def test_the_four_terms_sum_to_the_scores_where_a_query_may_look(shape, clamp_len):
    batch, n_head, d_head, query, mem = shape
    attention = random_attention(XLAttention, n_head, d_head)
    x, memory = context(batch, query, mem)
    seen = visible(query, mem + query)
    total = sum(attention.terms(x, memory, clamp_len=clamp_len))
    scores = attention.scores(x, memory, clamp_len=clamp_len)
    torch.testing.assert_close(total * seen, scores * seen, rtol=0, atol=1e-10)


def test_each_term_depends_on_its_own_half_of_the_context():
    attention = random_attention(XLAttention, n_head=2, d_head=3)
    x, memory = context(1, 4, 3)
    terms = attention.terms(x, memory)
    other = attention.terms(x.flip(1) * 2, memory)
    assert torch.equal(terms.d, other.d)  # (d) knows no content
    assert (terms.c[:, :, 0] == terms.c[:, :, 3]).all()  # (c) does not ask which query
    seen = visible(4, 7)
    shifted = (terms.b * seen)[0, 0]
    assert not torch.allclose(shifted[3].roll(-1)[:4], shifted[2][:4])  # (b) asks which query


@pytest.mark.parametrize("kind", [MultiHeadAttention, XLAttention])
def test_hidden_keys_lose_their_weight_to_the_others(kind):
    attention = random_attention(kind, n_head=2, d_head=3)
    x, memory = context(2, 3, 4)
    keep = torch.ones(2, 7, dtype=torch.bool)
    keep[0, 1] = False
    whole, masked = attention.weights(x, memory), attention.weights(x, memory, keep=keep)
    assert (masked[0, :, :, 1] == 0).all()
    rest = whole[0] * keep[0]
    torch.testing.assert_close(masked[0], rest / rest.sum(-1, keepdim=True), rtol=0, atol=1e-12)
    assert torch.equal(masked[1], whole[1])


@pytest.mark.parametrize("kind", [MultiHeadAttention, XLAttention])
def test_a_query_with_no_key_gets_zeros_and_finite_gradients(kind):
    attention = random_attention(kind, n_head=2, d_head=3)
    x, _ = context(1, 3, 0)
    x.requires_grad_()
    keep = torch.tensor([[False, True, True]])
    output = attention(x, keep=keep)
    assert (output[0, 0] == 0).all()
    output.sum().backward()
    assert x.grad.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in attention.parameters())


@pytest.mark.parametrize("kind", [MultiHeadAttention, XLAttention])
def test_no_memory_equals_memory_of_no_tokens(kind):
    attention = random_attention(kind, n_head=2, d_head=3)
    x, memory = context(2, 4, 0)
    assert torch.equal(attention(x), attention(x, memory))


def test_weights_that_belong_to_distance_alone_get_gradients():
    attention = random_attention(XLAttention, n_head=2, d_head=3)
    x, memory = context(2, 4, 3)
    attention(x, memory).square().sum().backward()
    for parameter in (attention.u, attention.v, attention.W_kR.weight, attention.W_kE.weight):
        assert parameter.grad.abs().sum() > 0


@pytest.mark.parametrize("kind", [MultiHeadAttention, XLAttention])
def test_attention_dropout_keeps_the_mean_of_the_output(kind):
    attention = kind(D_MODEL, 2, 3, attention_dropout=0.3).double()
    x, memory = context(1, 3, 4)
    expected = attention.eval()(x, memory)
    attention.train()
    torch.manual_seed(0)
    drawn = torch.stack([attention(x, memory) for _ in range(4000)])
    error = drawn.std(0) / sqrt(len(drawn))
    assert ((drawn.mean(0) - expected).abs() < 5 * error).all()
    assert not torch.equal(drawn[0], drawn[1])


def test_position_dropout_zeroes_entries_of_r_at_its_rate():
    attention = XLAttention(64, 2, 3, dropout=0.25)
    torch.manual_seed(0)
    dropped = attention.drop_positions(torch.ones(400, 64))
    assert (dropped == 0).double().mean().item() == pytest.approx(0.25, abs=0.02)
    x = torch.randn(1, 5, 64)
    assert not torch.equal(attention(x), attention(x))
