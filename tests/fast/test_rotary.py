"""The fast turn has the numbers and the gradient of ``rotate``."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from minitxl.fast.rotary import turn
from minitxl.later_attention import rotate, sin_and_cos


@given(rows=st.integers(1, 3), pos=st.integers(1, 5), half=st.integers(1, 4), first=st.integers(0, 200_000))
def test_a_turn_is_rotate_and_so_is_its_gradient(rows, pos, half, first):
    """The vectors are the view that ``split_heads`` makes: a head's numbers lie apart."""
    position = torch.arange(first, first + pos)
    x = torch.randn(rows, pos, 2, 2 * half, dtype=torch.float64).transpose(1, 2).requires_grad_()
    ours, theirs = turn(x, *sin_and_cos(position, 2 * half, x.dtype)), rotate(x, position)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    d_out = torch.randn_like(ours)
    grads = (torch.autograd.grad(out, x, d_out)[0] for out in (ours, theirs))
    torch.testing.assert_close(*grads, rtol=1e-12, atol=1e-12)


def test_turning_back_by_the_same_angles_gives_the_vector_again():
    x = torch.randn(2, 3, 7, 8, dtype=torch.float64)
    sin, cos = sin_and_cos(torch.arange(7), 8, x.dtype)
    torch.testing.assert_close(turn(turn(x, sin, cos), -sin, cos), x)
