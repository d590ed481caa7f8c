"""The glossary: complete, without doubles, and every term leads to its notebook."""

import re
from pathlib import Path

GLOSSARY = Path(__file__).parents[2] / "notebooks" / "glossary.md"
NOTEBOOKS = {path.stem for path in GLOSSARY.parent.glob("*.ipynb")}
TEXT = GLOSSARY.read_text("utf-8")
TABLES = [
    [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    for lines in (part.strip().splitlines() for part in re.split(r"\n## .+\n", TEXT)[1:])
]
ROWS = [row for _, _, *rows in TABLES for row in rows]


def test_each_idea_is_a_table_of_complete_rows_45_or_more_together():
    assert len(TABLES) == len(set(re.findall(r"\n## (.+)\n", TEXT)))
    assert len(ROWS) >= 45
    for head, *_ in TABLES:
        assert head == ["term", "中文", "meaning", "symbol", "shape", "section", "notebook"]
    for row in ROWS:
        assert len(row) == 7, row
        assert all(row), row
        assert row[0] != "–", row
        assert re.search(r"[\u4e00-\u9fff]", row[1]), row


def test_each_meaning_is_one_short_sentence():
    for row in ROWS:
        assert re.fullmatch(r"[A-Z][^.]+\.", row[2]), row
        assert len(row[2].split()) <= 25, row


def test_no_term_stands_there_twice():
    for column in (0, 1, 2):
        terms = [row[column].lower() for row in ROWS]
        assert len(set(terms)) == len(terms), sorted({term for term in terms if terms.count(term) > 1})


def test_every_link_leads_to_a_notebook_of_the_course_and_all_are_named():
    links = [re.fullmatch(r"\[(\d\d[a-z]?)\]\((\w+)\.ipynb\)", row[-1]) for row in ROWS]
    for row, link in zip(ROWS, links, strict=True):
        assert link is not None, row
        assert link[2] in NOTEBOOKS, row
        assert link[2].startswith(f"{link[1]}_"), row
    assert {link[2] for link in links} == NOTEBOOKS


def test_it_holds_no_measured_number():
    assert "figures/" not in TEXT
    assert not any(re.search(r"\d\.\d{2,}|\d\s*%", cell) for row in ROWS for cell in row)
