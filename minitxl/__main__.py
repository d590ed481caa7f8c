"""The command line: ``minitxl --help`` lists the commands; a command's module is loaded when it is called."""

import re
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import make_dataclass
from functools import reduce
from importlib import import_module
from operator import or_
from typing import Annotated, Any, NoReturn, TextIO, cast

import tyro

from minitxl.allocator import keep_freed_ram
from minitxl.commands import original_options
from minitxl.commands.errors import RefusedFlagError
from minitxl.commands.standard_streams import Enduring, discard, open_streams, readable_width
from minitxl.files import in_words

COMMANDS = {
    "train": "Train a language model; with the folder alone, go on with the run that is there.",
    "evaluate": "Score a trained or a released model on text it has not seen, "
    "with memory or by a sliding window.",
    "generate": "Go on with a text, token by token, as a trained model would.",
    "demo": "Train a vanilla segment model, then with relative positions, then with memory as well; "
    "compare them.",
    "figures": "Rebuild the results and figures of the experiments that are missing or out of date.",
    "bench": "Time this package and others of the same shapes side by side, at the same work.",
}
"""Each command and what it does. Command ``train`` is the class ``commands.train.Train``, and so on; the text
is the first line of the class's docstring."""
STOPPED_READING = 128 + 13
"""Exit code where output was no longer read: that of a program that SIGPIPE ended."""
OUT_OF_MEMORY = "out of memory", "not enough memory", "can't allocate", "cannot allocate", "alloc failed"
"""Words of an error of PyTorch, CUDA or the system where memory is used up. (An "illegal memory access" is
another error.)"""
LONGEST_SENTENCE = 900
"""Characters of a refusal that are shown; of a longer one, the beginning and the end."""
FLAGS = (tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes)


def main(arguments: list[str] | None = None) -> None:
    """Run a command; what is wrong with its input is told in one sentence, with exit code 2."""
    open_streams()
    words = sys.argv[1:] if arguments is None else arguments
    try:
        keep_freed_ram()
        _run(_parsed(words), endures=words[:1] != ["generate"])
        sys.stdout.flush()
    except BrokenPipeError:
        sys.exit(STOPPED_READING)
    except (RefusedFlagError, ValueError, OSError) as error:
        _fail(in_words(error), code=2)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        _fail(
            f"there is not enough memory: {str(error).splitlines()[0] if str(error) else 'none is left'}",
            code=2,
        )
    except KeyboardInterrupt:
        _fail("interrupted", code=130)
    finally:
        _flush()


def is_out_of_memory(error: MemoryError | RuntimeError) -> bool:
    """Return True for an error that says that RAM or a GPU's memory is used up; PyTorch's say it in words."""
    said = str(error).lower().replace("_", " ")
    return isinstance(error, MemoryError) or any(words in said for words in OUT_OF_MEMORY)


def _parsed(arguments: list[str]) -> Callable[[], None]:
    original_options.refuse(arguments)
    with readable_width():
        if arguments and arguments[0] in COMMANDS:
            return _command(arguments[0], arguments[1:])
        return tyro.cli(
            reduce(or_, map(_listed, COMMANDS)),
            args=arguments,
            prog="minitxl",
            description="Transformer-XL: train it, score it, see what its memory buys.",
            config=FLAGS,
        )


def _command(name: str, words: list[str]) -> Callable[[], None]:
    """Return the command with its flags; its module is imported here."""
    module = import_module(f"minitxl.commands.{name}")
    default = module.starting_point(words) if name == "train" else None
    given = {} if default is None else {"default": default}
    return tyro.cli(getattr(module, name.title()), args=words, prog=f"minitxl {name}", config=FLAGS, **given)


def _listed(name: str) -> Any:
    """Return the command's entry in the list of commands, without its module."""
    entry = make_dataclass(name.title(), [])
    return Annotated[entry, tyro.conf.subcommand(name, description=COMMANDS[name])]


def _run(command: Callable[[], None], *, endures: bool) -> None:
    """Run a command; one that ``endures`` goes on when its output pipe is closed."""
    out = Enduring(sys.stdout) if endures else sys.stdout
    with redirect_stdout(cast(TextIO, out)), redirect_stderr(cast(TextIO, Enduring(sys.stderr))):
        command()


def _fail(words: str, *, code: int) -> NoReturn:
    """End with a sentence of one line: control characters as escapes, a long word or list cut at "…"."""
    short = re.sub(r"(\S{200})\S{200,}", r"\1…", words)
    if len(short) > LONGEST_SENTENCE:
        short = f"{short[: 2 * LONGEST_SENTENCE // 3]} … {short[-LONGEST_SENTENCE // 3 :]}"
    shown = (one if one.isprintable() else ascii(one)[1:-1] for one in short)
    with suppress(OSError):  # on a full disk the exit code is all that can be told
        print(f"minitxl: {''.join(shown)}", file=sys.stderr, flush=True)
    sys.exit(code)


def _flush() -> None:
    """Write what is left to be written; what can't be, perhaps because its reader has gone, is dropped."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            discard(stream)


if __name__ == "__main__":
    main()
