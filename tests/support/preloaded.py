"""What a command does at its first time alone, done once in the process that all children come from.

To parse the first command line takes five times as long as to parse another: modules are imported late.
"""

import pooch  # noqa: F401
import torch.profiler  # noqa: F401
import tqdm.auto  # noqa: F401
from support import faults  # noqa: F401

from minitxl.__main__ import _parsed

_parsed(["train", "a folder that is not there"])
