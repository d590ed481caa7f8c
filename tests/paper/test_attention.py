from math import exp, sqrt

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.attention import D_MODEL, context, random_attention, shapes, windows
from torch.nn.functional import scaled_dot_product_attention

from minitxl.attention import MultiHeadAttention, ShawAttention, XLAttention, attention_mask, split_heads
from minitxl.course.checker import Largest
from minitxl.position_encodings import sinusoids

KINDS = [MultiHeadAttention, ShawAttention, XLAttention]


@given(query=st.integers(1, 6), mem=st.integers(0, 6), window=windows)
def test_a_query_sees_itself_and_at_most_window_keys_before_it(query, mem, window):
    seen = attention_mask(query, mem + query, window=window)[0]
    for i in range(query):
        for j in range(mem + query):
            distance = mem + i - j
            assert seen[i, j] == (0 <= distance < (window or mem + query))


def test_keep_hides_a_key_of_its_own_row_from_every_query():
    key_mask = torch.tensor([[True, False, True], [True, True, True]])
    seen = attention_mask(2, 3, key_mask=key_mask)
    assert seen[0].tolist() == [[True, False, False], [True, False, True]]
    assert seen[1].tolist() == [[True, True, False], [True, True, True]]


def test_a_window_of_no_keys_and_a_keep_of_another_length_are_refused():
    with pytest.raises(ValueError, match=r"window must be 1 or more, got 0"):
        attention_mask(2, 3, window=0)
    with pytest.raises(ValueError, match="one flag for each of the 3 keys, got 2"):
        attention_mask(2, 3, key_mask=torch.ones(1, 2, dtype=torch.bool))


@given(shape=shapes, window=windows)
def test_multi_head_attention_equals_torchs_own(shape, window):
    batch, n_head, d_head, query, mem = shape
    attention = random_attention(MultiHeadAttention, n_head, d_head)
    x, memory = context(batch, query, mem)
    h = torch.cat([memory, x], dim=1)
    q, k, v = (
        split_heads(w(a), n_head) for w, a in ((attention.W_q, x), (attention.W_k, h), (attention.W_v, h))
    )
    seen = attention_mask(query, mem + query, window=window)
    heads = scaled_dot_product_attention(q, k, v, attn_mask=seen[:, None])
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
    seen = attention_mask(query, mem + query)
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
    seen = attention_mask(4, 7)
    shifted = (terms.b * seen)[0, 0]
    assert not torch.allclose(shifted[3].roll(-1)[:4], shifted[2][:4])  # (b) asks which query


@pytest.mark.parametrize("kind", KINDS)
def test_hidden_keys_lose_their_weight_to_the_others(kind):
    attention = random_attention(kind, n_head=2, d_head=3)
    x, memory = context(2, 3, 4)
    key_mask = torch.ones(2, 7, dtype=torch.bool)
    key_mask[0, 1] = False
    whole, masked = (
        attention.attention_weights(x, memory),
        attention.attention_weights(x, memory, key_mask=key_mask),
    )
    assert (masked[0, :, :, 1] == 0).all()
    rest = whole[0] * key_mask[0]
    torch.testing.assert_close(masked[0], rest / rest.sum(-1, keepdim=True), rtol=0, atol=1e-12)
    assert torch.equal(masked[1], whole[1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_query_with_no_key_gets_zeros_and_finite_gradients(kind):
    attention = random_attention(kind, n_head=2, d_head=3)
    x, _ = context(1, 3, 0)
    x.requires_grad_()
    key_mask = torch.tensor([[False, True, True]])
    output = attention(x, key_mask=key_mask)
    assert (output[0, 0] == 0).all()
    output.sum().backward()
    assert x.grad.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in attention.parameters())


@pytest.mark.parametrize("kind", KINDS)
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


@pytest.mark.parametrize("kind", KINDS)
def test_attention_dropout_keeps_the_mean_of_the_output(kind):
    attention = random_attention(kind, 2, 3, attention_dropout=0.3)
    x, memory = context(1, 3, 4)
    expected = attention.eval()(x, memory)
    attention.train()
    torch.manual_seed(0)
    drawn = attention(x.expand(4000, -1, -1), memory.expand(4000, -1, -1))
    error = drawn.std(0) / sqrt(len(drawn))
    assert ((drawn.mean(0) - expected).abs() < 5 * error).all()
    assert not torch.equal(drawn[0], drawn[1])


def test_position_dropout_zeroes_entries_of_r_at_its_rate():
    attention = XLAttention(64, 2, 3, dropout=0.25)
    torch.manual_seed(0)
    dropped = attention.distance_dropout(torch.ones(400, 64))
    assert (dropped == 0).double().mean().item() == pytest.approx(0.25, abs=0.02)
    x = torch.randn(1, 5, 64)
    assert not torch.equal(attention(x), attention(x))


@given(shape=shapes, other=st.integers(1, 5), masked=st.booleans())
def test_cross_attention_equals_torchs_own_with_any_mask(shape, other, masked):
    batch, n_head, d_head, query, _ = shape
    attention = random_attention(MultiHeadAttention, n_head, d_head)
    x, context_of_another = context(batch, query, other)
    mask = torch.rand(batch, query, other, generator=torch.Generator().manual_seed(1)) < 0.5
    mask[:, :, 0] = True
    q = split_heads(attention.W_q(x), n_head)
    k, v = (split_heads(w(context_of_another), n_head) for w in (attention.W_k, attention.W_v))
    heads = scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None] if masked else None)
    expected = attention.W_o(heads.transpose(1, 2).flatten(2))
    found = attention.context_output(x, context_of_another, mask if masked else None)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    weights = attention.context_weights(x, context_of_another, mask if masked else None)
    assert weights.shape == (batch, n_head, query, other)
    if masked:
        assert (weights.transpose(0, 1)[:, ~mask] == 0).all()  # the mask is the same for all heads


def shaw_by_loops(attention: ShawAttention, x: torch.Tensor, h: torch.Tensor, sees, clamp_len=None):
    """Equations 3 and 4, one pair at a time; ``sees(i, j)`` with i and j counted along h."""
    batch, query, key, d_head = len(x), x.shape[1], h.shape[1], attention.d_head
    nearest = min(attention.max_distance, attention.max_distance if clamp_len is None else clamp_len)
    outputs = torch.zeros(batch, query, attention.n_head * d_head, dtype=torch.float64)
    for b in range(batch):
        for n in range(attention.n_head):
            head = slice(n * d_head, (n + 1) * d_head)
            W_q, W_k, W_v = (w.weight[head] for w in (attention.W_q, attention.W_k, attention.W_v))
            for row in range(query):
                i, energies, values = key - query + row, [], []
                for j in range(key):
                    if sees(i, j):
                        a = max(-nearest, min(nearest, j - i)) + attention.max_distance
                        energies.append((W_q @ x[b, row]) @ (W_k @ h[b, j] + attention.a_K[a]) / sqrt(d_head))
                        values.append(W_v @ h[b, j] + attention.a_V[a])
                weights = torch.stack(energies).softmax(0)
                outputs[b, row, head] = (weights[:, None] * torch.stack(values)).sum(0)
    return attention.W_o(outputs)


@settings(max_examples=25)
@given(shape=shapes, window=windows, k=st.integers(0, 6), clamp_len=st.none() | st.integers(0, 7))
def test_causal_shaw_attention_equals_the_papers_equations(shape, window, k, clamp_len):
    batch, n_head, d_head, query, mem = shape
    attention = random_attention(ShawAttention, n_head, d_head, max_distance=k)
    x, memory = context(batch, query, mem)
    h = torch.cat([memory, x], dim=1)
    expected = shaw_by_loops(attention, x, h, lambda i, j: 0 <= i - j < (window or mem + query), clamp_len)
    found = attention(x, memory, window=window, clamp_len=clamp_len)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


@settings(max_examples=25)
@given(shape=shapes, k=st.integers(0, 6))
def test_bidirectional_shaw_attention_equals_the_papers_equations(shape, k):
    batch, n_head, d_head, query, _ = shape
    attention = random_attention(ShawAttention, n_head, d_head, max_distance=k)
    x, _ = context(batch, query, 0)
    expected = shaw_by_loops(attention, x, x, lambda i, j: True)
    torch.testing.assert_close(attention.context_output(x), expected, rtol=0, atol=1e-10)


def test_shaw_has_2k_plus_1_vectors_for_all_heads_and_treats_clipped_distances_alike():
    attention = random_attention(ShawAttention, n_head=2, d_head=3, max_distance=2)
    assert attention.a_K.shape == attention.a_V.shape == (5, 3)
    rows = attention.table_rows(torch.zeros(1, 1, 7, 7), None)[0, 0]
    assert rows[3].tolist() == [0, 0, 1, 2, 3, 4, 4]
    same = torch.ones(1, 6, D_MODEL, dtype=torch.float64)
    weights = attention.attention_weights(same)[0, :, 5]
    assert (weights[:, :4] == weights[:, :1]).all()  # distances 5, 4, 3 and 2
    assert (weights[:, 4] != weights[:, 3]).all()


def test_the_causal_language_model_uses_shaws_rows_of_the_past_alone():
    attention = random_attention(ShawAttention, n_head=2, d_head=3, max_distance=3)
    x, memory = context(2, 4, 3)
    attention(x, memory).square().sum().backward()
    for table in (attention.a_K, attention.a_V):
        assert (table.grad[4:] == 0).all()
        assert (table.grad[:4].abs().sum(1) > 0).all()


def test_shaw_builds_no_tensor_of_query_key_and_dim():
    query = key = 32
    attention = ShawAttention(8, 1, 64, max_distance=4)
    x = torch.randn(1, query, 8)
    with Largest() as seen:
        attention.context_output(x).sum().backward()
    assert seen.numbers < query * key * 64
    with Largest() as seen:
        attention.a_K[attention.table_rows(torch.zeros(1, 1, query, key), None)]
    assert seen.numbers == query * key * 64
