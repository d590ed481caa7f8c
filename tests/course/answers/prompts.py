"""Notebook 13: a batch of prompts of unequal length."""

import torch
from torch.nn.utils.rnn import pad_sequence

from minitxl.course.checks import prompts


def by_loop(texts):
    longest = max(len(text) for text in texts)
    tokens = torch.zeros(len(texts), longest, dtype=torch.int64)
    key_mask = torch.zeros(len(texts), longest, dtype=torch.bool)
    for row, text in enumerate(texts):
        tokens[row, longest - len(text) :] = text
        key_mask[row, longest - len(text) :] = True
    return tokens, key_mask


def by_lengths(texts, *, side="left", turn=False, flag=None):
    tokens = pad_sequence(list(texts), batch_first=True, padding_side=side)
    lengths = torch.tensor([len(text) for text in texts])[:, None]
    place = torch.arange(tokens.shape[1])[None]
    key_mask = place >= tokens.shape[1] - lengths if side == "left" else place < lengths
    return tokens, flag(tokens) if flag else key_mask ^ turn


ANSWERS = {
    prompts.check_fill_left: {
        "right": [by_loop, by_lengths, prompts.solution_fill_left],
        "wrong": {
            "filled up on the right": lambda texts: by_lengths(texts, side="right"),
            "turned round": lambda texts: by_lengths(texts, turn=True),
            "nothing is masked": lambda texts: by_lengths(texts, flag=lambda tokens: tokens == tokens),
            "make the mask from the lengths": lambda texts: by_lengths(texts, flag=torch.Tensor.bool),
            "the dtype of tokens is torch.float32": lambda texts: (
                by_loop(texts)[0].float(),
                by_loop(texts)[1],
            ),
            "the dtype is torch.int64": lambda texts: tuple(one.long() for one in by_loop(texts)),
            "return both": lambda texts: by_loop(texts)[0],
            "it raised RuntimeError": lambda texts: torch.stack(list(texts)),
        },
    },
}
