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


def by_trying(prompt_len, n_layer):
    memory = 0
    while n_layer * (memory + 1) <= prompt_len:
        memory += 1
    return memory


ANSWERS = {
    prompts.check_longest: {
        "right": [by_trying, lambda prompt_len, n_layer: prompt_len // n_layer],
        "wrong": {
            "hides the copies from the query alone": lambda prompt_len, n_layer: prompt_len,
            "one too short where it divides": lambda prompt_len, n_layer: (prompt_len - 1) // n_layer,
            "one too long: the reach": lambda prompt_len, n_layer: prompt_len // n_layer + 1,
            "one too short: the reach": lambda prompt_len, n_layer: prompt_len // n_layer - 1,
            "n_layer is subtracted": lambda prompt_len, n_layer: prompt_len - n_layer,
            "it is rounded up": lambda prompt_len, n_layer: -(-prompt_len // n_layer),
            "a whole number of tokens": lambda prompt_len, n_layer: prompt_len / n_layer,
            "more layers reach farther": lambda prompt_len, n_layer: prompt_len * n_layer,
            "the first too": lambda prompt_len, n_layer: prompt_len // (n_layer + 1),
            "you returned 1": lambda prompt_len, n_layer: 1,
        },
    },
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
