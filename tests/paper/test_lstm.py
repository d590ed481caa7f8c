"""The LSTM of the comparisons: a state that goes in and comes out, and the Transformer's calls."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from models import VOCAB, small_lstm, small_model, some_tokens

from minitxl.lstm import LSTMLM, LSTMConfig, config_near

TOKENS = some_tokens(3, 12)


@given(seg_lens=st.lists(st.integers(1, 5), min_size=1, max_size=4), n_layer=st.integers(1, 3))
def test_a_text_in_segments_is_read_as_if_it_were_whole(seg_lens, n_layer):
    model, tokens, state, found = small_lstm(n_layer=n_layer), some_tokens(3, sum(seg_lens)), None, []
    for segment in tokens.split(seg_lens, dim=1):
        log_probs, state = model(segment, state)
        found.append(log_probs)
    whole, end = model(tokens)
    torch.testing.assert_close(torch.cat(found, dim=1), whole, rtol=0, atol=1e-12)
    torch.testing.assert_close(state, end, rtol=0, atol=1e-12)


def test_one_layer_follows_the_equations_of_an_lstm():
    """i f g o = σ σ tanh σ of W_x x + W_h h + b;  c ← f c + i g;  h ← o tanh c."""
    model, h, c = small_lstm(n_layer=1), torch.zeros(3, 6).double(), torch.zeros(3, 6).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter))
    for x in model.embedding(TOKENS).unbind(dim=1):
        gates = x @ model.lstm.weight_ih_l0.T + h @ model.lstm.weight_hh_l0.T
        i, f, g, o = (gates + model.lstm.bias_ih_l0 + model.lstm.bias_hh_l0).chunk(4, dim=1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
    log_probs, state = model(TOKENS)
    torch.testing.assert_close(state, torch.stack([h, c])[:, None], rtol=0, atol=1e-12)
    expected = (h @ model.embedding.weight.T + model.bias).log_softmax(dim=1)
    torch.testing.assert_close(log_probs[:, -1], expected, rtol=0, atol=1e-12)


def test_losses_are_those_of_the_log_probabilities_in_token_order():
    model, targets = small_lstm(), some_tokens(3, 12, seed=1)
    log_probs, state = model(TOKENS)
    losses, same_state = model.token_losses(TOKENS, targets)
    torch.testing.assert_close(losses, -log_probs.gather(-1, targets[..., None])[..., 0])
    torch.testing.assert_close(log_probs.exp().sum(dim=-1), torch.ones(3, 12).double())
    assert torch.equal(state, same_state)


def test_the_last_positions_alone_are_those_of_all():
    model = small_lstm()
    (whole, state), (last, same_state) = model.last_hidden(TOKENS), model.last_hidden(TOKENS, n_last=4)
    assert torch.equal(whole[:, -4:], last)
    assert torch.equal(state, same_state)


def test_no_gradient_crosses_a_segment():
    model, read = small_lstm(), []
    model.embedding.register_forward_hook(lambda module, inputs, output: read.append(output))
    _, state = model(TOKENS[:, :6])
    assert not state.requires_grad
    losses, _ = model.token_losses(TOKENS[:, 6:], TOKENS[:, 6:], state)
    before, now = torch.autograd.grad(losses.sum(), read, allow_unused=True)
    assert before is None
    assert now.abs().sum() > 0


def test_a_new_lstm_remembers_and_depends_on_the_seed_alone():
    model = small_lstm(seed=3, d_model=10)
    for layer in range(2):
        sum_of_biases = getattr(model.lstm, f"bias_ih_l{layer}") + getattr(model.lstm, f"bias_hh_l{layer}")
        assert sum_of_biases.tolist() == [0.0] * 10 + [1.0] * 10 + [0.0] * 20
        assert 0.2 < getattr(model.lstm, f"weight_hh_l{layer}").abs().max() <= 10**-0.5
    assert model.embedding.weight.std().item() == pytest.approx(0.5, rel=0.2)
    same, other = small_lstm(seed=3, d_model=10), small_lstm(seed=4, d_model=10)
    assert torch.equal(model.embedding.weight, same.embedding.weight)
    assert not torch.equal(model.lstm.weight_ih_l0, other.lstm.weight_ih_l0)


@pytest.mark.parametrize("n_layer", [1, 2])
def test_dropout_acts_in_training_alone(n_layer):
    model = small_lstm(n_layer=n_layer, dropout=0.5)
    (one, _), (other, _) = model(TOKENS), model(TOKENS)
    assert not torch.equal(one, other)
    model.eval()
    (one, _), (other, _) = model(TOKENS), model(TOKENS)
    assert torch.equal(one, other)
    assert torch.equal(one, small_lstm(n_layer=n_layer)(TOKENS)[0])


def test_it_learns_to_carry_a_symbol_to_the_end_of_a_segment():
    """Each lane repeats its own symbol after five equal ones: without carrying it, log 4 nats."""
    lanes = torch.tensor([[1 + lane, 0, 0, 0, 0, 0] * 2 for lane in range(4)])
    model = small_lstm(d_model=16).float()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(250):
        losses, _ = model.token_losses(lanes[:, :6], lanes[:, 1:7])
        optimizer.zero_grad()
        losses.mean().backward()
        optimizer.step()
    assert losses[:, -1].max() < 0.2


def test_half_of_embeddings_and_outputs_are_dropped_and_twice_the_rest_is_left():
    model, read = small_lstm(d_model=40, dropout=0.5), []
    model.lstm.register_forward_pre_hook(lambda module, inputs: read.append(inputs[0]))
    hidden, _ = model.last_hidden(some_tokens(8, 30))
    for dropped in (read[0], hidden):
        assert (dropped == 0).double().mean().item() == pytest.approx(0.5, abs=0.03)
    embedded = model.embedding(some_tokens(8, 30))
    kept = read[0] != 0
    torch.testing.assert_close(read[0][kept], 2 * embedded[kept])
    assert (model.lstm.dropout, small_lstm(n_layer=1, dropout=0.5).lstm.dropout) == (0.5, 0)


@given(vocab_size=st.integers(1, 40), n_layer=st.integers(1, 3), budget=st.integers(0, 9000))
def test_no_width_is_nearer_to_the_budget(vocab_size, n_layer, budget):
    found = config_near(budget, vocab_size=vocab_size, n_layer=n_layer, dropout=0.3)
    widths = [LSTMConfig(vocab_size, n_layer, width, 0.3) for width in range(1, 40)]
    nearest = min(widths, key=lambda config: abs(config.n_parameter - budget))
    assert found == nearest


def test_an_lstm_as_large_as_a_transformer():
    transformer = small_model(n_layer=3, d_model=64, d_inner=256, n_head=4, d_head=16)
    budget = sum(parameter.numel() for parameter in transformer.parameters())
    config = config_near(budget, vocab_size=VOCAB)
    count = sum(parameter.numel() for parameter in LSTMLM(config).parameters())
    assert count == config.n_parameter
    assert count == pytest.approx(budget, rel=0.02)


def test_impossible_settings_are_refused(as_users_run_it):
    with pytest.raises(ValueError, match="n_layer must be 1 or more, got 0"):
        LSTMConfig(n_layer=0)
    with pytest.raises(ValueError, match="d_model must be 1 or more, got -2"):
        LSTMConfig(d_model=-2)
    with pytest.raises(ValueError, match=r"dropout must be below 1, got 1\.0"):
        LSTMConfig(dropout=1.0)
    with pytest.raises(ValueError, match="dropout must be a number, got 'a'"):
        LSTMConfig(dropout="a")


def test_bad_calls_are_refused(as_users_run_it):
    model = small_lstm()
    with pytest.raises(ValueError, match="tokens must lie in 0 … 10, got 11"):
        model(torch.tensor([[1, 11]]))
    with pytest.raises(ValueError, match="targets must lie in 0 … 10, got -1"):
        model.token_losses(torch.tensor([[1]]), torch.tensor([[-1]]))
    with pytest.raises(ValueError, match=r"one id for each token of hidden, got \(1, 2\) for \(1, 1\)"):
        model.token_losses(torch.tensor([[1]]), torch.tensor([[1, 2]]))
    with pytest.raises(ValueError, match="n_last must be 1 or more, got 0"):
        model.last_hidden(TOKENS, n_last=0)
    with pytest.raises(ValueError, match="config must be of the class LSTMConfig, got str"):
        LSTMLM("x")
    with pytest.raises(ValueError, match=r"state must be a tensor \[2 layer batch model\], got list"):
        model(TOKENS, [])
    with pytest.raises(ValueError, match=r"state must have the shape \(2, 2, 3, 6\), got \(2, 2, 1, 6\)"):
        model(TOKENS, torch.zeros(2, 2, 1, 6).double())
