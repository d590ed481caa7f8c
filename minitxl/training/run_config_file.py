"""config.json of a run: its settings and its text, for people to read.

The checkpoints decide what a run is. From this file come only the defaults of flags that a checkpoint does
not hold: how the run is carried out (``RunConfig``), and where its text lies.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from minitxl import fields
from minitxl.files import atomic_write, read_json
from minitxl.training import checkpoints
from minitxl.training.config import RunConfig
from minitxl.training.run_info import RunInfo
from minitxl.training.step import Run

CONFIG = "config.json"
NOTE = "written by minitxl train, to be read; settings are changed by its flags"
CONTENT = {"note": fields.text(NOTE), "run": checkpoints.an_object, "source": checkpoints.an_object}
SOURCE = {
    "data": fields.optional(fields.text()),
    "text": fields.optional(fields.text()),
    "unit": fields.optional(fields.text("bytes", "characters", "words")),
    "unknown": fields.flag,
    "min_count": fields.whole(1),
}
"""Where the text lies: a corpus by name, or the path of a text of one's own and its unit."""


class Defaults(NamedTuple):
    """Flags of the command that wrote the file."""

    run_config: RunConfig
    source: dict[str, Any]


def write(folder: Path, run: Run, run_config: RunConfig, info: RunInfo, source: Mapping[str, Any]) -> None:
    """Write the file anew if anything in it has changed. A file of that name that is not ours is refused."""
    content = {
        "note": NOTE,
        "model": asdict(run.model.config),
        "train": asdict(run.settings),
        "info": asdict(info),
        "run": asdict(run_config),
        "source": dict(source),
    }
    path = folder / CONFIG
    if path.exists() and _content(path) == json.loads(json.dumps(content)):
        return
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n", "utf-8")


def read(folder: Path) -> Defaults | None:
    """Return the flags that the file keeps; None where it is not there."""
    path = folder / CONFIG
    if not path.exists():
        return None
    values = fields.checked(_content(path), CONTENT, file=path, required=CONTENT)
    source = fields.checked(values["source"], SOURCE, file=path)
    return Defaults(fields.dataclass_from(RunConfig, values["run"], file=path), source)


def _content(path: Path) -> Any:
    content = read_json(path)
    fields.checked(content, CONTENT, file=path, required=CONTENT)
    return content
