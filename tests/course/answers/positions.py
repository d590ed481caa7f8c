"""Notebook 02."""

import torch

from minitxl.course.checks import positions as checks


def frequencies(d):
    return 10000.0 ** (-torch.arange(0, d, 2) / d)


def angles(p, d, power=None):
    return torch.outer(p.float(), frequencies(d) if power is None else 10000.0**-power)


def table(a):
    return torch.cat([a.sin(), a.cos()], dim=-1)


def interleave(p, d):
    result = torch.empty(len(p), d)
    result[:, 0::2], result[:, 1::2] = angles(p, d).sin(), angles(p, d).cos()
    return result


def turn(rows, b, s_sign=1, c_sign=-1):
    s, c = rows[:, : len(b)], rows[:, len(b) :]
    return torch.cat([s * b.cos() + s_sign * c * b.sin(), c * b.cos() + c_sign * s * b.sin()], dim=1)


def turn_neighbours(rows, k, apart=True):
    b, result = k * frequencies(rows.shape[1]), torch.empty_like(rows)
    s, c = rows[:, 0::2], rows[:, 1::2]
    result[:, 0::2], result[:, 1::2] = s * b.cos() + c * b.sin(), c * b.cos() - s * b.sin()
    return result if apart else torch.cat([result[:, 0::2], result[:, 1::2]], dim=1)


def with_matrices(rows, k):
    half = rows.shape[1] // 2
    pairs = torch.stack([rows[:, :half], rows[:, half:]], dim=-1)
    b = k * frequencies(rows.shape[1])
    turns = torch.stack([torch.stack([b.cos(), b.sin()], -1), torch.stack([-b.sin(), b.cos()], -1)], -2)
    moved = torch.einsum("pmi,mji->pmj", pairs, turns)
    return torch.cat([moved[..., 0], moved[..., 1]], dim=1)


def by_loops(p, d):
    rows = []
    for place in p.tolist():
        by_pair = [place / 10000 ** (2 * m / d) for m in range(d // 2)]
        rows.append(torch.tensor(by_pair))
    return table(torch.stack(rows))


ANSWERS = {
    checks.check_sinusoids: {
        "right": [
            lambda p, d: table(angles(p, d)),
            by_loops,
            lambda p, d: table(angles(p.double(), d)).double(),
        ],
        "wrong": {
            "interleaved": interleave,
            "cosines first": lambda p, d: torch.cat([angles(p, d).cos(), angles(p, d).sin()], dim=1),
            "is m / d_model": lambda p, d: table(angles(p, d, torch.arange(d // 2) / d)),
            "is 4m / d_model": lambda p, d: table(angles(p, d, torch.arange(0, d, 2) / (d // 2))),
            "exactly 1/10000": lambda p, d: table(angles(p, d, torch.arange(d // 2) / (d // 2 - 1))),
            "frequencies grow": lambda p, d: table(angles(p, d, -torch.arange(0, d, 2) / d)),
            "is p / ω": lambda p, d: table(p[:, None] / frequencies(d)),
            "degrees": lambda p, d: table(angles(p, d).deg2rad()),
            "2π": lambda p, d: table(2 * torch.pi * angles(p, d)),
            "from 1": lambda p, d: table(angles(p + 1, d)),
            "positions are not used": lambda p, d: table(angles(torch.arange(len(p)), d)),
            "are sorted": lambda p, d: table(angles(torch.sort(p)[0], d)),
            "right is [7, 8]": lambda p, d: angles(p, d).sin(),
            "return a tensor": lambda p, d: table(angles(p, d)).tolist(),
            "returns nothing": lambda p, d: None,
        },
    },
    checks.check_move: {
        "right": [lambda rows, k: turn(rows, k * frequencies(rows.shape[1])), with_matrices],
        "wrong": {
            "half of the cosines": lambda rows, k: turn(rows, k * frequencies(rows.shape[1]), 1, 1),
            "half of the sines": lambda rows, k: turn(rows, k * frequencies(rows.shape[1]), -1, -1),
            "wrong way": lambda rows, k: turn(rows, -k * frequencies(rows.shape[1])),
            "rolled": lambda rows, k: torch.roll(rows, -k, 0),
            "same angle": lambda rows, k: turn(rows, k * torch.ones(rows.shape[1] // 2)),
            "added": lambda rows, k: rows + table(angles(torch.tensor([k]), rows.shape[1])),
            "neighbouring": turn_neighbours,
            "components are taken as a pair": lambda rows, k: turn_neighbours(rows, k, apart=False),
            "first difference": lambda rows, k: rows,
        },
    },
    checks.check_alike: {
        "right": [("abc", "bac"), ["xyxz", "yxxz"], ("ab", "aabb")],
        "wrong": {
            "same word twice": ("abc", "abc"),
            "last letters are c and a": ("abc", "cba"),
            "has the letter b": ("abc", "dac"),
            "of the second": ("aab", "abb"),
            "no order in a word": ("aa", "aaa"),
            "empty": ("", "a"),
            "nothing here": "abc",
        },
    },
}
