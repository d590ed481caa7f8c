"""Notebook 13b: the tokens that a model recites."""

import torch

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


def lane_by_lane(lanes, begin, past_len):
    first, texts = begin - past_len, []
    for number, lane in enumerate(lanes):
        texts.append(torch.cat([lanes[number - 2, first:begin], lane[begin : begin + 48]]))
    return [lanes[:, first : begin + 48], torch.stack(texts)]


def with_the_first_lane(lanes, begin, past_len):
    """The past of lane 0 before all other pieces, and that of lane 1 before lane 0's."""
    own = lanes[:, begin - past_len : begin + 48]
    other = own[[1] + [0] * (len(lanes) - 1)]
    return own, torch.cat([other[:, :past_len], own[:, past_len:]], dim=1)


def with_reversed_lanes(lanes, begin, past_len):
    own = lanes.narrow(1, begin - past_len, past_len + 48)
    return own, torch.cat([own.flip(0)[:, :-48], own[:, -48:]], dim=1)


def with_other(past):
    """Texts whose second past, alone, is this one."""

    def texts(lanes, begin, past_len):
        piece = lanes[:, begin : begin + 48]
        return lanes[:, begin - past_len : begin + 48], torch.cat([past(lanes, begin, past_len), piece], 1)

    return texts


def after(past, piece=lambda lanes, begin: lanes[:, begin : begin + 48]):
    """Texts with this past before the pieces, of their own lane and of the next."""
    return lambda lanes, begin, past_len: tuple(
        torch.cat([past(one, begin, past_len), piece(lanes, begin)], dim=1)
        for one in (lanes, lanes.roll(1, 0))
    )


def past_of(lanes, begin, past_len):
    return lanes[:, begin - past_len : begin]


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
            "after the prompt": lambda go_on, piece, prompt_len: by_a_loop(
                go_on, piece[: prompt_len + 32], prompt_len
            ),
            "cut nothing off what it returns": lambda go_on, piece, prompt_len: (
                (go_on(piece[:prompt_len], len(piece))[prompt_len:] == piece[prompt_len:]).cumprod(0).sum()
            ),
            "add the ones up": lambda *case: same(*case).cumprod(0),
            "that is how many differ": lambda *case: (~same(*case)).sum().item(),
            "go_on takes the prompt as one row": lambda go_on, piece, prompt_len: go_on(prompt_len, 1)[0],
        },
    },
    recital.check_with_pasts: {
        "right": [
            recital.solution_with_pasts,
            lane_by_lane,
            with_the_first_lane,
            with_reversed_lanes,
            lambda *case: torch.stack(with_reversed_lanes(*case)),
        ],
        "wrong": {
            "change the past alone": lambda lanes, begin, past_len: (
                lanes[:, begin - past_len : begin + 48],
                lanes.roll(-1, 0)[:, begin - past_len : begin + 48],
            ),
            "have their own lane's past too": lambda lanes, begin, past_len: (
                [lanes[:, begin - past_len : begin + 48]] * 2
            ),
            "lane 0's past stands before all pieces": with_other(
                lambda lanes, *where: past_of(lanes[[0] * len(lanes)], *where)
            ),
            "dims=0": with_other(lambda lanes, *where: past_of(lanes.roll(1, 1), *where)),
            "the past is all that stands before": after(lambda lanes, begin, past_len: lanes[:, :begin]),
            "the past is the beginning of a lane": after(lambda lanes, begin, past_len: lanes[:, :past_len]),
            "it ends where the piece begins": with_other(
                lambda lanes, begin, past_len: lanes.roll(1, 0)[:, :past_len]
            ),
            "the other past is the end of a lane": with_other(
                lambda lanes, begin, past_len: lanes.roll(1, 0).flip(1)[:, :past_len].flip(1)
            ),
            "both pasts have 64 bytes at most": after(
                lambda lanes, begin, past_len: lanes[:, begin - past_len : begin][:, -64:]
            ),
            "for [-0:] is [0:]": after(lambda lanes, begin, past_len: lanes[:, :begin][:, -past_len:]),
            "the pieces begin at begin": after(past_of, lambda lanes, begin: lanes[:, :48]),
            "the pieces have 48 bytes": lambda *case: tuple(
                one[:, :-16] for one in recital.solution_with_pasts(*case)
            ),
            "in another order": lambda *case: recital.solution_with_pasts(*case)[::-1],
            "no piece stands at the end": lambda *case: tuple(
                one[:, :-48] for one in recital.solution_with_pasts(*case)
            ),
            "you returned": lambda lanes, begin, past_len: lanes[:, begin : begin + 48],
        },
    },
}
