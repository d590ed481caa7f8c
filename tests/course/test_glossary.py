"""The glossary: complete, without doubles, and every term leads to its notebook."""

import re
from itertools import groupby
from pathlib import Path

GLOSSARY = Path(__file__).parents[2] / "notebooks" / "glossary.md"
NOTEBOOKS = {
    "00_start_here",
    "01_attention",
    "02_positions",
    "03_vanilla_segments",
    "04_recurrence",
    "05_absolute_positions_break",
    "06_dependency_reach",
    "07_shaw",
    "08_xl_four_terms",
    "09_relative_shift",
    "10_training",
    "11_attention_over_memory",
    "12_evaluation_cost",
    "13_generation_and_scale",
}
TEXT = GLOSSARY.read_text("utf-8")
HEAD, RULE, *ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in TEXT.splitlines()
    if line.startswith("|")
]


def test_there_is_one_table_of_45_complete_rows_or_more():
    assert re.search(r"\n\|[^\n]*(\n\|[^\n]*)*\n*\Z", TEXT)
    assert len(ROWS) >= 45
    assert [name.strip() for name in HEAD] == [
        "idea", "term", "中文", "symbol", "shape", "section", "notebook"
    ]  # fmt: skip
    for row in ROWS:
        assert len(row) == len(HEAD), row
        assert all(row), row
        assert row[1] != "–", row
        assert re.search(r"[\u4e00-\u9fff]", row[2]), row


def test_no_term_stands_there_twice():
    for column in (1, 2):
        terms = [row[column].lower() for row in ROWS]
        assert len(set(terms)) == len(terms), sorted({term for term in terms if terms.count(term) > 1})


def test_ideas_stand_together():
    ideas = [idea for idea, _ in groupby(row[0] for row in ROWS)]
    assert len(set(ideas)) == len(ideas)


def test_every_link_leads_to_a_notebook_of_the_course_and_all_are_named():
    links = [re.fullmatch(r"\[(\d\d)\]\((\w+)\.ipynb\)", row[-1]) for row in ROWS]
    for row, link in zip(ROWS, links, strict=True):
        assert link is not None, row
        assert link[2] in NOTEBOOKS, row
        assert link[2].startswith(f"{link[1]}_"), row
    assert {link[2] for link in links} == NOTEBOOKS


def test_it_holds_no_measured_number():
    assert "figures/" not in TEXT
    assert not any(re.search(r"\d\.\d{2,}|\d\s*%", cell) for row in ROWS for cell in row)
