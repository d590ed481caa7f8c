"""The parts of a markdown page that tests run: its blocks, commands and inline code."""

import re
import subprocess
from dataclasses import dataclass
from textwrap import dedent

import pytest

NO_TEST = "a page has {}, which no test runs: say how in tests/test_readme.py"


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    section: str
    """The heading above it."""
    language: str
    text: str


def blocks_of(page: str) -> list[Block]:
    """Return the fenced blocks in the order of the page."""
    section, fence, blocks = "", re.compile(r" *(```|~~~)(\w*)"), list[Block]()
    lines = iter(page.splitlines())
    for line in lines:
        if heading := re.match(r"#+ (.+)", line):
            section = heading[1]
        elif opening := fence.match(line):
            inside = list[str]()
            for line in lines:
                if line.strip() == opening[1]:
                    break
                inside.append(line)
            blocks.append(Block(section, opening[2], dedent("\n".join(inside))))
    return blocks


def commands_of(block: Block) -> list[str]:
    """Return the commands of a block without comments; a backslash at the end continues a line."""
    lines = block.text.replace("\\\n", " ").splitlines()
    return [line for line in (re.sub(r"(^|\s)#.*", "", line).strip() for line in lines) if line]


def words_of(command: str) -> list[str]:
    """Return the words of one plain command as bash splits them; a pipe, say, fails: bash would run it."""
    if re.search(r"[;&|<>`]|\$\(", command):
        pytest.fail(NO_TEST.format(f"`{command}`"))
    done = subprocess.run(["bash", "-c", f"printf '%s\\0' {command}"], capture_output=True, check=True)
    return done.stdout.decode().split("\0")[:-1]


def prose_of(page: str) -> str:
    """Return a page without its fenced blocks."""
    return re.sub(r"^ *(```|~~~).*?^ *\1$", "", page, flags=re.DOTALL | re.MULTILINE)


def spans_of(page: str) -> list[str]:
    """Return the inline code of a page."""
    return re.findall(r"`([^`\n]+)`", prose_of(page))
