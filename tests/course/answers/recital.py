"""Notebook 13b: the tokens that a model recites."""

from minitxl.course.checks import recital


def by_a_loop(go_on, piece, prompt_len):
    written = go_on(piece[:prompt_len], len(piece) - prompt_len)
    count = 0
    for mine, true in zip(written.tolist(), piece[prompt_len:].tolist(), strict=True):
        if mine != true:
            break
        count += 1
    return count


def token_by_token(go_on, piece, prompt_len):
    place = prompt_len
    while place < len(piece) and go_on(piece[:place], 1)[0] == piece[place]:
        place += 1
    return place - prompt_len


def as_a_tensor(go_on, piece, prompt_len):
    return (go_on(piece[:prompt_len], len(piece) - prompt_len) == piece[prompt_len:]).cumprod(0).sum()


def same(go_on, piece, prompt_len):
    return go_on(piece[:prompt_len], len(piece) - prompt_len) == piece[prompt_len:]


def longest_run(*case):
    return max(len(run) for run in "".join("+" if one else " " for one in same(*case)).split(" "))


ANSWERS = {
    recital.check_recited: {
        "right": [by_a_loop, token_by_token, as_a_tensor],
        "wrong": {
            "all equal tokens are counted": lambda *case: same(*case).sum().item(),
            "the prompt is counted too": lambda *case: case[2] + by_a_loop(*case),
            "the longest run of equal tokens": longest_run,
            "that is a share: return the number": lambda *case: same(*case).float().mean(),
            "that is a share": lambda *case: by_a_loop(*case) / (len(case[1]) - case[2]),
            "one too many": lambda *case: by_a_loop(*case) + 1,
            "against the beginning of the piece": lambda go_on, piece, prompt_len: (
                (go_on(piece[:prompt_len], len(piece) - prompt_len) == piece[:-prompt_len]).cumprod(0).sum()
            ),
            "all or nothing": lambda *case: int(same(*case).all()),
            "then argmin, or argmax": lambda *case: same(*case).int().argmin().item(),
            "from another prompt": lambda go_on, piece, prompt_len: (
                (go_on(piece, len(piece) - prompt_len) == piece[prompt_len:]).cumprod(0).sum().item()
            ),
            "too few tokens are asked for": lambda go_on, piece, prompt_len: by_a_loop(
                go_on, piece[: 2 * prompt_len], prompt_len
            ),
            "that is how many differ": lambda *case: (~same(*case)).sum().item(),
            "go_on takes the prompt as one row": lambda go_on, piece, prompt_len: go_on(prompt_len, 1)[0],
        },
    },
}
