"""Code with its names counted off: what is equal but for names, comments and layout has one form."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from minitxl.course.grading import is_name_of
from minitxl.course.marking.names import NO_NAMES, UNREADABLE, Names, imported, members

LEAVING = (ast.Return, ast.Raise, ast.Break, ast.Continue)
"""Statements after which nothing of their block is run."""
ACTS = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
"""Expressions that may do more than to have a value."""
OWNER = "the student's own name"
"""Text that stands for a user name."""
EINOPS_OWN = ("pattern", "reduction")
"""Arguments of functions of einops that name no axis."""
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
Inner = ast.FunctionDef | ast.Lambda | ast.ClassDef | Comprehension
"""Code with names of its own."""


def normal_form(source: str, others: Names = NO_NAMES, own_names: Sequence[str] = ()) -> str | None:
    """Return code with its names counted off and without statements that do nothing; None for no code.

    Two functions that differ in names, comments and layout alone have one form. These names are counted:
    those that the code itself defines, in each function by themselves, fields and methods of its classes,
    ``others``, from other cells, axes in patterns of einsum and einops, and the ``own_names`` of who wrote
    it, as texts. What is imported has its full name in place of the one that the student gave it, and the
    import itself is left aside.
    """
    try:
        tree = ast.parse(source)
    except UNREADABLE:
        return None
    every = list(ast.walk(tree))
    scopes = {id(one): _Scope.of(one) for one in every if isinstance(one, Inner | ast.Module)}
    read = {one.id for one in every if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}
    for node in reversed(every):  # before any name is counted: one that is left aside takes no number
        for block in ("body", "orelse", "finalbody"):
            if isinstance(statements := getattr(node, block, None), list):
                setattr(node, block, [one for one in _reached(statements) if not _does_nothing(one, read)])
    return ast.dump(_Renamer(tree, scopes, others, own_names).visit(tree))


@dataclass(frozen=True)
class _Scope:
    """Names that a module, function, class or comprehension binds, and those that it imports."""

    bound: frozenset[str]
    modules: Mapping[str, str] = field(default_factory=dict)
    is_class: bool = False

    @classmethod
    def of(cls, node: ast.AST) -> "_Scope":
        names, modules, elsewhere = set[str](), dict[str, str](), set[str]()
        todo = list(_inside(node))
        while todo:
            one = todo.pop()
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
                names.add(one.id)
            elif isinstance(one, ast.Global | ast.Nonlocal):
                elsewhere.update(one.names)
            elif isinstance(one, ast.Import | ast.ImportFrom):
                modules.update(imported(one))
            elif isinstance(one, Comprehension):  # binds its own names, but for those of :=
                names.update(
                    inside.target.id for inside in ast.walk(one) if isinstance(inside, ast.NamedExpr)
                )
            elif isinstance(one, ast.Lambda):
                continue
            else:
                name = one.arg if isinstance(one, ast.arg) else getattr(one, "name", None)
                names.update([name] if name else [])
                if not isinstance(one, Inner):
                    todo.extend(ast.iter_child_nodes(one))
        return cls(frozenset(names - elsewhere), modules, isinstance(node, ast.ClassDef))


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a scope that bind its names."""
    if isinstance(node, Comprehension):
        yield from (one.target for one in node.generators)
        return
    if isinstance(node, ast.FunctionDef | ast.Lambda):
        yield node.args
    body = getattr(node, "body", [])
    yield from body if isinstance(body, list) else [body]


class _Package(ast.Name):
    """The first part of the full name of what is imported."""


class _Renamer(ast.NodeTransformer):
    """Counts off the names of code, in the order in which they stand there."""

    def __init__(
        self, tree: ast.AST, scopes: Mapping[int, _Scope], others: Names, own_names: Sequence[str]
    ) -> None:
        own = scopes[id(tree)]
        outside = _Scope(own.bound | others.values, {**others.modules, **own.modules})
        self.of_node, self.own_names, self.members = scopes, own_names, others.members | {*members(tree)}
        self.scopes: list[tuple[object, _Scope]] = [(None, outside)]
        self.numbers = dict[tuple[object, ...], str]()

    def number(self, *key: object) -> str:
        return self.numbers.setdefault(key, f"n{len(self.numbers)}")

    def number_of(self, name: str) -> str | None:
        """Return the number of a name where it is bound; None for one of Python's or of a module."""
        for place, scope in reversed(self.seen()):
            if name in scope.modules:
                return None
            if name in scope.bound:
                return self.number("member", name) if scope.is_class else self.number("value", place, name)
        return None

    def path_of(self, name: str) -> str | None:
        """Return the full name of what is imported by a name."""
        for _, scope in reversed(self.seen()):
            if name in scope.modules:
                return scope.modules[name]
            if name in scope.bound:
                return None
        return None

    def seen(self) -> list[tuple[object, _Scope]]:
        """Return the scopes whose names are seen here: those of a class in its own body alone."""
        return [one for one in self.scopes[:-1] if not one[1].is_class] + self.scopes[-1:]

    def own(self, called: ast.expr) -> str | None:
        """Return the name of an own function or method that is called; None for any other."""
        if isinstance(called, ast.Name) and self.number_of(called.id):
            return called.id
        if isinstance(called, ast.Attribute) and called.attr in self.members:
            return called.attr
        return None

    def each(self, nodes: Iterable[Any]) -> list[Any]:
        return [self.visit(one) for one in nodes]

    @contextmanager
    def within(self, node: ast.AST) -> Iterator[None]:
        self.scopes.append((id(node), self.of_node[id(node)]))
        yield
        self.scopes.pop()

    def visit(self, node: ast.AST) -> Any:
        """Rename what a node names by a text of its own, and visit what is in it."""
        for at in ("name", "rest"):
            if isinstance(name := getattr(node, at, None), str):
                setattr(node, at, self.number_of(name) or name)
        if isinstance(node, ast.Global | ast.Nonlocal):
            node.names = [self.number_of(name) or name for name in node.names]
        return (
            self.visit_comprehension_scope(node) if isinstance(node, Comprehension) else super().visit(node)
        )

    def visit_Name(self, node: ast.Name) -> ast.expr:
        path = self.path_of(node.id)
        if path is None:
            node.id = self.number_of(node.id) or node.id
            return node
        first, *rest = path.split(".")
        full: ast.expr = _Package(first, ast.Load())
        for name in rest:
            full = ast.Attribute(full, name, ast.Load())
        return full

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.arg = self.number_of(node.arg) or node.arg
        self.generic_visit(node)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.Attribute:
        node.value = self.visit(node.value)
        if node.attr in self.members and _package(node.value) is None:
            node.attr = self.number("member", node.attr)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if isinstance(node.value, str):
            is_owner = is_name_of(node.value, self.own_names)
            node.value = OWNER if is_owner else _pattern(node.value, _axes(node.value))
        return node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        """Rename arguments of own functions, and axes of einops; those of PyTorch's keep their names."""
        called = self.own(node.func)
        given = node.args[0] if node.args else None
        every = [*node.args, *(one.value for one in node.keywords)]
        texts = [one.value for one in every if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        axes = {name: number for text in texts for name, number in _axes(text).items()}
        node.func = self.visit(node.func)
        package = _package(node.func)
        if (
            package == "functools" and given is not None
        ):  # partial gives its keywords on to its first argument
            called, package = self.own(given), None
        node.args = self.each(node.args)
        for one in node.keywords:
            one.value = self.visit(one.value)
            if one.arg is None:
                continue
            if called is not None and package is None:
                one.arg = self.number("argument", called, one.arg)
            elif package == "einops" and one.arg not in EINOPS_OWN:
                one.arg = axes.get(one.arg, "axis")  # of a pattern that stands elsewhere
            else:
                one.arg = axes.get(one.arg, one.arg)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.decorator_list = self.each(node.decorator_list)
        node.returns = node.returns and self.visit(node.returns)
        self.visit_Lambda(node)
        return node

    def visit_Lambda(self, node: ast.Lambda | ast.FunctionDef) -> ast.AST:
        node.args.defaults = self.each(node.args.defaults)
        node.args.kw_defaults = [one and self.visit(one) for one in node.args.kw_defaults]
        with self.within(node):
            for of in ast.iter_child_nodes(node.args):
                if isinstance(of, ast.arg):
                    self.visit(of)
            if isinstance(node, ast.Lambda):
                node.body = self.visit(node.body)
            else:
                node.body = self.each(node.body)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.decorator_list, node.bases = self.each(node.decorator_list), self.each(node.bases)
        node.keywords = self.each(node.keywords)
        with self.within(node):
            node.body = self.each(node.body)
        return node

    def visit_comprehension_scope(self, node: Comprehension) -> ast.AST:
        first = node.generators[0]
        source = self.visit(first.iter)  # which does not see the names that the comprehension binds
        first.iter = ast.Constant(None)
        with self.within(node):
            self.generic_visit(node)
        first.iter = source
        return node


def _package(node: ast.expr) -> str | None:
    """Return the first part of the full name of what is imported; None for anything else."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, _Package) else None


def _axes(text: str) -> dict[str, str]:
    """Return the axes of a pattern of einsum or einops, numbered; none of another text."""
    found = [word for word in _words(text) if word.isidentifier()]
    return {name: f"axis {number}" for number, name in enumerate(dict.fromkeys(found))}


def _pattern(text: str, axes: Mapping[str, str]) -> str:
    return " ".join(axes.get(word, word) for word in _words(text)) if axes else text


def _words(text: str) -> list[str]:
    """Return axes and signs of a pattern: einsum of torch writes axes of one letter side by side."""
    if "->" not in text:
        return []
    parts = re.split("->|,", text)
    axis = r"\w+" if any(" " in part.strip() or "(" in part for part in parts) else r"\w"
    return re.findall(rf"{axis}|->|\.\.\.|[^\s\w]", text)


def _reached(statements: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a block up to one that leaves it."""
    for one in statements:
        yield one
        if isinstance(one, LEAVING):
            return


def _does_nothing(node: ast.stmt, read: set[str]) -> bool:
    """Return True for a statement without effect, or one that calls nothing and names what no one reads.

    An import only gives a name, and what is read by it has its full one.
    """
    if isinstance(node, ast.If | ast.While) and isinstance(node.test, ast.Constant) and not node.test.value:
        return not node.orelse
    if isinstance(node, ast.Try):
        return not (node.body or node.orelse or node.finalbody)
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign):
        targets = [node.target]
    elif isinstance(node, ast.Expr):
        targets = []
    else:
        return isinstance(node, ast.Pass | ast.Import | ast.ImportFrom)
    if node.value is not None and any(isinstance(one, ACTS) for one in ast.walk(node.value)):
        return False
    return all(isinstance(one, ast.Name) and (one.id == "_" or one.id not in read) for one in targets)
