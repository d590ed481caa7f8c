"""Equations as MathML, with the spaces and heights that TeX gives them and the converter leaves out."""

from collections.abc import Iterator
from copy import deepcopy
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from latex2mathml.converter import convert

NAMESPACE = "http://www.w3.org/1998/Math/MathML"
ElementTree.register_namespace("", NAMESPACE)
THIN = "0.1667em"
"""Width of TeX's thin space, which stands between the name of a function and what is beside it."""
SCRIPTS = {"msub", "msup", "msubsup", "munder", "mover", "munderover"}
SAME = {"aligned": "align*"}
"""Environments that the converter does not know, and its own that look alike within an equation."""
CLOSING = {")", "]", "}"}


def as_mathml(tex: str, *, display: str = "inline") -> str:
    """Return an equation in TeX as MathML: with the gap of "−log p", and scripts at their letter's height."""
    for name, known in SAME.items():
        tex = tex.replace(f"{{{name}}}", f"{{{known}}}")
    root = ElementTree.fromstring(convert(tex, display=display))
    for element in list(root.iter()):
        if _tag(element) not in SCRIPTS | {"mfrac", "mroot"}:  # whose children have places of their own
            element[:] = list(_spaced(list(element)))
        if _tag(element) in {"msup", "msubsup"} and _tag(element[0]) == "mover":
            _lower_scripts(element)
    return ElementTree.tostring(root, encoding="unicode")


def _tag(element: Element) -> str:
    return element.tag.removeprefix(f"{{{NAMESPACE}}}")


def _new(tag: str, *children: Element, **attributes: str) -> Element:
    """Return a new element of MathML."""
    element = Element(f"{{{NAMESPACE}}}{tag}", attributes)
    element.extend(children)
    return element


def _spaced(children: list[Element]) -> Iterator[Element]:
    """Yield the children, with a thin space wherever TeX has one beside a function's name."""
    for place, child in enumerate(children):
        before = children[place - 1] if place else None
        if before is not None and (_takes_space(before, child) or _is_called(before, child)):
            yield _new("mspace", width=THIN)
        if _tag(named := _base(child)) == "mo" and _is_name(named):
            named.attrib.update(lspace="0", rspace="0")  # an operator's own are thick
        yield child


def _base(element: Element) -> Element:
    """Return what an element's scripts stand at, or the element itself."""
    return element[0] if _tag(element) in SCRIPTS else element


def _is_name(element: Element) -> bool:
    """True for the name of a function: letters of a variable stand alone."""
    text = _base(element).text or ""
    return _tag(_base(element)) in {"mi", "mo"} and len(text) > 1 and text.isalpha()


def _is_called(name: Element, argument: Element) -> bool:
    """True if a function's name stands before an argument that has no brackets."""
    first = argument
    while _tag(first) == "mrow" and len(first):
        first = first[0]
    bare = _tag(_base(first)) not in {"mo", "mspace"} or _is_name(first)
    return _is_name(name) and bare


def _takes_space(before: Element, name: Element) -> bool:
    """True if a function's name follows a factor: operators have spaces of their own."""
    last = before
    while _tag(last) == "mrow" and len(last):
        last = last[-1]
    factor = _tag(_base(last)) not in {"mo", "mspace"} or _base(last).text in CLOSING
    return _is_name(name) and factor


def _lower_scripts(element: Element) -> None:
    """Set the scripts of a letter with an accent where they would stand without the accent, as TeX does."""
    accented = element[0]
    unseen = _new("mpadded", _new("mphantom", deepcopy(accented[0])), width="0")
    scripts = _new(_tag(element), unseen, *element[1:])
    element.tag = f"{{{NAMESPACE}}}mrow"
    element[:] = [accented, scripts]
