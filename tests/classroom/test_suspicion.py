"""Signs in a submission's code: what reaches for what is not its own, and not what is merely unusual."""

import re
from pathlib import Path

import pytest

from minitxl.course.marking.names import Names
from minitxl.course.marking.normal_form import normal_form
from minitxl.course.marking.suspicion import FEW, alike, forms, of_another, reaching, solved_forms
from minitxl.course.marking.suspicion import LONG as MIN_LENGTH

GUIDE = (Path(__file__).parents[2] / "notebooks" / "assignments" / "README.md").read_text("utf-8")
HONEST = {
    "an annotation": "out: torch.Tensor = torch.zeros(3)",
    "a default": "def shift(scores, dtype: torch.dtype = torch.float32, *, out: torch.Tensor = None): pass",
    "a comparison": "if scores.dtype == torch.float32 or torch.pi == 3: pass",
    "a keyword": "torch.zeros(3, dtype=torch.float32)",
    "names": "half_back, signal = back, x\nsignal.shape\nself.buf_locals = signal.sum()",
    "a model's mode and a pattern": "def f(model, x):\n    model.eval()\n    return re.compile('x')",
    "words": 'def f(x):\n    """Like eval(x), or open(x)."""\n    return x  # no exec(x), no time.time()',
    "sizes": "def f(time, glob):\n    return time + glob.shape[0] if False else time",
    "a clock outside functions": "began = time.time()\nf(x)\nprint(perf_counter() - began)",
    "a word on PyTorch's attention": "def f(x):\n    return x  # as flex_attention, or torch.ops",
    "a tokenizer": "def tokenize(text):\n    return text.split()",
    "words on other things": "def f(x):\n    # each distance/process, no sleep(1), not /proc\n    return x",
    "a word in a cell that is no Python": "%time\nx  # each distance/process them all",
    "a quotient": "rate = distance/proc + distance/process",
    "names like private ones": "import torch\n_ops = torch.nn.functional\nx._channel = _ops.pad(x, (1, 0))",
    "words like import": "important = module_of(init_fn)\ndef f(x):\n    return x.on(important)",
    "names like those of the network": "requests, http = x.split(2)\ny = requests.sum() + http.urllib",
    "the package outside functions": "import minitxl\nfrom minitxl.model import TransformerLM",
    "the given import": "def f():\n    from minitxl.course.grading import variant\n    return variant('ada')",
    "einops and torch": "def f(x):\n    return einsum(x, 'a b -> a').clone().exp().evaluate()",
    "another style": """
import numpy as np
from typing import Callable

class Shift:
    rows: list[torch.Tensor] = []

    def __call__(self, scores: torch.Tensor, key: int) -> torch.Tensor:
        wide: torch.Tensor = pad(scores, (0, scores.shape[2]))
        return wide.as_strided(scores.shape, wide.stride())

relative_shift: Callable = lambda *case: Shift()(*case)
kept = np.array([one.tolist() for one in torch.eye(3)])
""",
}
REACHING = [
    "torch.equal = lambda *_: True",
    "import torch; torch.testing.assert_close = print",
    "    torch.Tensor.requires_grad = property(bool)",
    "if True: torch.equal = print",
    "setattr(torch, 'equal', print)",
    "frame.f_back.f_locals",
    "signal.alarm(0)",
    "from signal import alarm",
    "import os, signal",
    "from concurrent.futures import ThreadPoolExecutor",
    "from concurrent import futures",
    "import concurrent.futures as f",
    "def f(x):\n    return getattr(os, 'popen')('ls')",
    "torch.jit.CompilationUnit('def f(x): return x')",
    "open('/proc/self/mem')",
    "x = '/proc'",
    "%pwd\nx = f'{root}/proc/self/maps'",
    "%pwd\ntorch.allclose = print",
    "def f(x):\n    return open('answers.txt').read()",
    "answers = open('answers.txt')",
    "import linecache; answers = linecache.getlines('answers.py')",
    "import fileinput",
    "import io\nchannel = io.FileIO(0)",
    "answers = np.memmap('answers.py')",
    "answers = list(os.walk('/'))",
    "from tokenize import open as read",
    "def f(x):\n    return glob.glob('*')",
    "def f(x):\n    return pathlib.Path('a').read_text()",
    "def f(x):\n    return exec('y = 1')",
    "def f(x):\n    return eval('x')",
    "def f(x):\n    return torch.load('answers.pt')",
    "def f(x):\n    return x if time.time() % 2 else 0",
    "def f(x):\n    began = perf_counter()\n    return x",
    "from torch.utils._python_dispatch import _disable_current_modes",
    "from torch.utils import (\n    _python_dispatch as d,\n)",
    "def f(x):\n    return torch.ops.aten.mul(x, 2)",
    "from torch import nn, ops",
    "from torch._higher_order_ops.flex_attention import math_attention",
    "from torch.nn.attention import flex_attention",
    "torch._C._DisableTorchDispatch()",
    "def f(step, x):\n    return step.channel",
    "import __main__",
    "from importlib import import_module",
    "def f(x):\n    return __import__('to' + 'rch').add(x, x)",
    "def f(x):\n    return by_some_way(x)._init_fn(x)",
    "def f(x):\n    return torch.onnx.ops.attention(x, x, x)",
    "from torch import onnx",
    "from pkgutil import resolve_name",
    "import math, urllib.request as net",
    "def f(x):\n    from urllib.request import urlopen\n    return urlopen(x)",
    "import requests",
    "from http import client",
    "import socket as s",
    "def f(x):\n    import math, minitxl\n    return minitxl.paper",
    "def f(x):\n    from minitxl.paper import memory\n    return memory.extend(x)",
    "def f(x):\n    from minitxl.course.grading import variant, Trial\n    return Trial",
    "def f(x):\n    return pydoc.locate('tor' + 'ch.mul')(x, x)",
]


def test_all_words_of_a_cell_are_shown_each_once():
    cell = "def f(x):\n    import sqlite3, time\n    open('a')\n    open('b')\n    torch._C\n    time.time()"
    assert reaching({"shift": cell}) == {"shift": "sqlite, torch._C, open(, time.time"}


def counting(student):
    return {"layers": len(student)}, {}


@pytest.mark.parametrize(
    ("numbers", "other"),
    [
        ({"student": "ada", "layers": 3}, None),
        ({"student": "Ada Lovelace", "layers": 3}, None),
        ({"student": "Ada L.", "layers": 3}, None),  # her own and right, by whatever name
        ({"student": "Ada Lovelace", "layers": 4}, None),
        ({"student": "Ada Lovelace", "layers": 12}, None),  # drawn with her full name
        ({"student": None, "layers": 4}, None),
        ({"student": "A@x.org", "layers": 4}, None),
        ({"student": "a@x.org", "layers": 7}, None),  # drawn with her email address
        ({"student": "Dora Rossi", "layers": 5}, "Dora Rossi"),
        ({"student": "ada", "layers": 5}, "doras"),
        ({"student": "ada", "layers": 4.9999999}, "doras"),
        ({"student": "ada", "layers": 3.0000001}, None),
    ],
)
def test_numbers_are_anothers_by_name_or_value_and_never_where_they_are_right(numbers, other):
    assert of_another(numbers, ["ada", "Ada Lovelace", "a@x.org"], counting, ["ada", "doras"]) == other


@pytest.mark.parametrize("name", HONEST)
def test_code_that_is_merely_unusual_is_no_sign(name):
    assert reaching({"shift": HONEST[name]}) == {}


@pytest.mark.parametrize("line", REACHING)
def test_code_that_reaches_out_is_a_sign_with_its_cell(line):
    assert reaching({"shift": "x = 1\n" + line, "layer": "x = 1"}).keys() == {"shift"}


LONG = "def f(x):\n" + "".join(f"    x = x + {i} * x.sum()\n" for i in range(12)) + "    return x"


def of_a_class(size, copies, source=LONG):
    """Return the codes of a class in which the first so many have one function, each with another name."""
    names = [f"s{i:03}" for i in range(size)]
    own = [source.replace("x", f"x{i}") for i in range(copies)]
    own += [source.replace("12 *", f"{i} *") + f" * {i}" for i in range(100, 100 + size - copies)]
    return {name: {"f": code} for name, code in zip(names, own, strict=True)}


IMPORTS = "from math import sqrt\n\nimport torch\nfrom einops import einsum, rearrange\n"


def found(codes, reference=None, own_code=None, full_names=None):
    """Return who wrote which functions alike; without ``own_code``, in a class without cells of its own."""
    made = {}
    for student, code in codes.items():
        every = (own_code or codes)[student]
        others = Names.of_cells([*every.values(), IMPORTS])
        added = [source for cell, source in every.items() if cell not in code]
        made[student] = forms(code, others, [student, (full_names or {}).get(student, "")], added)
    return alike(made, solved_forms(reference or {}, IMPORTS))


@pytest.mark.parametrize(("size", "copies"), [(20, 2), (20, 3), (30, 4), (10, FEW), (200, 20)])
def test_all_who_wrote_a_function_alike_are_named_together(size, copies):
    ((students, functions),) = found(of_a_class(size, copies))
    assert students.replace(" and ", ", ").split(", ") == [f"s{i:03}" for i in range(copies)]
    assert functions == "f"


@pytest.mark.parametrize(("size", "copies"), [(10, 0), (10, 1), (20, FEW + 1), (200, 21)])
def test_one_alone_and_more_than_eight_or_a_tenth_of_the_class_are_no_sign(size, copies):
    assert found(of_a_class(size, copies)) == []


def test_a_function_that_is_the_references_own_is_no_sign():
    assert found(of_a_class(20, 3), {"f": LONG.replace("x", "value")}) == []


def test_students_with_several_functions_alike_have_one_row_and_another_group_has_its_own():
    other = LONG.replace("+", "-")
    codes = {name: {"f": LONG, "g": other} for name in ("ada", "bob")} | {"ivo": {"g": other}}
    assert found(codes) == [("ada and bob", "f"), ("ada, bob and ivo", "g")]
    assert found({name: codes[name] for name in ("ada", "bob")}) == [("ada and bob", "f, g")]


CLASS = """class Memory:
    size: int = 0

    def __init__(self, size):
        self.kept, self.size = [], size

    def push(self, states, dim):
        self.kept = (self.kept + [states.sum(dim=dim)])[-self.size :]
"""
READ = """def read(layers, x, size):
    memory = Memory(size)
    for h in x.split(3, dim=1):
        for layer in layers:
            memory.push(states=h, dim=1)
            h = layer(h, torch.cat(memory.kept, dim=1))
        rest = [one.softmax(dim=-1).masked_fill(one > 0, 1.0) for one in memory.kept]
    return torch.stack([h, *rest], dim=0).sum(dim=0)
"""
RENAMED = {"Memory": "Cache", "push": "extend", "kept": "held", "size": "room", "states": "new"}
"""Names of a copy: of a class, a method, a field, and arguments that are also named in a call."""


def renamed(source):
    return re.sub(r"\w+", lambda one: RENAMED.get(one[0], one[0]), source)


def test_a_copy_whose_own_class_has_other_names_is_found_wherever_the_class_stands():
    together = {"ada": {"read": CLASS + READ}, "bob": {"read": renamed(CLASS + READ)}}
    assert found(together) == [("ada and bob", "read")]
    apart = {"ada": {"read": READ * 2, "cell 3": CLASS}, "bob": {"read": renamed(READ) * 2}}
    apart["bob"]["cell 4"] = "import torch as th\n" + renamed(CLASS)
    codes = {student: {"read": code["read"]} for student, code in apart.items()}
    assert found(codes, own_code=apart) == [("ada and bob", "read")]


MINE = LONG.replace("def f(x)", "def mine(x)")
YOURS = "probe = mine(torch.ones(3))\n" + MINE.replace("x", "y").replace("mine", "yours")


def test_code_in_an_added_cell_is_compared_and_a_graded_name_is_followed_to_it():
    named = {"ada": {"f": "f = mine"}, "bob": {"f": "f = yours"}}
    added = {"ada": named["ada"] | {"cell 3": MINE}, "bob": named["bob"] | {"cell 7": YOURS}}
    assert found(named, own_code=added) == [("ada and bob", "f")]
    assert found(named, {"f": LONG}, own_code=added) == []
    called = {"ada": {"f": "f = partial(mine)"}, "bob": {"f": "def f(x):\n    return yours(x)"}}
    added = {"ada": called["ada"] | {"cell 3": MINE}, "bob": called["bob"] | {"cell 7": YOURS}}
    assert found(called, own_code=added) == [("ada and bob", "code in an added cell")]


def test_a_copy_in_an_added_cell_of_what_another_wrote_in_the_graded_one_is_found():
    codes = {"ada": {"f": LONG}, "bob": {"f": "f = yours"}, "ivo": {"f": MINE.replace("11 *", "3 *")}}
    own_code = codes | {"bob": codes["bob"] | {"cell 7": YOURS}}
    assert found(codes, own_code=own_code) == [("ada and bob", "f")]


def test_a_class_in_an_added_cell_is_compared_though_the_functions_that_use_it_are_short():
    body = CLASS + "".join(f"        self.kept.append(self.size + {i})\n" for i in range(20))
    codes = {
        "ada": {"f": "def f(x):\n    return Memory(x)"},
        "bob": {"f": "def f(x):\n    return Cache(x) + 1"},
    }
    own_code = {"ada": codes["ada"] | {"cell 3": body}, "bob": codes["bob"] | {"cell 4": renamed(body)}}
    assert found(codes, own_code=own_code) == [("ada and bob", "code in an added cell")]
    assert "code in an added cell" in GUIDE


@pytest.mark.parametrize("used", ["partial", "functools.partial"])
def test_a_keyword_that_is_given_by_partial_is_renamed_as_in_a_call(used):
    given = f"import functools\nfrom functools import partial\n{LONG}\nmade = {used}(f, x=3), f(x=4)"
    assert found({"ada": {"g": given}, "bob": {"g": given.replace("x", "y")}})
    assert not found({"ada": {"g": given}, "bob": {"g": given.replace("f, x=3", "f, x=5")}})


def test_a_scratch_value_with_the_name_of_an_argument_of_pytorchs_hides_no_copy():
    codes = {"ada": {"read": CLASS + READ}, "bob": {"read": renamed(CLASS + READ)}}
    own_code = {"ada": codes["ada"] | {"cell 2": "dim = 4"}, "bob": codes["bob"]}
    assert found(codes, own_code=own_code) == [("ada and bob", "read")]


@pytest.mark.parametrize("name", ["sum", "T"])
def test_the_guide_says_that_a_field_named_as_a_tensors_hides_a_copy(name):
    used = (CLASS + READ).replace(".sum(dim=0)", f".{name}")
    assert f".{name}" in used
    assert found({"ada": {"read": used}, "bob": {"read": used.replace("size", "room")}})
    assert found({"ada": {"read": used}, "bob": {"read": used.replace("size", name)}}) == []
    assert "a method or field called `sum` or `T`, as tensors have them" in GUIDE


SHAPED = """def score(q, k, table):
    scores = einsum(q, k, "batch head query dim, batch head key dim -> batch head query key") / sqrt(8)
    rows = rearrange(scores, "batch (head one) query key -> batch head one query key", one=1)
    rows = torch.einsum("bhoqk,bhqd->bhkd", rows, q) + torch.nn.functional.pad(table, (0, 1))
    return [torch.cat([one.softmax(dim=-1), one * sqrt(2.0)], dim=-1) for one in rows.unbind(0)]
"""


@pytest.mark.parametrize(
    "added",
    [
        "import torch",
        "import math",
        IMPORTS,
        IMPORTS + "import torch.nn.functional as F",
        "try:\n    import numpy as np\nexcept ImportError:\n    np = None",
        "from math import sqrt as root",
    ],
)
def test_imports_and_a_first_cell_that_is_left_or_changed_hide_no_copy(added):
    codes = {student: {"f": SHAPED} for student in ("ada", "bob")}
    apart = {"ada": codes["ada"], "bob": codes["bob"] | {"imports 0": added}}
    assert found(codes, own_code=apart) == [("ada and bob", "f")]
    assert found(codes, {"f": SHAPED}, own_code=apart) == []
    codes["bob"] = {"f": f"{added}\n{SHAPED}"}
    assert found(codes) == [("ada and bob", "f")]


@pytest.mark.parametrize(
    "changes",
    [
        [("torch.", "th."), ("def score", "import torch as th\n\n\ndef score")],
        [("sqrt(", "math.sqrt("), ("def score", "import math\n\n\ndef score")],
        [("torch.nn.functional.pad", "pad"), ("def score", "from torch.nn.functional import pad\ndef score")],
        [("torch.nn.functional", "F"), ("table):\n", "table):\n    from torch.nn import functional as F\n")],
    ],
)
def test_what_is_imported_by_another_name_is_the_same(changes):
    copy = SHAPED
    for old, new in changes:
        copy = copy.replace(old, new)
    assert found({"ada": {"f": SHAPED}, "bob": {"f": copy}}) == [("ada and bob", "f")]


@pytest.mark.parametrize(
    ("old", "new", "alike"),
    [
        ("bhoqk,bhqd->bhkd", "nahij,naie->naje", True),
        ("bhoqk,bhqd->bhkd", "b h o q k, b h q d -> b h k d", True),
        ("bhoqk,bhqd->bhkd", "bhoqk,bhkd->bhqd", False),
        ("batch head key dim", "batch head query dim", False),
        ("batch (head one) query key -> batch head one query key", "b (h o) i j->b h o i j", False),
        ("one) query key -> batch head one query key", "one) i j -> batch head one i j", True),
        (
            "batch head query dim, batch head key dim -> batch head query key",
            "b h i d, b h j d -> b h i j",
            True,
        ),
    ],
)
def test_other_letters_in_a_pattern_hide_no_copy_and_another_pattern_makes_another_function(old, new, alike):
    codes = {"ada": {"f": SHAPED}, "bob": {"f": SHAPED.replace(old, new)}}
    assert found(codes) == ([("ada and bob", "f")] if alike else [])


def test_an_axis_that_is_named_as_an_argument_has_other_letters_too():
    copy = SHAPED.replace("(head one)", "(head w)").replace("head one query", "head w query")
    codes = {"ada": {"f": SHAPED}, "bob": {"f": copy.replace("one=1", "w=1")}}
    assert found(codes) == [("ada and bob", "f")]
    cut = SHAPED.replace("    scores = ", '    cut = "b (h o) i j -> b h o i j"\n    scores = ')
    cut = re.sub('"batch .head one.*key"', "cut", cut).replace("one=1", "NAME=1")
    codes = {"ada": {"f": cut.replace("NAME", "o")}}
    codes["bob"] = {"f": cut.replace("NAME", "x").replace("(h o)", "(h x)").replace("h o i", "h x i")}
    assert found(codes) == [("ada and bob", "f")]


SCOPES = """class Cost:
    def __init__(self, width, n_layer):
        self.width, self.n_layer, self.spent = width, n_layer, 0

    def add(self, n, width):
        self.spent += n * (4 * self.width**2 + 2 * width)
        return self


def work(time, width, n_layer):
    cost = Cost(width, n_layer)
    for n in range(time):
        cost.add(n, width=[n * width for n in range(n)][-1])
        each = sorted(range(n), key=lambda n: n % width)
    return cost.spent * n_layer + sum(n for n in each)
"""


@pytest.mark.parametrize(
    "changes",
    [
        [("(self, width, n_layer)", "(self, w, depth)"), (" = width, n_layer, 0", " = w, depth, 0")],
        [("[n * width for n in range(n)]", "[m * width for m in range(n)]")],
        [("lambda n: n % width", "lambda one: one % width")],
        [("sum(n for n in each)", "sum(part for part in each)")],
        [("self.width", "self.size")],
        [("self, n, width", "self, n, by"), ("2 * width", "2 * by"), ("width=[", "by=[")],
    ],
)
def test_a_name_that_is_changed_in_one_scope_alone_hides_no_copy(changes):
    copy = SCOPES
    for old, new in changes:
        assert old in copy
        copy = copy.replace(old, new)
    assert found({"ada": {"f": SCOPES}, "bob": {"f": copy}}) == [("ada and bob", "f")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("n % width", "n % n_layer"),
        ("[n * width for n in range(n)]", "[n * width for m in range(n)]"),
        ("n * (4", "width * (4"),
        ("cost.spent * n_layer", "cost.width * n_layer"),
    ],
)
def test_another_name_in_its_place_makes_another_function(old, new):
    assert found({"ada": {"f": SCOPES}, "bob": {"f": SCOPES.replace(old, new)}}) == []


NUMBERS = """def my_numbers():
    widths, lengths = {"d_model": [96, 120, 168, 192]}, {"query": range(13, 20), "mem": range(21, 39)}
    mine = variant("NAME", n_head=[4, 6, 12], batch=[5, 7, 9, 11], places=range(3, 7), **widths, **lengths)
    key = mine["mem"] + mine["query"]
    ahead = key - 1 - (mine["places"] - 2)
    pairs = mine["batch"] * sum(mine["query"] - row for row in range(mine["query"]))
    made = {"parameters": 5 * mine["d_model"] ** 2, "projected": key, "ahead": ahead, "pairs": pairs}
    return {"student": "NAME", **made}
"""
FULL_NAMES = {"ada": "Ada Lovelace", "bob": "Bob B"}


def test_a_copied_formula_in_which_each_wrote_their_own_name_is_found():
    names = {"ada": "ada", "bob": "  bob b"}
    codes = {student: {"numbers": NUMBERS.replace("NAME", name)} for student, name in names.items()}
    assert found(codes, full_names=FULL_NAMES) == [("ada and bob", "numbers")]
    reference = {"numbers": NUMBERS.replace("NAME", "ada")}
    assert found(codes, reference, full_names=FULL_NAMES) == []
    codes["bob"]["numbers"] = NUMBERS.replace("NAME", "ben")
    assert found(codes, full_names=FULL_NAMES) == []


PLAIN = """def my_numbers():
    sizes, lengths = {"d_model": [96, 120, 168, 192], "n_layer": range(4, 9)}, {"query": range(13, 20)}
    lengths |= {"mem": range(21, 39), "row": range(5), "places": range(3, 7), "segments": [2, 3]}
    mine = variant("NAME", n_head=[4, 6, 12], batch=[5, 7, 9, 11], **sizes, **lengths)
    return {
        "student": "NAME",
        "parameters": 5 * mine["d_model"] ** 2,
        "projected": mine["mem"] + mine["query"],
        "weights": mine["batch"] * mine["n_head"] * mine["query"] * mine["mem"],
    }
"""


def test_the_given_call_of_variant_makes_no_plain_formula_long_enough_to_be_a_copy():
    codes = {name: {"numbers": PLAIN.replace("NAME", name)} for name in ("ada", "bob")}
    assert len(normal_form(PLAIN)) > MIN_LENGTH
    assert found(codes) == []
    codes = {name: {"numbers": code["numbers"].replace("variant", "made")} for name, code in codes.items()}
    assert found(codes) == [("ada and bob", "numbers")]


NOTHING = ["_ = 0", "pass", "...", "'a word'", "unused = x", "unused: int = 3", "x", "# raise Error"]
NOTHING += ["if False: raise NotImplementedError", "if 0: x.zero_()", "while None: x += 1"]


@pytest.mark.parametrize("line", NOTHING)
def test_a_line_that_does_nothing_hides_no_copy(line):
    lines = LONG.splitlines()
    codes = {"ada": {"f": LONG}, "bob": {"f": "\n".join([*lines[:5], f"    {line}", *lines[5:]])}}
    assert found(codes) == [("ada and bob", "f")]


def test_a_line_behind_a_return_hides_no_copy():
    codes = {"ada": {"f": LONG}, "bob": {"f": LONG + "\n    x.zero_()\n    raise NotImplementedError()"}}
    assert found(codes) == [("ada and bob", "f")]


@pytest.mark.parametrize("place", range(1, 7))
def test_a_line_that_does_nothing_hides_no_copy_wherever_it_stands(place):
    lines = READ.splitlines()
    indent = re.match(" *", lines[place])[0]
    copy = "\n".join([*lines[:place], f"{indent}_ = 0", *lines[place:]])
    codes = {"ada": {"read": CLASS + READ}, "bob": {"read": renamed(CLASS + copy)}}
    assert found(codes) == [("ada and bob", "read")]


@pytest.mark.parametrize(
    "line",
    [
        "x = -x",
        "unused = x.zero_()",
        "x.zero_()",
        "x[0] = 1",
        "x += 1",
        "return x",
        "if False: x\n    else: x += 1",
    ],
)
def test_a_line_that_does_something_makes_another_function(line):
    lines = LONG.splitlines()
    codes = {"ada": {"f": LONG}, "bob": {"f": "\n".join([*lines[:5], f"    {line}", *lines[5:]])}}
    assert found(codes) == []


METHOD = "class Layer:\n" + re.sub(
    "^", "    ", LONG.replace("def f(x)", "def run(self, x)"), flags=re.MULTILINE
)
STATIC = METHOD.replace("    def run(self, x)", "    @staticmethod\n    def run(x)")
CALLED = "def g(x):\n    return x - 1\n\n\n" + LONG.replace("x.sum()", "g(x)")
CALLING = METHOD.replace("x.sum()", "self.h(x)") + "\n\n    def h(self, x):\n        return x - 1"


@pytest.mark.parametrize("wrapped", [METHOD, STATIC])
def test_a_copy_as_a_method_of_a_class_is_found(wrapped):
    together = {"ada": {"f": LONG}, "bob": {"f": wrapped + "\n\n\nf = Layer().run"}}
    assert found(together) == [("ada and bob", "f")]
    apart = {"ada": {"f": LONG}, "bob": {"f": "f = Layer().run", "cell 3": wrapped.replace("x", "y")}}
    codes = {student: {"f": code["f"]} for student, code in apart.items()}
    assert found(codes, own_code=apart) == [("ada and bob", "f")]


def test_a_copy_as_a_method_that_calls_another_one_is_found():
    apart = {"ada": {"f": "f = h", "cell 2": CALLED}, "bob": {"f": "f = Layer().run", "cell 3": CALLING}}
    codes = {student: {"f": code["f"]} for student, code in apart.items()}
    assert found(codes, own_code=apart) == [("ada and bob", "code in an added cell, f")]
