"""Tables at the end of marking: marks, what is not marked, what looks suspicious, and machine time."""

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from minitxl.course.marking import suspicion
from minitxl.course.marking.classroom import Course, Marked, is_given_up
from minitxl.course.marking.feedback import came, left_out, name_of, other_names
from minitxl.course.marking.gradebook import marks, open_gradebook
from minitxl.course.marking.judge import trial_of
from minitxl.course.marking.names import Names
from minitxl.course.marking.notebooks import beginning
from minitxl.files import atomic_write

Rows = list[list[str]]


def tables(course: Course, marked: Marked) -> dict[str, tuple[list[str], Rows]]:
    """Return head and rows of each table, and write them as ``marks/ASSIGNMENT/NAME.csv``.

    ``complete.csv`` beside them has those alone whose mark is complete: a platform that reads it leaves
    everyone else as they are.
    """
    name = marked.assignment.name
    with open_gradebook(course.folder) as gradebook:
        found = marks(gradebook, name, sorted({*marked.records, *course.roster.people}))
    people = course.roster.people
    rows = []
    for student in sorted({*people, *found}):
        mark, person = found.get(student), people.get(student, {})
        state = _state(student, mark, marked)
        points = [f"{mark[key]:g}" for key in ("score", "most", "penalty")] if mark else ["", "", ""]
        known = [student, name_of(person), person.get("email", "")]
        rows.append([*known, *points, *_hand_in(marked.records.get(student)), state])
    made: dict[str, tuple[list[str], Rows]] = {
        "marks": (["id", "name", "email", "points", "of", "penalty", "handed in", "files", "state"], rows),
        "unmarked": (["who", "why"], [list(pair) for pair in marked.unmarked]),
        "changed": (
            ["student", "function", "points before", "points now"],
            [list(one) for one in marked.changed],
        ),
        "failed": (["student", "where", "why"], _failed(marked)),
        "suspicious": (["student", "sign", "where"], [*_above(found, marked), *signs(course, marked)]),
    }
    made = {
        title: (head, [[visible(cell) for cell in row] for row in body])
        for title, (head, body) in made.items()
    }
    for title, (head, body) in (made | {"complete": _complete(rows, people)}).items():
        path = course.folder / "marks" / name / f"{title}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = io.StringIO()
        body = [[_as_text(cell) for cell in row] for row in body]
        csv.writer(text, lineterminator="\n").writerows([head, *body])
        with atomic_write(path) as new:
            new.write_text(text.getvalue(), "utf-8")
    return made


def visible(text: str) -> str:
    """Return a text with what a terminal obeys or hides, such as colours, written as escapes."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def _as_text(cell: str) -> str:
    """Return a cell of a CSV file that no spreadsheet takes for a formula."""
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@")) else cell


def _complete(rows: Rows, people: dict[str, dict[str, str]]) -> tuple[list[str], Rows]:
    """Return a table of complete marks, with the columns by which platforms know a student."""
    known = ["first_name", "last_name", "email", "canvas_id"]
    body = [
        [student, *(people.get(student, {}).get(key, "") for key in known), points, most]
        for student, _, _, points, most, *_, state in rows
        if state == "marked"
    ]
    return ["id", *known, "points", "of"], body


def _hand_in(record: dict[str, Any] | None) -> list[str]:
    """Return when a submission came, as its page says it, and of how many files it is the newest."""
    return [came(record), str(record["files"])] if record else ["", ""]


TAKEN_AWAY = "the file that was marked is no longer there, and its points stay"


def _state(student: str, mark: dict[str, Any] | None, marked: Marked) -> str:
    if student in marked.unreadable:
        return f"look at it: {marked.unreadable[student]}"
    if mark is None:
        return "nothing handed in" if student not in marked.records else "mark again"
    if student not in marked.records:
        return f"look at it: {TAKEN_AWAY}"
    record = marked.records[student]
    if record.get("again"):
        return f"look at it: {record['again']}" if is_given_up(record) else "mark again"
    if mark["above"]:
        return f"look at it: {_too_many(mark, marked)}"
    by_hand = ", ".join(
        marked.assignment.titles[cell]
        + (f" ({mark['for older'][cell]:g} points for an older answer)" if cell in mark["for older"] else "")
        for cell in mark["by hand"]
    )
    return f"to mark by hand: {by_hand}" if by_hand else "marked"


def _too_many(mark: dict[str, Any], marked: Marked) -> str:
    return ", ".join(f"{words} in {marked.assignment.titles[cell]}" for cell, words in mark["above"])


def _above(found: dict[str, dict[str, Any]], marked: Marked) -> Rows:
    """Return whose grades have more points than there are to have."""
    return [
        [student, "more points than there are", _too_many(mark, marked)]
        for student, mark in sorted(found.items())
        if mark["above"]
    ]


def _failed(marked: Marked) -> Rows:
    """Return whose functions are not there because their cell fails, and statements that were left out."""
    rows = Rows()
    for student, record in sorted(marked.records.items()):
        undefined = ((part["function"], part.get("undefined")) for part in record["parts"])
        rows += [[student, function, why] for function, why in undefined if why]
        rows += [[student, where, why] for where, why in left_out(record)]
    return rows


def signs(course: Course, marked: Marked) -> Rows:
    """Return what a person should look at: student, sign, place.

    Code that cannot be searched, for whatever reason, is such a sign, and costs no other student theirs.
    """
    rows = [
        [student, "one hand-in names two students", f"{other}: {path.relative_to(course.folder)}"]
        for student, others in sorted(marked.others.items())
        for other, path in others.items()
    ]
    everyone = sorted({*marked.records, *course.roster.people})
    forms: dict[str, set[suspicion.Form]] = {}
    titles = marked.assignment.titles
    for student, record in sorted(marked.records.items()):
        handed = marked.handed[student]
        own_names = [student, *other_names(course.roster.people.get(student, {}))]
        try:
            rows.extend(_signs_of(marked, record, own_names, everyone))  # where it fails, those before stay
            code, own_code = handed.code(), handed.own_code()
            names = Names.of_cells([*own_code.values(), marked.assignment.imports])
            added = [one for cell, one in own_code.items() if cell.rpartition(" ")[0] not in code]
            functions = {titles[cell]: source for cell, source in code.items()}
            forms[student] = suspicion.forms(functions, names, own_names, added)
        except Exception as error:
            rows.append([student, "cannot be searched: read the code", _why_not_searched(error)])
    reference = {name: marked.assignment.cells[name].source for name in marked.assignment.solutions}
    solved = suspicion.solved_forms(reference, marked.assignment.imports)
    for sign, found in (
        ("the published solution after renaming", suspicion.published(forms, solved)),
        ("equal code after renaming", suspicion.alike(forms, solved)),
    ):
        rows += [[who, sign, where] for who, where in found]
    return rows


def _why_not_searched(error: Exception) -> str:
    return (
        "it is nested too deeply" if isinstance(error, RecursionError) else str(error) or type(error).__name__
    )


def _signs_of(
    marked: Marked, record: dict[str, Any], own_names: Sequence[str], everyone: Sequence[str]
) -> Iterator[list[str]]:
    """Yield the signs in one student's hand-in; those that its code may hinder come last."""
    student = record["student"]
    handed = marked.handed[student]
    if handed.edited:
        yield [student, "tests edited or deleted", ", ".join(handed.edited)]
    if is_given_up(record):
        yield [student, "never lets itself be marked", record["again"]]
    numbers = next((test for test in marked.assignment.tests if test["cell"] == "numbers-test"), None)
    part = next((one for one in record["parts"] if one["cell"] == "numbers-test"), None)
    if numbers and part and part.get("numbers"):
        _, _, trial = trial_of(marked.assignment.imports, numbers["source"])
        other = suspicion.of_another(part["numbers"], own_names, trial, everyone)
        if other is not None:
            yield [student, "another one's numbers", other]
    own_code = handed.own_code()
    if reached := suspicion.reaching(own_code):
        titles = {cell: marked.assignment.titles.get(cell.rpartition(" ")[0]) for cell in reached}
        where = [f"{titles[cell] or beginning(own_code[cell])}: {words}" for cell, words in reached.items()]
        yield [student, "reaches for what is not its own", "; ".join(where)]


def without_time(marked: Marked) -> str:
    """Return in a sentence who gets a penalty for the time of a download, and what to do; "" for no one."""
    if not (students := [one for one in marked.untimed if one in marked.records]):
        return ""
    each = ", ".join(f"{one} ({came(marked.records[one])})" for one in students)
    return visible(
        "no time of hand-in: Moodle's zip file has one time for all of its files, so the time of the "
        f"download is taken for {each}, and costs a penalty: give who came in time an extension under "
        f'[extensions."{marked.assignment.name}"] in course.toml that ends later than that, or take the due '
        "date of this assignment out of it"
    )


def machine_time(marked: Marked, processes: int) -> str:
    """Return in a sentence what the marking took, with so many processes."""
    records, anew = marked.records.values(), len(marked.anew)
    total = sum(record["seconds"] for record in records)
    used = sum(part.get("seconds", 0.0) for one in records for part in one["parts"])
    most = max(1, len(records))
    return (
        f"{anew} marked in {marked.seconds:.0f} seconds, {processes} at a time, and {len(records) - anew} as "
        f"before; the mean of all {len(records)}, earlier runs' too, is {total / most:.1f} seconds a "
        f"submission, of which {used / most:.1f} are in its own code"
    )


def written(title: str, head: Sequence[str], rows: Rows) -> str:
    """Return a table as text; all but the last column, which holds the reasons, are cut."""
    if not rows:
        return f"{title}: none"
    shown = [[*(_cut(cell, 90) for cell in row[:-1]), _cut(row[-1], 1000)] for row in [list(head), *rows]]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in shown]
    return "\n".join([f"{title}:", *(f"  {line.rstrip()}" for line in lines)])


def _cut(cell: str, length: int) -> str:
    return cell if len(cell) <= length else cell[: length - 1] + "…"
