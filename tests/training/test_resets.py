import pytest
import torch
from models import ENCODINGS, small_model, some_tokens

from minitxl.memory import extend
from minitxl.training.resets import extend_mask, reset_mask


@pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS)
@pytest.mark.parametrize("mem_len", [0, 3, 7, 20])
def test_a_row_that_is_reset_reads_as_one_that_begins(encoding, mem_len):
    """Two rows of texts, cut at random segments, against each text read by itself."""
    model, tokens = small_model(**encoding), some_tokens(2, 24)
    begins = torch.tensor([[0, 0, 1, 0, 1, 0], [0, 1, 0, 0, 0, 1]], dtype=torch.bool)
    memory, memory_mask, read = None, None, []
    for segment, rows in zip(tokens.split(4, dim=1), begins.T, strict=True):
        memory_mask = reset_mask(memory, rows, memory_mask)
        key_mask, memory_mask = extend_mask(memory_mask, batch=2, seg_len=4, mem_len=mem_len)
        log_probs, states = model(segment, memory, key_mask=key_mask)
        memory = extend(memory, states, mem_len=mem_len)
        read.append(log_probs)
    found = torch.cat(read, dim=1)
    for row in range(2):
        alone, memory = [], None
        for segment, begin in zip(tokens[row : row + 1].split(4, dim=1), begins[row], strict=True):
            log_probs, states = model(segment, None if begin else memory)
            memory = extend(None if begin else memory, states, mem_len=mem_len)
            alone.append(log_probs)
        torch.testing.assert_close(found[row : row + 1], torch.cat(alone, dim=1), rtol=1e-10, atol=1e-10)


def test_a_reset_needs_a_flag_for_each_row(as_users_run_it):
    with pytest.raises(ValueError, match="begins must hold one flag for each of 2 lanes, got 3"):
        reset_mask(torch.zeros(1, 2, 3, 4), torch.ones(3, dtype=torch.bool))
