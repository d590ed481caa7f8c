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


def lane_by_lane(lanes, begin):
    pieces = [lane[begin : begin + 48] for lane in lanes]
    others = [lanes[number - 2, :begin] for number in range(len(lanes))]
    pasts = torch.stack([torch.cat(pair) for pair in zip(others, pieces, strict=True)])
    return [torch.stack(pieces), lanes[:, : begin + 48], pasts]


def with_the_first_lane(lanes, begin):
    """The past of lane 0 before all other pieces, and that of lane 1 before lane 0's."""
    others = lanes[[1] + [0] * (len(lanes) - 1), :begin]
    piece = lanes[:, begin : begin + 48]
    return piece, lanes[:, : begin + 48], torch.cat([others, piece], dim=1)


def with_other(third):
    return lambda lanes, begin: (*recital.solution_three_pasts(lanes, begin)[:2], third(lanes, begin))


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
            "cut nothing off what it returns": lambda go_on, piece, prompt_len: (
                (go_on(piece[:prompt_len], len(piece))[prompt_len:] == piece[prompt_len:]).cumprod(0).sum()
            ),
            "add the ones up": lambda *case: same(*case).cumprod(0),
            "that is how many differ": lambda *case: (~same(*case)).sum().item(),
            "go_on takes the prompt as one row": lambda go_on, piece, prompt_len: go_on(prompt_len, 1)[0],
        },
    },
    recital.check_three_pasts: {
        "right": [
            recital.solution_three_pasts,
            lane_by_lane,
            with_the_first_lane,
            lambda lanes, begin: with_other(
                lambda lanes, begin: torch.cat(
                    [lanes.flip(0)[:, :begin], lanes[:, begin : begin + 48]], dim=1
                )
            )(lanes, begin),
        ],
        "wrong": {
            "change the past alone": with_other(lambda lanes, begin: lanes.roll(-1, 0)[:, : begin + 48]),
            "have their lane's own past too": with_other(lambda lanes, begin: lanes[:, : begin + 48]),
            "dims=0": with_other(
                lambda lanes, begin: torch.cat(
                    [lanes.roll(1, 1)[:, :begin], lanes[:, begin : begin + 48]], dim=1
                )
            ),
            "from its byte 0 on": lambda lanes, begin: (
                lanes[:, begin : begin + 48],
                lanes[:, begin - 64 : begin + 48],
                with_the_first_lane(lanes, begin)[2],
            ),
            "equally long as the own": with_other(
                lambda lanes, begin: torch.cat([lanes.roll(1, 0), lanes[:, begin : begin + 48]], dim=1)
            ),
            "the pieces begin at begin": lambda lanes, begin: (
                lanes[:, :48],
                torch.cat([lanes[:, :begin], lanes[:, :48]], dim=1),
                torch.cat([lanes.roll(1, 0)[:, :begin], lanes[:, :48]], dim=1),
            ),
            "the pieces have 48 bytes": lambda lanes, begin: tuple(
                one[:, :-16] for one in recital.solution_three_pasts(lanes, begin)
            ),
            "in another order": lambda lanes, begin: recital.solution_three_pasts(lanes, begin)[::-1],
            "no piece stands at the end": lambda lanes, begin: tuple(
                one[:, :-48] for one in recital.solution_three_pasts(lanes, begin)
            ),
            "you returned": lambda lanes, begin: lanes[:, begin : begin + 48],
        },
    },
}
