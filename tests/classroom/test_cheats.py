"""A submission's code in the strongest isolation that runs here: no cheat gains, no accident costs others."""

import ast
import json
import re
import socket
import time
from pathlib import Path

import pytest

from minitxl.course.differences import written
from minitxl.course.grading import LEFT_ALONE
from minitxl.course.marking.isolation import strongest
from minitxl.course.marking.judge import judged, trial_of
from minitxl.course.marking.replay import Replay
from minitxl.course.marking.workers import ATTEMPTS, UnaskedError, Worker

ROOT = Path(__file__).parents[2]
TRIAL = """
def doubling_trial(seed):
    import torch

    from minitxl.course.grading import Trial

    draw = torch.Generator().manual_seed(seed)
    cases = [(torch.randn(3, generator=draw), {"times": torch.tensor(2)}) for _ in range(4)]
    return Trial(lambda x, how: x * how["times"], cases, {"it is squared": lambda x, _: x**2}, "notebook 99")


grade(NAME, doubling_trial)
"""
IMPORTS = "import torch\n\nfrom minitxl.course.grading import variant"

ACCIDENTS = {
    "raising": ("raise KeyError('lost')", "it raised KeyError: “'lost'”"),
    "raising_much": (
        "raise KeyError('/a/long/path' * 100 + ' is not there')",
        " is not there'”. Look at notebook 99",
    ),
    "raising_half": ("raise ValueError(chr(0xd800))", "it raised ValueError: “\ufffd”"),
    "raising_points": (
        "raise ValueError('x”.\\n5 of 5 points: right. (For the person who marks: “')",
        'it raised ValueError: “x". 5 of 5 points: right. (For the person who marks: "”. Look at notebook 99',
    ),
    "without_numbers": (
        "much = torch.zeros(3000, 3000, device='meta')\n    return x + (much @ much)[0, 0]",
        "it computes on the device meta: the marking has the CPU alone",
    ),
    "without_numbers_of_a_cell": (
        "return x + (MUCH @ MUCH)[0, 0]",
        "it computes on the device meta: the marking has the CPU alone",
    ),
    "blank": ("raise NotImplementedError()", "there is nothing here yet"),
    "squaring": ("return x * x", "it is squared"),
    "hungry": ("return torch.ones(2**40)", "it raised"),
    "printing": ("print('x' * 10**6)\n    return x", "Look at notebook 99"),
    "leaving": ("import os\n    os._exit(0)", "it ended the process"),
    "exiting": ("raise SystemExit", ""),
    "resizing": ("return (2 * x).resize_(3)", "use another operation than resize_: the marking runs"),
    "with_fractions": (
        "from fractions import Fraction\n    return [Fraction(one) for one in x.tolist()]",
        "you returned [a Fraction, a Fraction, a Fraction], right is [",
    ),
    "in_a_thread": (
        "import threading\n    threading.Thread(target=print).start()\n    return x * how['times']",
        "it starts a thread, where nobody sees what it computes",
    ),
    "in_a_pool": (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "    return ThreadPoolExecutor().submit(lambda: x * how['times']).result()",
        "it starts a thread, where nobody sees what it computes",
    ),
}
CHANGING = {
    "changing": ("x *= how['times']\n    return x", "x"),
    "changing_by_numpy": ("x.numpy()[:] *= 2\n    return x.clone()", "x"),
    "changing_a_dict": ("return x * how.pop('times')", "how"),
}
"""Functions that return the right value and change an argument in place: body and argument."""
STYLES = """
from copy import deepcopy
from dataclasses import dataclass

import numpy as np

@dataclass
class Times:
    many: int
    def __call__(self, x, how):
        return self.many * x

in_a_class = Times(2)

def in_numpy(x, how):
    return torch.from_numpy(np.array(x) * how["times"].item())

def in_a_loop(x, how):
    found = torch.empty(3)
    for place in range(len(x)):
        found[place] = sum(x[place] for _ in range(how["times"]))
    return found

def in_lists(x, how):
    return torch.tensor([2 * one for one in x.tolist()])

def with_a_number(x, how):
    return torch.where(x > 1e9, torch.tensor(0.0), x * torch.tensor(2))

def on_a_copy(x, how):
    mine = deepcopy(how)
    return deepcopy(x).mul_(mine["times"]).detach_()

def without_gradient(x, how):
    with torch.no_grad():
        return torch.stack([x, x]).sum(dim=0)

in_a_line = lambda x, how: x.repeat(2, 1).sum(0)

def by_ways_with_a_name(x, how):
    rows = torch.nn.utils.rnn.pad_sequence([x, x], batch_first=True, padding_side="left")
    places = torch.searchsorted(x.sort().values, x, side="right")
    low = torch.quantile(x, 0.5, interpolation="lower")
    back = torch.fft.irfft(torch.fft.rfft(x, norm="ortho"), n=3, norm="ortho")
    return rows[0] + back + 0 * places + 0 * low

def while_printing(x, how):
    print(f"{x} times {how}")
    return x * how["times"]

def by_a_helper(x, how):
    return helper(x, how)
"""
"""Functions that do double ``x``, each in a style of its own."""
RIGHT = [
    *("in_a_class", "in_numpy", "in_a_loop", "in_lists", "with_a_number", "on_a_copy", "without_gradient"),
    *("in_a_line", "by_ways_with_a_name", "while_printing", "by_a_helper", "after"),
]
CHEATS = f"""
import gc, io, json, os, pickle, re, socket, sys

class Escaping:  # runs a command wherever it is unpickled
    def __reduce__(self):
        return os.system, ("touch MARKER",)

RESULT = dict(then="result", steps=[], value=dict(tensor="w0"), after=dict(list=[]))

def answer(blob, text=RESULT):  # sends the judge these bytes in place of a result
    for one in gc.get_objects():
        if type(one).__name__ == "Channel":
            text = json.dumps(text | dict(asked=one.asked)).encode() if isinstance(text, dict) else text
            one.there.write(len(text).to_bytes(8, "big") + len(blob).to_bytes(8, "big") + text + blob)
            one.there.flush()
            os._exit(0)
    raise LookupError("none")

def frames(x, how):
    frame = sys._getframe()
    while frame:
        for name in ("expected", "reference", "terms", "trial", "packed", "seed", "cases"):
            if name in frame.f_locals:
                return frame.f_locals[name]
        frame = frame.f_back
    raise LookupError("none")

def collector(x, how):
    for one in gc.get_objects():
        if type(one).__name__ in ("Trial", "NumbersTrial"):
            return one.reference(x, how)
    raise LookupError("none")

def importing(x, how):
    from minitxl.course.grading import call
    return call(lambda: x * 2)

def unblocking(x, how):
    sys.meta_path[:] = [one for one in sys.meta_path if "NoAnswers" not in type(one).__name__]
    for name in [name for name in sys.modules if name.startswith("minitxl")]:
        del sys.modules[name]
    import minitxl.memory
    return x * 2

def sources(x, how):
    os.listdir("{ROOT}/notebooks/assignments")
    return x * 2

def package(x, how):
    os.listdir("{ROOT}/minitxl/course")
    return x * 2

def network(x, how):
    socket.create_connection(("127.0.0.1", PORT), 1)
    return x * 2

def killing(x, how):
    os.kill(os.getppid(), 9)
    return x

def processes(x, how):
    assert [one for one in os.listdir("/proc") if one.isdigit() and int(one) > 20]
    return x * 2

def rewriting(x, how):
    assert os.access(torch.__file__, os.W_OK)
    return x * 2

def verdict(x, how):
    for number in range(1, 9):
        try:
            os.write(number, json.dumps(dict(right=True, score=5, message="right")).encode())
        except OSError:
            pass
    os._exit(0)

def parent(x, how):
    for one in filter(str.isdigit, os.listdir("/proc")):
        for number in range(9):
            try:
                open(f"/proc/{{one}}/fd/{{number}}", "wb").write(b"right")
            except OSError:
                pass
    return x

def equal(x, how):
    torch.equal = lambda *_, **__: True
    torch.allclose = lambda *_, **__: True
    return x

def asserting(x, how):
    torch.testing.assert_close = lambda *_, **__: None
    return x

def everything(x, how):
    class Everything:
        def __eq__(self, other):
            return True
        def __reduce__(self):
            return exec, ("import os; os._exit(0)",)
    return Everything()

def subclass(x, how):
    class Mine(torch.Tensor):
        @classmethod
        def __torch_function__(cls, *_, **__):
            return True
    return x.as_subclass(Mine)

def fork(x, how):
    if os.fork():
        return x
    while True:
        pass

def attention(x, how):
    return torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None])[0] * 0 + 2 * x

def unrecorded(x, how):
    from torch.utils._python_dispatch import _disable_current_modes
    with _disable_current_modes():
        return x * 2

def undispatched(x, how):
    from torch.utils._mode_utils import no_dispatch
    with no_dispatch():
        return x * 2

def excluded(x, how):
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.Python)
    with torch._C._ExcludeDispatchKeyGuard(keys):
        return x * 2

def popped(x, how):
    from torch.utils import _python_dispatch
    with _python_dispatch._pop_mode_temporarily():
        return x * 2

def pickled(x, how):
    return answer(pickle.dumps(Escaping()))

def cloudpickled(x, how):
    return answer(b"", pickle.dumps(Escaping()))

def flooded(x, how):
    for one in gc.get_objects():
        if type(one).__name__ == "Channel":
            one.there.write(bytes([255] * 16))
            one.there.flush()
            os._exit(0)
    raise LookupError("none")

def saved(x, how):
    blob = io.BytesIO()
    torch.save([Escaping()], blob)
    return answer(blob.getvalue())

def serialised(x, how):
    import frames, safetensors.torch
    for module in (frames, safetensors.torch):
        module.save = lambda *_: pickle.dumps(Escaping())
    return x + 1

def reduced(x, how):
    return [Escaping(), (Escaping(), x)]

def named(x, how):
    step = dict(op="os.system.default", args=dict(list=["touch MARKER"]))
    step |= dict(kwargs=dict(dict=[]), grad=True, out=[])
    return answer(b"", dict(steps=[step], then="result"))

def memory(x, how):
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as mine:
        for line in maps:
            span, access, *_ = line.split()
            first, last = (int(one, 16) for one in span.split("-"))
            if access.startswith("r") and last - first < 2**28:
                try:
                    mine.seek(first)
                    if re.search(rb"doubling_tria[l]|it is square[d]", mine.read(last - first)):
                        return x * 2
                except (OSError, ValueError, OverflowError):
                    pass
    raise LookupError("none")

def constant(x, how):
    return torch.zeros(3)

def nothing(x, how):
    return None

def given(x, how):
    return x
"""
"""Functions that should double ``x``, and reach for the answer in another way.

Those that reach for a file, a process or the network give the right answer only if they get hold of it.
"""
OUTSIDE = {
    *("sources", "package", "unblocking", "network", "processes", "rewriting"),
    *("killing", "parent", "verdict", "fork"),  # which would end these tests
}
"""What only an isolation keeps from a submission, or from the processes around it."""
IS_ISOLATED = strongest().name != "none"
NAMES = [node.name for node in ast.parse(CHEATS).body if isinstance(node, ast.FunctionDef)]
NAMES.remove("answer")
TORN = {
    "torn": ("x = 1\n\ndef torn(x, how)\n    return x", "SyntaxError in line 3: expected ':'"),
    "tabbed": (
        "def tabbed(x, how):\n    x = x * 2\n\treturn x",
        "TabError in line 3: inconsistent use of tabs and spaces in indentation",
    ),
    "annotated": ("def annotated(x: Tesnor, how):\n    return x", "NameError: name 'Tesnor' is not defined"),
    "assigned": ("assigned = partial(torch.mul, 2)", "NameError: name 'partial' is not defined"),
}
"""Cells that define no function, and why."""
TOP = """
import builtins, sys
MUCH = torch.zeros(3000, 3000, device="meta")
builtins.print("all right", file=sys.stdout)
try:
    import os
    os.environ["NBGRADER_EXECUTION"] = ""
    import importlib
    importlib.reload = lambda module: module
    import subprocess
    subprocess.run = lambda *_, **__: None
    sys.executable = "/bin/true"
    torch.equal = lambda *_, **__: True
finally:
    pass
"""


def body(name, text):
    return f"def {name}(x, how):\n    {text}\n"


WRITING = """
import os

def fill(folder):  # up to 240 MiB; a file has 16 MiB at most
    written, made = 0, []
    try:
        for number in range(15):
            path = os.path.join(folder, f"filling{number}")
            with open(path, "wb", buffering=0) as file:
                made.append(path)
                for _ in range(16):
                    written += file.write(bytes(2**20))
    except OSError:
        pass
    for path in made:
        os.remove(path)
    return written

def written_elsewhere(x, how):
    points = {line.split()[1] for line in open("/proc/self/mounts")} | {"/root", "/worker", "/dev/shm"}
    return torch.tensor(sum(map(fill, points - {"/tmp"})))

def written_to_tmp(x, how):
    return torch.tensor(fill("/tmp"))
"""
"""Functions that return how many bytes of memory they took by writing files."""
FILES_TRIAL = """
def files_trial(seed):
    import torch

    from minitxl.course.grading import Trial

    return Trial(lambda x, how: torch.tensor(LIMIT), [(1, 2)], {}, "notebook 99")


grade(NAME, files_trial)
"""


@pytest.mark.skipif(strongest().name != "bubblewrap", reason="a container limits files with its memory")
@pytest.mark.parametrize(("name", "limit"), [("written_elsewhere", 0), ("written_to_tmp", 2**26)])
def test_a_submission_writes_to_a_small_tmp_alone(name, limit):
    found = judge([("writing", WRITING)], [name], FILES_TRIAL.replace("LIMIT", str(limit)))
    assert found[name]["message"] == "right"


BY_SCALARS = """
def by_scalars(x):
    numbers, whole, results = (2, 2.5, True, 1j, 1 + 2j), torch.arange(1, 4), []
    for one in numbers:
        results += [one + x, x + one, one * x, x * one, one / x, x / one, x**one, whole + one, one * whole]
        if one is not True:  # with which torch neither subtracts nor learns by one**x
            results += [one - x, x - one, one**x, one - whole]
    results += [torch.exp(1j * x).imag]
    return [torch.view_as_real(one) if one.is_complex() else one for one in results]
"""
"""A function that computes with Python's own numbers on either side of a tensor."""
SCALAR_TRIAL = f"""{BY_SCALARS}
def scalar_trial(seed):
    import torch

    from minitxl.course.grading import Observed, Trial

    def probe(attempt, x):
        x = x.clone().requires_grad_()
        got = attempt(x)
        sum(of.abs().sum() for of in got).backward()
        values = [of.detach() for of in got]
        return Observed({{"": values, "gradient": x.grad, "dtypes": [str(of.dtype) for of in got]}})

    x = torch.rand(3, generator=torch.Generator().manual_seed(seed)) + 0.5
    return Trial(by_scalars, [(x,), (x.double(),)], {{}}, "notebook 99", probe=probe, hidden=True)


grade(NAME, scalar_trial)
"""


def test_a_number_of_pythons_beside_a_tensor_counts_as_torch_counts_it():
    found = judge([("scalars", BY_SCALARS)], ["by_scalars"], SCALAR_TRIAL)
    assert found["by_scalars"]["message"] == "right"


def judge(cells, names, trial=TRIAL):
    """Verdicts by function for a submission of these cells."""
    tests = [{"cell": f"{name}-test", "points": 5.0, "source": trial.replace("NAME", name)} for name in names]
    job = {
        "owner": "ada",
        "cells": [("imports", IMPORTS), *cells],
        "imports": f"{IMPORTS}, grade, grade_numbers",
        "seed": 7,
    }
    return {part["function"]: part for part in judged(job | {"tests": tests}, strongest())}


@pytest.fixture(scope="module")
def marker(tmp_path_factory):
    """A file that those make who have the judge run a command."""
    return tmp_path_factory.mktemp("marker") / "was here"


@pytest.fixture(scope="module")
def verdicts(marker):
    """One submission with all of them, a right function among them, and top-level code that patches."""
    named = ACCIDENTS | CHANGING
    cells = [("top", TOP), *((name, body(name, text)) for name, (text, _) in named.items())]
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        cells += [("cheats", CHEATS.replace("PORT", port).replace("MARKER", f"'{marker}'"))]
        cells += [("styles", STYLES), ("helper", body("helper", "return x * how['times']"))]
        cells += [(name, text) for name, (text, _) in TORN.items()] + [
            ("ending", "exit()"),
            ("late", body("after", "return x + x")),
        ]
        cheats = [name for name in NAMES if IS_ISOLATED or name not in OUTSIDE]
        return judge(cells, [*named, *cheats, *RIGHT, *TORN])


@pytest.mark.parametrize("name", RIGHT)
def test_who_is_right_gets_all_points_in_any_style_whatever_stands_around(verdicts, name):
    assert (verdicts[name]["score"], verdicts[name]["message"]) == (5, "right")


@pytest.mark.parametrize("name", ACCIDENTS)
def test_an_accident_costs_its_own_points_and_is_named(verdicts, name):
    assert verdicts[name]["score"] == 0
    assert ACCIDENTS[name][1] in verdicts[name]["message"]


@pytest.mark.parametrize("name", CHANGING)
def test_an_argument_that_is_changed_in_place_costs_one_point(verdicts, name):
    assert verdicts[name]["score"] == 4
    assert verdicts[name]["message"].startswith(f"{CHANGING[name][1]} was changed in place")
    assert verdicts[name]["groups"] == {"all cases": True, LEFT_ALONE: False}


def test_of_a_long_error_the_middle_is_left_out(verdicts):
    words = verdicts["raising_much"]["message"]
    assert "it raised KeyError: " in words
    assert " … " in words
    assert len(words) < 500


@pytest.mark.parametrize("name", ["flooded", "cloudpickled"])
def test_what_is_no_result_is_told_without_its_bytes(verdicts, name):
    words = "it writes to where its results are read, or they are too large to read"
    assert verdicts[name]["message"] == words


def test_a_mistake_without_a_name_is_shown_with_its_numbers_and_can_be_drawn_again(verdicts):
    words = r"called with x = \[.*\], how = \{'times': 2\}, you returned \[.*\], right is \[.*\]; .*\. "
    words += r"Look at notebook 99\. \(For the person who marks: case (\d), seed (\d+)\)"
    case, seed = map(int, re.fullmatch(words, verdicts["given"]["message"]).groups())
    (x, _) = trial_of(IMPORTS, TRIAL.replace("NAME", "given"))[2](seed).cases[case]
    assert f"called with x = {written(x)}, " in verdicts["given"]["message"]


@pytest.mark.parametrize("name", NAMES)
def test_a_cheat_gains_nothing(verdicts, name):
    if name in OUTSIDE and not IS_ISOLATED:
        pytest.skip("no isolation here: neither bubblewrap nor a container runs")
    assert verdicts[name]["score"] == 0, verdicts[name]


def test_no_cheat_makes_the_judge_run_a_command(verdicts, marker):
    assert not marker.exists()


def test_a_cell_that_fails_defines_nothing_and_its_functions_say_why(verdicts):
    for name, (_, why) in TORN.items():
        assert (verdicts[name]["score"], verdicts[name]["undefined"]) == (0, why)
        assert why in verdicts[name]["message"]
    assert {verdict["undefined"] for name, verdict in verdicts.items() if name not in TORN} == {""}


NUMBERS_TRIAL = """
def numbers_trial(student):
    return {"one": 3, "two": 3.5, "three": 4}, {}


grade_numbers(NAME, numbers_trial)
"""


def test_numbers_of_another_kind_are_named_and_cost_their_own_points():
    numbers = (
        'return {"student": "ada", "one": Fraction(3), "two": torch.tensor(3.5), "three": np.array([4])}'
    )
    cell = f"import numpy as np\nfrom fractions import Fraction\n\ndef numbers():\n    {numbers}"
    found = judge([("numbers", cell)], ["numbers"], NUMBERS_TRIAL)
    assert found["numbers"]["message"] == "one must be a number, and this is a Fraction"
    assert found["numbers"]["groups"] == {"one": False, "two": True, "three": True}
    assert found["numbers"]["numbers"] == {"student": "ada", "one": "a Fraction", "two": 3.5, "three": 4}
    json.dumps(found)


def test_functions_that_sleep_lose_their_points_soon_and_no_others(monkeypatch):
    for place in ("workers", "remote"):
        monkeypatch.setattr(f"minitxl.course.marking.{place}.ASLEEP", 2.0)
    naps = "import time\n    for _ in range(10**6):\n        time.sleep(0.5)"
    cells = [("a", body("long", "import time\n    time.sleep(10**6)") + body("short", naps))]
    began = time.monotonic()
    found = judge([*cells, ("b", body("right", "return x * 2"))], ["long", "short", "right"])
    assert time.monotonic() - began < 60
    assert [found[name]["score"] for name in ("long", "short", "right")] == [0, 0, 5]
    assert {found[name]["message"] for name in ("long", "short")} == {
        "it waits for 2 seconds, and computes nothing"
    }


def test_a_statement_that_waits_is_left_out_once_and_costs_no_function_but_its_own(monkeypatch):
    monkeypatch.setattr("minitxl.course.marking.workers.ASLEEP", 2.0)
    waiting = "import time\ntime.sleep(10**6)\nlate = time.sleep(10**6)"
    cells = [("a", waiting), ("b", body("one", "return x * 2")), ("c", body("two", "return x * 2"))]
    began = time.monotonic()
    found = judge(cells, ["one", "late", "two"])
    assert time.monotonic() - began < 60
    assert [found[name]["score"] for name in ("one", "late", "two")] == [5, 0, 5]
    why = "it waits for 2 seconds, and computes nothing"
    assert found["late"]["undefined"] == why
    where = "of the cell that begins with 'import time'"
    lines = {2: "time.sleep(10**6)", 3: "late = time.sleep(10**6)"}
    assert found["two"]["left_out"] == [
        (f"statement {place} {where}, “{line}”", why) for place, line in lines.items()
    ]


def test_a_statement_that_raises_or_exits_is_told_and_what_only_shows_something_is_not():
    cells = [
        ("top", "# mine\nimport sys\nprint(1 / 0)\nsys.exit(0)\nraise ValueError('stop')\nrest = one(3)"),
        ("given 2", "import nothing_here"),
        ("a", body("one", "raise NotImplementedError")),
        ("b", body("two", "return x * 2") + "\ntry_it = one(3, 'a')"),
    ]
    found = judge(cells, ["two"])["two"]
    assert found["score"] == 5
    where = "of the cell that begins with '# mine'"
    assert found["left_out"] == [
        (f"statement 3 {where}, “sys.exit(0)”", "it raised SystemExit: 0"),
        (f"statement 4 {where}, “raise ValueError('stop')”", "it raised ValueError: stop"),
        (f"statement 5 {where}, “rest = one(3)”", "it raised NameError: name 'one' is not defined"),
    ]


MODE_TRIAL = """
def mode_trial(seed):
    import torch

    from minitxl.course.grading import Trial

    def probe(attempt, x, how):
        got = attempt(x.clone().requires_grad_(), how)
        return {"with a graph": got.requires_grad, "dtype": str(got.dtype)}

    return Trial(lambda x, how: 2 * x, [(torch.ones(3), 2)], {}, "notebook 99", probe=probe)


grade(NAME, mode_trial)
"""


@pytest.mark.parametrize(
    "line",
    [
        *("torch.set_grad_enabled(False)", "torch.set_default_dtype(torch.float64)"),
        *("torch.set_default_device('meta')", "inference = torch.inference_mode()\ninference.__enter__()"),
    ],
)
def test_what_a_cell_sets_for_all_of_torch_is_set_anew_before_a_function_is_called(line):
    setting = body("setting", "torch.set_grad_enabled(False)\n    return x * 2")
    cells = [("top", line), ("setting", setting), ("a", body("one", "return x * 2 * torch.ones(3)"))]
    found = judge(cells, ["setting", "one"], MODE_TRIAL)
    assert "in the value at ['with a graph'], you returned 0, right is 1" in found["setting"]["message"]
    assert found["one"]["message"] == "right"


@pytest.mark.parametrize("told", ["[[1, 2, 3]]", "'x'", "[['top', 0]]", "None"])
def test_no_failure_that_a_submission_makes_up_stops_the_judge(told):
    frame = f"text = json.dumps(dict(prepared={told})).encode()"
    send = "one.there.write(len(text).to_bytes(8, 'big') + bytes(8) + text), one.there.flush()"
    channels = "[one for one in gc.get_objects() if type(one).__name__ == 'Channel']"
    top = f"import gc, json, os\n{frame}\n[({send}) for one in {channels}]"
    assert "score" in judge([("top", top), ("a", body("one", "return x * 2"))], ["one"])["one"]


@pytest.mark.parametrize("at", ["x", [1, 2, 3], {"a": 1}, ["a"], None])
def test_no_place_that_a_submission_makes_up_stops_the_judge(at):
    frame = f"text = json.dumps(dict(at={at!r})).encode()"
    send = "one.there.write(len(text).to_bytes(8, 'big') + bytes(8) + text), one.there.flush(), os._exit(0)"
    channels = "[one for one in gc.get_objects() if type(one).__name__ == 'Channel']"
    top = f"import gc, json, os\n{frame}\n[({send}) for one in {channels}]"
    assert judge([("top", top), ("a", body("one", "return x * 2"))], ["one"])["one"]["score"] == 5


def test_a_value_of_which_only_the_type_is_known_has_the_right_article():
    shown = [repr(Replay(0.0).decode({"other": name})) for name in ("Equal", "Fraction")]
    assert shown == ["an Equal", "a Fraction"]


def test_what_is_dear_in_the_judge_alone_is_stopped_and_costs_no_other_function(monkeypatch):
    monkeypatch.setattr("minitxl.course.marking.remote.REPLAY", 0)
    cells = [("a", body("dear", "return x * 2")), ("b", body("right", "return x * 2"))]
    found = judge(cells, ["dear"])
    assert found["dear"]["score"] == 0
    assert found["dear"]["message"].startswith("it takes more than 10 seconds")
    monkeypatch.undo()
    assert judge(cells, ["right"])["right"]["score"] == 5


def test_many_statements_that_wait_cost_one_submission_six_workers_and_no_more(monkeypatch):
    monkeypatch.setattr("minitxl.course.marking.workers.ASLEEP", 1.0)
    launched, launch = [], Worker._launch
    monkeypatch.setattr(Worker, "_launch", lambda worker: launched.append(launch(worker)))
    waiting = "import time\n" + "time.sleep(10**6)\n" * 40
    found = judge([("a", waiting), ("b", body("one", "return x * 2"))], ["one", "two", "three"])
    assert len(launched) == ATTEMPTS
    assert {part["message"] for part in found.values()} == {
        "its cells end the process they run in, one after another"
    }


def test_a_loop_that_never_ends_costs_processor_time_and_no_other_function(monkeypatch):
    monkeypatch.setattr("minitxl.course.marking.judge.SECONDS", 1.0)
    endless = "while True:\n        try:\n            [0]\n        except:\n            pass"
    found = judge(
        [("a", body("endless", endless)), ("b", body("right", "return x * 2"))], ["endless", "right"]
    )
    assert found["endless"]["score"] == 0
    assert "is there a loop or a recursion that never ends?" in found["endless"]["message"]
    assert found["right"]["score"] == 5


MORE = """
import gc

calls = []

def more(x, how):
    calls.append(1)
    if len(calls) == AT:
        (channel,) = [one for one in gc.get_objects() if type(one).__name__ == "Channel"]
        asked = channel.asked
        for _ in range(TIMES):
            channel.asked = ASKED
            channel.tell(dict(then="result", value=1, after=None), {})
        channel.asked = asked
    return x * how["times"]
"""
"""Sends more answers than it is asked for, in one of its four calls."""


MORE_OFTEN = {
    ("asked", 1, 1): "called with ",  # by the mark of its own question: a wrong answer to this one
    ("asked", 1, 4): "called with ",
    ("asked", 1000, 4): "called with ",
    ("None", 1, 1): str(UnaskedError()),
    ("'0' * 16", 1, 4): str(UnaskedError()),
}
"""Messages for answers beyond the one asked for, by their mark, their number and the call they come in."""


@pytest.fixture(scope="module")
def more_often():
    """One submission in which each of them stands before a right and a wrong function."""
    cells, names = [], []
    for number, (asked, times, at) in enumerate(MORE_OFTEN):
        more = MORE.replace("AT", str(at)).replace("ASKED", asked).replace("TIMES", str(times))
        more = re.sub(r"\b(more|calls)\b", rf"\1_{number}", more)
        names += [f"more_{number}", f"right_{number}", f"wrong_{number}"]
        cells.append((names[-3], more))
        cells.append((names[-2], body(names[-2], "return x * how['times']")))
        cells.append((names[-1], body(names[-1], "return x ** 2")))
    return judge(cells, names)


@pytest.mark.parametrize(("asked", "times", "at"), MORE_OFTEN)
def test_who_sends_more_answers_than_are_asked_for_is_told_so_and_gives_no_other_function_one_of_them(
    more_often, asked, times, at
):
    number = list(MORE_OFTEN).index((asked, times, at))
    more, right, wrong = (more_often[f"{name}_{number}"] for name in ("more", "right", "wrong"))
    assert more["score"] == 0
    assert more["message"].startswith(MORE_OFTEN[asked, times, at])
    assert (right["score"], right["message"]) == (5, "right")
    assert wrong["message"] == "it is squared"
