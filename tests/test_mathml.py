"""Equations of the book: gaps beside a function's name, scripts at an accented letter, aligned lines."""

from xml.etree import ElementTree

import pytest
from mathml import NAMESPACE, THIN, as_mathml


def shown(tex):
    """Return an equation's letters in order, "_" for each space."""
    root = ElementTree.fromstring(as_mathml(tex))
    return "".join("_" if one.tag.endswith("mspace") else (one.text or "") for one in root.iter())


@pytest.mark.parametrize(
    ("tex", "expected"),
    [
        (r"-\log p", "−log_p"),
        (r"-\log_2 p", "−log2_p"),
        (r"\alpha \ln \frac{a}{b}", "α_ln_ab"),
        (r"\sin i\omega \cos{j\omega}", "sin_iω_cos_jω"),
        (r"p(x) \log q", "p(x)_log_q"),
        (r"\operatorname{softmax} x", "softmax_x"),
        # a bracket, an operator and a space of one's own need none
        (r"\exp(x)", "exp(x)"),
        (r"\log \left( x \right)", "log(x)"),
        (r"2 + \sin x", "2+sin_x"),
        (r"\log\, p", "log_p"),
    ],
)
def test_a_functions_name_has_the_spaces_of_tex(tex, expected):
    assert shown(tex) == expected


def test_the_space_is_a_thin_one_and_a_named_operator_has_none_of_its_own():
    html = as_mathml(r"\max_j x")
    assert f'<mspace width="{THIN}" />' in html
    assert '<mo lspace="0" rspace="0">max</mo>' in html


def test_the_scripts_of_a_letter_with_an_accent_stand_as_without_it():
    root = ElementTree.fromstring(as_mathml(r"\tilde h^{n-1}_{\tau}"))
    scripts = root.find(f".//{{{NAMESPACE}}}msubsup")
    unseen = scripts[0]
    assert unseen.get("width") == "0"
    assert unseen[0].tag == f"{{{NAMESPACE}}}mphantom"
    assert "".join(unseen.itertext()) == "h"  # whose height it has
    assert ["".join(one.itertext()) for one in scripts[1:]] == ["τ", "n−1"]


def test_aligned_lines_are_rows_of_a_table():
    html = as_mathml(r"\begin{aligned} a &= b \\ &= c \end{aligned}", display="block")
    rows = ElementTree.fromstring(html).findall(f".//{{{NAMESPACE}}}mtr")
    assert ["".join(row.itertext()) for row in rows] == ["a=b", "=c"]
    assert [cell.get("columnalign") for cell in rows[0]] == ["right", "left"]
