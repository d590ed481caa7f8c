"""What a person should look at: signs, and no verdicts."""

import ast
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeGuard

from minitxl.course.grading import NumbersTrial, is_name_of, is_right
from minitxl.course.marking.names import NO_NAMES, UNREADABLE, Names, is_text
from minitxl.course.marking.normal_form import normal_form

REACHING = re.compile(
    r"(?<!\w)/proc\b|_getframe|\bf_back|\bf_locals|gc\.get_|sqlite|gradebook|ctypes|subprocess|sys\.modules"
    r"|meta_path|__builtins__|set_custom_exc|input_transformers|NBGRADER"
    r"|\bos\.(?:kill|_exit|abort|fork|write|dup|pipe|exec|spawn|system|popen|open)|fdopen|\.fileno\("
    r"|multiprocessing|threading|_thread\b|\bconcurrent\.|\bfrom concurrent\b|PoolExecutor|\bpopen\b"
    r"|import (?:\w+, *)*signal\b|from signal|\bsignal\.(?:alarm|SIG)"
    r"|\bsocket\b|sys\.__std|\bsleep\(|setattr\(torch"
    r"|(?:^|;|^[ \t]*(?:if|else|try|for|while|with|except|finally)\b.*:)[ \t]*torch(?:\.\w+)+ *=[^=]",
    re.MULTILINE,
)
"""Code that reaches for what is not a function's own: other processes, threads, channels, the course."""
PRIVATE = re.compile(
    r"\btorch(?:\.\w+)*\._[a-zA-Z]\w*|\bfrom torch[\w.]* import .*\b_[a-zA-Z]\w*|\btorch\.ops\b"
    r"|\bfrom torch import .*\bops\b|_disable_current_modes|_python_dispatch|_higher_order_ops|flex_attention"
    r"|\.channel\b|\bimport __main__|\btorch\.(?:onnx|ao)\b|\bfrom torch import .*\b(?:onnx|ao)\b"
    r"|_init_fn\b|__wrapped__|decomposition_table|DECOMP_TABLE|aten_decompositions"
    r"|\bimportlib\b|\bimport_module\b|\b__import__\b|\brunpy\b|\bpkgutil\b|\bresolve_name\b|\bpydoc\b"
    r"|\bCompilationUnit\b"
)
"""PyTorch's private parts, its operations by their own names, its attention, the worker's channel.

Also modules that are imported by a text, which may be put together of anything.
"""
FILES = re.compile(
    r"(?<![\w.])(?:open|exec|eval|compile)\(|\b(?:io|codecs)\.open\(|\bi?glob\("
    r"|\blinecache\b|\bfileinput\b|\bFileIO\b|\bmemmap\b|\b(?:import|from) tokenize\b"
    r"|\bos\.(?:walk|listdir|scandir)\b"
    r"|\bPath\(|\.(?:read|write)_(?:text|bytes)\(|\b(?:torch|np|numpy)\.(?:load|save)\w*\(|\bfromfile\("
)
"""Calls that read or write a file, or run text as code; a model's eval() and re.compile() are none."""
NETWORK = re.compile(r"\b(?:import (?:[\w.]+(?: as \w+)?, )*|from )(?:urllib|requests|http|socket)\b")
"""Imports of what asks other machines; as a name of a value, such a word is none."""
IN_FUNCTIONS = re.compile(
    r"\btime\.(?:time|monotonic)|\b(?:perf_counter|process_time|thread_time)|\bdatetime\.now\("
    r"|\bimport (?:[\w.]+(?: as \w+)?, )*minitxl\b|\bfrom minitxl\b(?!\.course\.grading import variant$)",
    re.MULTILINE,
)
"""Reading a clock, and importing the package: signs within a function alone, since cells that measure or
compare are honest.
"""
IN_CELLS = (REACHING, PRIVATE, FILES, NETWORK)
"""Signs in any cell."""
FEW = 8
"""Students who may write a function alike, in a class of any size, before that says nothing."""
COMMON = 0.1
"""Share of a class that may write a function alike before that says nothing, where it is more than FEW."""
SOLVED_BY = "ada"
"""User name in the assignments' solutions."""
LONG = 1500
"""``length`` of a function below which many will write it alike by themselves."""
MOST_SEARCHED = 50_000
"""Characters of a student's code that are searched, at most: some patterns take the square of the length."""
SEVERAL = 2
"""Functions, of those that are compared, that nobody writes as the reference does by chance."""
ADDED = "code in an added cell"
"""Place of a function or class that stands in no graded cell."""
Form = tuple[str, str]
"""Graded function, or ``ADDED``, and a normal form of code in it."""


def reaching(code: Mapping[str, str]) -> dict[str, str]:
    """Return all words that reach for what is not a submission's own, by cell.

    Raises:
        ValueError: for more code than is searched.
        RecursionError: for code that is nested too deeply to be searched.
    """
    if sum(map(len, code.values())) > MOST_SEARCHED:
        raise ValueError(f"it has more than {MOST_SEARCHED:,} characters")
    found = {}
    for name, source in code.items():
        words, inside = _code(source), _functions(source)
        matches = [match for signs in IN_CELLS for match in signs.finditer(words)]
        matches += IN_FUNCTIONS.finditer(inside)
        if matches:
            each = dict.fromkeys(match[0].strip() for match in matches)
            found[name] = ", ".join(each)
    return found


def _code(source: str) -> str:
    """Return code without comments and docstrings; as it is where it cannot be read."""
    try:
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                node.body = [one for one in node.body if not is_text(one)] or [ast.Pass()]
        return ast.unparse(tree)
    except UNREADABLE:
        return source


def _functions(source: str) -> str:
    """Return the functions of a cell, without comments and docstrings."""
    try:
        tree = ast.parse(_code(source))
    except UNREADABLE:
        return ""
    return "\n".join(ast.unparse(one) for one in tree.body if isinstance(one, ast.FunctionDef | ast.ClassDef))


def of_another(
    numbers: Any, own_names: Sequence[str], trial: NumbersTrial, everyone: Iterable[str]
) -> str | None:
    """Return the student whose name or right numbers these are, if they are not the owner's.

    ``own_names`` are those of the owner, the user name first.
    """
    if not isinstance(numbers, dict):
        return None
    given = {name: value for name, value in numbers.items() if name != "student"}

    def are_of(name: str) -> bool:
        right = trial(name)[0]
        return given.keys() == right.keys() and all(is_right(given[one], right[one]) for one in right)

    if any(map(are_of, own_names)):
        return None
    student = numbers.get("student")
    if isinstance(student, str) and not is_name_of(student, own_names):
        return student.strip()
    if not given:
        return None
    return next((one for one in everyone if one != own_names[0] and are_of(one)), None)


def forms(
    code: Mapping[str, str], others: Names, own_names: Sequence[str], added: Iterable[str] = ()
) -> set[Form]:
    """Return the names and normal forms of a student's functions, without those that many will write alike.

    ``code`` has the graded cells by their functions, each of which counts as a whole, and ``added`` are cells
    of the student's own, in which each function and class counts; a method counts as a function too.
    ``others`` are names that other cells define, and ``own_names`` are those of who wrote it: as texts in
    the code they count as a name.
    """
    graded = {own: cell for cell, source in code.items() for own in _renamed(source)}
    parts = [(name, source, others) for name, source in code.items()]
    for one in (one for source in added for one in _definitions(source)):
        parts.append((graded.get(one.name, ADDED), ast.unparse(one), others))
    as_functions = replace(others, values=others.values | others.members)
    for cell, source in (*code.items(), *((ADDED, source) for source in added)):
        for one in _methods(source):
            parts.append((graded.get(one.name, cell), ast.unparse(one), as_functions))
    long = set[Form]()
    for name, source, names in parts:
        if form := normal_form(source, names, own_names):
            own_length = length(source, names, own_names) if _may_hold_given(source) else len(form)
            if own_length > LONG:
                long.add((name, form))
    return long


def _definitions(source: str) -> list[ast.FunctionDef | ast.ClassDef]:
    """Return the functions and classes of a cell."""
    return [one for one in _statements(source) if isinstance(one, ast.FunctionDef | ast.ClassDef)]


def _renamed(source: str) -> list[str]:
    """Return what a cell gives another name, as ``attend = my_attend`` and ``attend = Mine().run`` do."""
    values = (one.value for one in _statements(source) if isinstance(one, ast.Assign))
    return [one.attr if isinstance(one, ast.Attribute) else _name(one) for one in values]


def _methods(source: str) -> Iterator[ast.FunctionDef]:
    """Yield the methods of a cell's classes as the functions that they would be without their class."""
    for of in _statements(source):
        if isinstance(of, ast.ClassDef):
            own = {one.name for one in of.body if isinstance(one, ast.FunctionDef)}
            yield from (_as_function(one, own) for one in of.body if isinstance(one, ast.FunctionDef))


def _as_function(method: ast.FunctionDef, own: Collection[str]) -> ast.FunctionDef:
    """Return a method without its ``self``, where this serves for nothing but to call ``own`` methods."""
    first = next((one.arg for one in (*method.args.posonlyargs, *method.args.args)), None)
    is_static = any(_name(one) == "staticmethod" for one in method.decorator_list)
    method.decorator_list = [
        one for one in method.decorator_list if _name(one) not in ("staticmethod", "classmethod")
    ]
    if first is None or is_static:
        return method

    class Freed(ast.NodeTransformer):
        def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
            if node.attr in own and _name(node.value) == first:
                return ast.Name(node.attr, node.ctx)
            return self.generic_visit(node)

    method = Freed().visit(method)
    if not any(isinstance(one, ast.Name) and one.id == first for one in ast.walk(method)):
        (method.args.posonlyargs or method.args.args).pop(0)
    return method


def _statements(source: str) -> list[ast.stmt]:
    try:
        return ast.parse(source).body
    except UNREADABLE:
        return []


def length(source: str, others: Names = NO_NAMES, own_names: Sequence[str] = ()) -> int:
    """Return the length of a function's normal form, without what the assignment gives; 0 for no code.

    Given are the call of ``variant`` in ``my_numbers``, the sizes that go into it, and the names in the dict
    with "student" that it returns.
    """
    try:
        tree = ast.parse(source)
    except UNREADABLE:
        return 0
    return len(normal_form(ast.unparse(_WithoutGiven(tree).visit(tree)), others, own_names) or "")


def _may_hold_given(source: str) -> bool:
    """Return False for code with nothing of what ``length`` leaves out, as most has."""
    return "variant" in source or "student" in source


class _WithoutGiven(ast.NodeTransformer):
    """Leaves aside the arguments of ``variant``, statements that set sizes for it, and the result's names."""

    def __init__(self, tree: ast.AST) -> None:
        calls = [one for one in ast.walk(tree) if _is_variant(one)]
        self.sizes = {_name(one.value) for call in calls for one in call.keywords if one.arg is None} - {""}

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return node.func if _is_variant(node) else self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign | ast.AugAssign) -> ast.AST:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [one.id for of in targets for one in ast.walk(of) if isinstance(one, ast.Name)]
        return ast.Pass() if names and {*names} <= self.sizes else self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        return self.visit_Assign(node)

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        self.generic_visit(node)
        names = [ast.unparse(one) if one else "" for one in node.keys]
        return ast.List(node.values, ast.Load()) if repr("student") in names else node


def _is_variant(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and _name(node.func) == "variant"


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def published(found: Mapping[str, set[Form]], solved: Collection[str]) -> list[tuple[str, str]]:
    """Return who wrote several functions as the reference does but for names, comments and layout, and which.

    ``solved`` are its ``solved_forms``. One function that is the same may be chance; ``SEVERAL`` are not.
    """
    same = {student: {name for name, form in of if form in solved} for student, of in found.items()}
    return [(one, ", ".join(sorted(names))) for one, names in sorted(same.items()) if len(names) >= SEVERAL]


def solved_forms(reference: Mapping[str, str], imports: str = "") -> set[str]:
    """Return the normal forms of the reference's functions; ``imports`` are those of the assignment."""
    others = Names.of_cells([imports, *reference.values()])
    return {form for names in ((SOLVED_BY,), ()) for _, form in forms(reference, others, names)}


def alike(found: Mapping[str, set[Form]], solved: Collection[str]) -> list[tuple[str, str]]:
    """Return groups of students, and the functions that these wrote alike but for names, comments and layout.

    ``found`` has each student's ``forms``, and ``solved`` are the reference's. A function that is written so
    by the reference, or by more students than may still have it from one another (``FEW``, or
    ``COMMON`` of a larger class), says nothing.
    """
    writers: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for student, of_student in found.items():
        for name, form in of_student:
            if form not in solved:
                writers[form][student].add(name)
    most = max(FEW, round(COMMON * len(found)))
    groups: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for students in writers.values():
        if 2 <= len(students) <= most:
            groups[tuple(sorted(students))].update(*students.values())
    return [
        (f"{', '.join(students)} and {last}", ", ".join(sorted(names)))
        for (*students, last), names in sorted(groups.items())
    ]
