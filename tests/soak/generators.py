"""Bad values: all are drawn from a ``random.Random``, so a seed gives the same ones again."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

NUMBERS = (
    *("0", "-1", "1", "2", "3", "-2147483649", "2147483647", "2147483648", "4294967296"),
    *("9223372036854775807", "9223372036854775808", "18446744073709551616", "1" + "0" * 30, "9" * 5000),
    *("0.5", "-0.0", "1e-320", "1e-40", "1e308", "1e400", "-1e400", "nan", "inf", "-inf", "NaN"),
    *("1.0", "1e3", "0x10", "1_000", "٣", "²", "+1", " 1 ", "1,000", "007"),
)
"""Texts that are numbers, nearly are, or are beyond all sizes."""
WORDS = (
    *("", " ", "-", "--", "None", "none", "null", "True", "false", "auto", "x", "'", '"', "a b", "\t", "\n"),
    *("\x1b[31m", "\x00", "é", "日本", "\udce9", "😀", "a" * 5000, "../..", "~", "$HOME", "%s", "{}", "*"),
)
"""Texts that are no number."""
JSON = (
    *(None, True, False, 0, 1, -1, 2, 5, -5, 0.5, 1e308, 10**30, -(10**30), 2**31, 2**63, float("nan")),
    *(float("inf"), "", "x", "10", "é", "a" * 5000, [], [1], [None], ["x"], [[]], {}, {"a": 1}, [1] * 1000),
    *([0, -1], [2**40], [True], {"": None}),
)
"""Values that JSON may hold, in place of another."""
DEEP = "[" * 100_000
"""JSON deeper than it can be read."""


def value(draw: Random) -> str:
    """Return a bad word of a command line."""
    return draw.choice(NUMBERS if draw.random() < 0.7 else WORDS)


def json_text(draw: Random, content: object) -> str:
    """Return JSON of nearly this content: a value or a name in it is another, is lost or is too much."""
    if draw.random() < 0.15:
        return draw.choice([DEEP, "", "{", "null", "[]", "42", '"x"', "\x00", "{}", "nan", '{"a":1}{"a":1}'])
    return json.dumps(altered(draw, content))


def altered(draw: Random, content: Any) -> Any:
    """Return a copy of a JSON value in which something at a random place is another."""
    if isinstance(content, Mapping) and content and draw.random() < 0.85:
        name = draw.choice(sorted(content))
        kind = draw.random()
        if kind < 0.1:
            return {key: inner for key, inner in content.items() if key != name}
        if kind < 0.15:
            return {
                draw.choice([name.upper(), name + "s", ""]) if k == name else k: v for k, v in content.items()
            }
        if kind < 0.2:
            return {**content, draw.choice(["new", "", name + "_"]): draw.choice(JSON)}
        return {**content, name: altered(draw, content[name])}
    if isinstance(content, list) and content and draw.random() < 0.6:
        place = draw.randrange(len(content))
        return [altered(draw, inner) if n == place else inner for n, inner in enumerate(content)]
    if isinstance(content, int | float) and draw.random() < 0.3:
        return draw.choice([content + 1, -content, content * 2, float(content), str(content), [content]])
    return draw.choice(JSON)


def damaged(draw: Random, content: bytes) -> bytes:
    """Return the bytes with a bit flipped, a stretch lost, doubled, overwritten or appended."""
    if not content:
        return b"x"
    place = draw.randrange(len(content))
    match draw.randrange(7):
        case 0:
            flipped = content[place] ^ (1 << draw.randrange(8))
            return content[:place] + bytes([flipped]) + content[place + 1 :]
        case 1:
            return content[:place]
        case 2:
            return content[place:]
        case 3:
            return content[:place] + draw.randbytes(draw.randrange(1, 40)) + content[place:]
        case 4:
            return content[:place] + content[place + draw.randrange(1, 200) :]
        case 5:
            return content[:place] + b"\0" * len(content[place:])
        case _:
            return content + draw.randbytes(draw.randrange(1, 200))


def noise(draw: Random) -> bytes:
    """Return bytes that are no file of any kind."""
    return draw.choice(
        [b"", b"\0", b"\n", b"{}", draw.randbytes(8), draw.randbytes(3000), b"\xff" * 64, b"PK\3\4"]
    )


ODD_FILES = (
    "a named pipe",
    "a folder",
    "a link to nothing",
    "a link to itself",
    "a device",
    "an endless device",
)


def odd_file(draw: Random, path: Path) -> str:
    """Put something that is no plain file in the place of ``path``, and say what."""
    if path.is_dir() and not path.is_symlink():
        path.rename(path.with_name(path.name + "-before"))
    path.unlink(missing_ok=True)
    kind = draw.choice(ODD_FILES)
    match kind:
        case "a named pipe":
            os.mkfifo(path)
        case "a folder":
            path.mkdir()
        case "a link to nothing":
            path.symlink_to("nothing")
        case "a link to itself":
            path.symlink_to(path.name)
        case "a device":
            path.symlink_to("/dev/null")
        case _:
            path.symlink_to("/dev/zero")
    return f"{path.name} is {kind}"


def spoil(draw: Random, path: Path, kind: str) -> str:
    """Damage, replace or remove a file as ``kind`` says, and say what was done."""
    if kind == "odd":
        return odd_file(draw, path)
    if kind == "gone":
        path.unlink()
    elif kind == "damaged":
        path.write_bytes(damaged(draw, path.read_bytes()))
    elif kind == "noise":
        path.write_bytes(noise(draw))
    else:
        raise ValueError(f"kind must be odd, gone, damaged or noise, got {kind}")
    return f"{path.name}, {kind}"
