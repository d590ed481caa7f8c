"""Keys and values that were kept give what hidden states would give again."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from models import ENCODINGS, NORMS, small_model, some_tokens

from minitxl.fast import kv_cache
from minitxl.memory import extend
from minitxl.position_encodings import sinusoids

every_encoding = pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS)
lengths = st.lists(st.integers(1, 6), min_size=1, max_size=8)


def read_with_cache(model, tokens, seg_lens, key_mask=None, **settings):
    cache, found = kv_cache.start(model, batch=len(tokens), **settings), []
    flags = [None] * len(seg_lens) if key_mask is None else key_mask.split(seg_lens, dim=1)
    for segment, flag in zip(tokens.split(seg_lens, dim=1), flags, strict=True):
        log_probs, cache = kv_cache.step(model, segment, cache, key_mask=flag)
        found.append(log_probs)
    return torch.cat(found, dim=1)


def read_with_memory(model, tokens, seg_lens, *, mem_len, key_mask=None, **options):
    memory, found, read = None, [], 0
    for segment in tokens.split(seg_lens, dim=1):
        held = 0 if memory is None else memory.shape[2]
        flags = None if key_mask is None else key_mask[:, read - held : read + segment.shape[1]]
        log_probs, states = model(segment, memory, key_mask=flags, **options)
        memory, read = extend(memory, states, mem_len=mem_len), read + segment.shape[1]
        found.append(log_probs)
    return torch.cat(found, dim=1)


@every_encoding
@settings(max_examples=30)  # for each of six encodings
@given(
    seg_lens=lengths,
    batch=st.integers(1, 3),
    mem_len=st.integers(0, 9),
    window=st.none() | st.integers(1, 7),
    clamp_len=st.none() | st.integers(0, 5),
    norm=st.sampled_from(NORMS),
    hide=st.booleans(),
)
def test_steps_give_what_the_model_and_extend_give(
    encoding, seg_lens, batch, mem_len, window, clamp_len, norm, hide
):
    model, tokens = small_model(norm=norm, **encoding), some_tokens(batch, sum(seg_lens))
    key_mask = None
    if hide:
        key_mask = torch.rand(tokens.shape, generator=torch.Generator().manual_seed(1)) < 0.7
    options = {"mem_len": mem_len, "window": window, "clamp_len": clamp_len, "key_mask": key_mask}
    torch.testing.assert_close(
        read_with_cache(model, tokens, seg_lens, **options),
        read_with_memory(model, tokens, seg_lens, **options),
        rtol=1e-10,
        atol=1e-10,
    )


@every_encoding
def test_a_long_text_token_by_token_moves_the_memory_often(encoding):
    model, tokens = small_model(**encoding), some_tokens(2, 60)
    torch.testing.assert_close(
        read_with_cache(model, tokens, [1] * 60, mem_len=5),
        read_with_memory(model, tokens, [1] * 60, mem_len=5),
        rtol=1e-10,
        atol=1e-10,
    )


def test_losses_are_those_of_the_log_probabilities():
    model, tokens = small_model(), some_tokens(2, 9)
    losses, _ = kv_cache.token_losses(
        model, tokens[:, :-1], tokens[:, 1:], kv_cache.start(model, batch=2, mem_len=4)
    )
    log_probs = read_with_cache(model, tokens[:, :-1], [8], mem_len=4)
    torch.testing.assert_close(losses, -log_probs.gather(-1, tokens[:, 1:, None])[..., 0])


def test_the_models_own_clamp_holds_where_none_is_given():
    model, tokens = small_model(clamp_len=2), some_tokens(1, 12)
    clamped = read_with_cache(model, tokens, [4, 4, 4], mem_len=8)
    torch.testing.assert_close(clamped, read_with_memory(model, tokens, [4, 4, 4], mem_len=8))
    assert not torch.allclose(clamped, read_with_cache(model, tokens, [4, 4, 4], mem_len=8, clamp_len=9))


def test_the_memory_is_never_projected_again(monkeypatch):
    model = small_model().float()
    rows = []
    weight = model.blocks[1].attention.W_kE
    weight.register_forward_hook(lambda module, inputs, output: rows.append(inputs[0].shape[1]))
    tables = []
    monkeypatch.setattr(
        "minitxl.fast.inputs.sinusoids",
        lambda *given, **named: tables.append(len(given[0])) or sinusoids(*given, **named),
    )
    read_with_cache(model, some_tokens(1, 20), [3, 3, 3, 3, 3, 3, 2], mem_len=6)
    assert rows == [3, 3, 3, 3, 3, 3, 2]
    assert len(tables) == model.config.n_layer


def test_after_a_long_prompt_the_distances_that_single_tokens_need_stand_alone_and_longer_segments_follow():
    """A product in bfloat16 would copy a slice of r in each step."""
    model, seg_lens = small_model(), [9, *[1] * 7, 6, 1, 1]
    tokens, cache, rows = some_tokens(2, sum(seg_lens)), kv_cache.start(model, batch=2, mem_len=4), []
    for segment in tokens.split(seg_lens, dim=1):
        _, cache = kv_cache.step(model, segment, cache)
        assert cache.r.is_contiguous()
        rows.append(cache.r.shape[2])
    longest, single, longer = (4 + seg_len + 1 for seg_len in (9, 1, 6))
    assert rows == [longest] * 5 + [single] * 3 + [longer] * 3
    torch.testing.assert_close(
        read_with_cache(model, tokens, seg_lens, mem_len=4),
        read_with_memory(model, tokens, seg_lens, mem_len=4),
        rtol=1e-10,
        atol=1e-10,
    )


def test_a_step_does_not_copy_the_memory():
    """The room is used up before the memory moves: once in mem_len tokens."""
    model, tokens = small_model(), some_tokens(1, 100)
    cache, begins = kv_cache.start(model, batch=1, mem_len=10), []
    for token in tokens.split(1, dim=1):
        _, cache = kv_cache.step(model, token, cache)
        begins.append(cache.begin)
        assert cache.end - cache.begin <= 10
    moves = sum(later < earlier for earlier, later in pairwise(begins))
    assert 0 < moves <= 100 // 10
    assert cache.buffers.shape[4] == 2 * 10 + 1


def test_memory_that_was_never_written_is_never_read():
    """PyTorch fills what is allocated and not written with NaN while it is deterministic."""
    torch.use_deterministic_algorithms(True)
    try:
        for encoding in ENCODINGS.values():
            found = read_with_cache(small_model(**encoding), some_tokens(2, 14), [3, 1, 6, 1, 3], mem_len=4)
            assert found.isfinite().all()
    finally:
        torch.use_deterministic_algorithms(False)


def test_dropout_rests_and_the_mode_stays():
    model = small_model(dropout=0.5, attention_dropout=0.5)
    assert model.training
    one, other = (read_with_cache(model, some_tokens(1, 8), [4, 4], mem_len=4) for _ in range(2))
    assert torch.equal(one, other)
    assert model.training


def test_bad_calls_are_refused(as_users_run_it):
    model = small_model()
    with pytest.raises(ValueError, match="mem_len must be 0 or more, got -1"):
        kv_cache.start(model, batch=1, mem_len=-1)
    cache = kv_cache.start(model, batch=2, mem_len=3)
    with pytest.raises(ValueError, match="tokens must hold 2 texts, as the cache does, got 1"):
        kv_cache.step(model, some_tokens(1, 2), cache)
    with pytest.raises(ValueError, match="tokens must lie in 0 … 10, got 11"):
        kv_cache.step(model, torch.full((2, 1), 11), cache)
    learned = small_model(attention="absolute", positions="learned", max_seg_len=3)
    with pytest.raises(ValueError, match="at most max_seg_len = 3 tokens, got 4"):
        kv_cache.step(learned, some_tokens(1, 4), kv_cache.start(learned, batch=1, mem_len=2))
