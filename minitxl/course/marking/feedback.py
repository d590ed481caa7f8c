"""A page for each student: what each part was worth, what was wrong, and the comments. No hidden test."""

import re
import secrets
import zipfile
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from html import escape
from pathlib import Path
from typing import Any

from minitxl.course.marking.layout import plain
from minitxl.course.marking.notebooks import Assignment
from minitxl.course.marking.records import has_points_of
from minitxl.files import atomic_write

ENDS = (".", "!", "?")
ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+")
"""Place in memory in an error's words, which is another one each time."""
NOT_YET = "its newest points are not in the gradebook yet: give make mark, and then make feedback"
CORRECTED = "a person looked at it and gave these points"
FOR_OLDER = "a person gave points for an older answer, and will look at this one"
SECRET = "submission_secret.txt"
STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;padding:.4rem .6rem;
border-bottom:1px solid #ccc}.points{white-space:nowrap}ul{margin:.3rem 0;padding-left:1.2rem}
pre{white-space:pre-wrap;background:#f6f6f6;padding:.6rem}"""


def _html(text: str) -> str:
    """Return a text as HTML shows it, whoever wrote it."""
    return escape(plain(text))


def page(assignment: Assignment, record: dict[str, Any], mark: dict[str, Any]) -> str:
    """Return the page of one submission; ``mark`` is what the gradebook says of it."""
    title = _html(f"{assignment.name}: {record['student']}")
    late, due = "", _due(record)
    if mark["penalty"]:
        times = f"on {came(record)}" + (f", due {clock(due.timestamp(), due.tzinfo)}" if due else "")
        share = f"{mark['penalty'] / mark['most']:.0%} of {mark['most']:g}"
        less = f"{mark['penalty']:g} points less ({share}), already taken off, but never below 0"
        late = f"<p>Handed in late, {times}: {less}.</p>"
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style></head><body>
<h1>{title}</h1>
<p>{_handed_in(record)}</p>
<p><b>{_total(assignment, mark)}</b></p>{late}
{_functions(record, mark) if record["parts"] else ""}
{_written(assignment, record, mark) if assignment.solutions else _tasks(assignment, mark)}
<p>Do you think that a mark is wrong? Tell the person who marks {_which(assignment)}
It will be looked at by a person.</p>
</body></html>
"""


def name_of(person: Mapping[str, str]) -> str:
    """Return the first and last name that a list of students has, or ""."""
    return " ".join(filter(None, (person.get(key, "").strip() for key in ("first_name", "last_name"))))


def other_names(person: Mapping[str, str]) -> list[str]:
    """Return the full name and the email address by which a list of students knows one, where it has them."""
    return [one for one in (name_of(person), person.get("email", "").strip()) if one]


def _handed_in(record: dict[str, Any]) -> str:
    """Return whose notebook was marked, which file of theirs, and from when."""
    file = Path(record["file"]).name.encode("utf-8", "replace").decode()
    newest = f", the newest of {record['files']} files" if record["files"] > 1 else ""
    who = name_of(record["person"]) or record["student"]
    return _html(f"{who}: {file}{newest}, handed in on {came(record)}")


def clock(seconds: float, zone: tzinfo | None = None) -> str:
    """Return a time on the clock of a zone, or else on this machine's, with the name of the zone."""
    return f"{datetime.fromtimestamp(seconds, UTC).astimezone(zone):%Y-%m-%d %H:%M %Z}"


def _due(record: dict[str, Any]) -> datetime | None:
    """Return until when a submission could come, with the offset that the course gave; None for ever."""
    return datetime.fromisoformat(record["due"]) if record.get("due") else None


def came(record: dict[str, Any]) -> str:
    """Return when a submission came, on the clock of its due date."""
    due = _due(record)
    when = clock(record["time"], due.tzinfo if due else None)
    return f"{when}, on time as Canvas says" if record["on_time"] and due else when


def _total(assignment: Assignment, mark: dict[str, Any]) -> str:
    """Return the points, of those that were marked yet, and what was not."""
    left = mark["by hand"]
    most = mark["most"] - sum(mark["worth"][name] for name in left)
    if not most:
        return "Not marked yet"
    given = sum(points for name, points in mark["points"].items() if name not in left)
    words = f"{max(0.0, given - mark['penalty']):g} of {most:g} points"
    if not left:
        return words
    listed = _html(", ".join(assignment.titles[name] for name in left))
    return f"{words} so far; {listed} {'is' if len(left) == 1 else 'are'} not marked yet"


def _which(assignment: Assignment) -> str:
    """Return what an objection should say."""
    if not assignment.solutions:
        return "which part it is, and where your notebook has what the rubric asks for."
    return (
        "which function it is, for which arguments\n(any that the assignment allows: the marking's own "
        "numbers are random),\nwhat it returns, and what you think is right."
    )


def _functions(record: dict[str, Any], mark: dict[str, Any]) -> str:
    rows = "".join(_row(part, mark) for part in record["parts"])
    said = "".join(
        f"<p>Left out of your notebook: {_html(f'{where}: {why}')}{'' if why.endswith(ENDS) else '.'}</p>\n"
        for where, why in left_out(record)
    )
    return f"""{said}<table><thead><tr><th scope="col">function</th><th scope="col">points</th>
<th scope="col">what was found</th></tr></thead>
<tbody>{rows}</tbody></table>"""


def left_out(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the statements that were left out of a submission, and why, each once."""
    found = ((where, why) for part in record["parts"] for where, why in part.get("left_out", []))
    return list(dict.fromkeys((where, ADDRESS.sub("0x…", why)) for where, why in found))


def _by_hand(name: str, mark: dict[str, Any]) -> tuple[str, str]:
    """Return points and comment of a cell that a person marks."""
    given = f"{mark['points'][name]:g} of {mark['worth'][name]:g} points"
    return "not marked yet" if name in mark["by hand"] else given, _comment(name, name, mark)


def _comment(name: str, cell: str, mark: dict[str, Any]) -> str:
    """Return the comment that stands at a cell; ``name`` is the graded cell's that it is about."""
    comment = _html(mark["comments"].get(cell, "")).replace("\n", "<br>")
    return f"(on an older answer) {comment}" if comment and name in mark["for older"] else comment


def _written(assignment: Assignment, record: dict[str, Any], mark: dict[str, Any]) -> str:
    given, comment = _by_hand(assignment.by_hand[0], mark)
    said = f"<p><b>Comment:</b> {comment}</p>" if comment else ""
    return f"""<h2>The written question: {given}</h2>
<pre>{_html(record["answer"])}</pre>
{said}<p>What each point is given for, and an answer, stand below the question in the solved notebook, which
is handed out when no one can hand in any more.</p>"""


def _tasks(assignment: Assignment, mark: dict[str, Any]) -> str:
    """Return a table of the parts of a project."""
    rows = []
    for name in assignment.by_hand:
        given, comment = _by_hand(name, mark)
        rows.append(f'<tr><td>{_html(name)}</td><td class="points">{given}</td><td>{comment}</td></tr>\n')
    return f"""<table><thead><tr><th scope="col">part</th><th scope="col">points</th>
<th scope="col">comment</th></tr></thead>
<tbody>{"".join(rows)}</tbody></table>"""


def _row(part: dict[str, Any], mark: dict[str, Any]) -> str:
    name = f"<code>{_html(part['function'])}</code>"
    if part["score"] is None:
        return f"<tr><td>{name}</td><td>–</td><td>not marked yet: it will be marked again</td></tr>"
    is_corrected, is_older = part["cell"] in mark["corrected"], part["cell"] in mark["for older"]
    by_hand = " (corrected by hand)" if is_corrected else ""
    given = f"{mark['points'][part['cell']]:g} of {part['most']:g}{by_hand}"
    comment = _comment(part["cell"], part["cell"].removesuffix("-test"), mark)  # it stands at the solution
    groups = part["groups"] if len(part["groups"]) > 1 and not is_older else {}
    listed = "".join(
        f"<li>{'✓ right' if ok else '✗ not yet'}: {_html(one)}</li>" for one, ok in groups.items()
    )
    message = part["message"]
    if is_corrected:
        message = f"{CORRECTED}. The marking had found: {message}"
    if is_older:
        given, message = "not marked yet", FOR_OLDER
    said = f"{_html(message)}{f'<ul>{listed}</ul>' if listed else ''}"
    return (
        f'<tr><td>{name}</td><td class="points">{given}</td>'
        f"<td>{said}{f'<p><b>Comment:</b> {comment}</p>' if comment else ''}</td></tr>\n"
    )


def _for_the_exchange(submitted: Path, folder: Path, seconds: float) -> None:
    """Put beside a page what nbgrader releases it by: the submission's time, and the secret it came with.

    Who handed in elsewhere gets a secret that no one knows: nbgrader ends at the first page without one.
    """
    theirs, mine = submitted / SECRET, folder / SECRET
    if theirs.is_file():
        mine.write_bytes(theirs.read_bytes())
    elif not mine.is_file():
        mine.write_text(secrets.token_hex(32), "utf-8")
    when = datetime.fromtimestamp(seconds, UTC)
    (folder / "timestamp.txt").write_text(f"{when:%Y-%m-%d %H:%M:%S.%f} UTC", "utf-8")


def write(
    course: Path, assignment: Assignment, records: dict[str, Any], found: dict[str, Any]
) -> tuple[int, dict[str, str]]:
    """Write each student's page where nbgrader returns it from.

    That is ``feedback/STUDENT/ASSIGNMENT/ASSIGNMENT.html``. Pages of who handed in by Moodle or Canvas are
    also put into ``feedback/ASSIGNMENT-for-moodle.zip`` or ``-for-canvas.zip``, as these take them back.

    Returns:
        How many pages there are, and by student why a page could not be written, which costs no other theirs:
        there is none where the gradebook has other points than the record, as an interrupted run leaves it.
    """
    pages, failed = 0, dict[str, str]()
    names = {"moodle": f"{{}}/{assignment.name}.html", "canvas": "{}.html"}
    archives: dict[str, dict[str, bytes]] = {platform: {} for platform in names}
    for student, record in records.items():
        if student not in found:
            continue
        if not record["stored"] or not has_points_of(record, found[student]["by the marking"]):
            failed[student] = NOT_YET
            continue
        try:
            path = course / "feedback" / student / assignment.name / f"{assignment.name}.html"
            text = page(assignment, record, found[student]).encode("utf-8")
            with atomic_write(path) as new:
                new.write_bytes(text)
            _for_the_exchange(course / "submitted" / student / assignment.name, path.parent, record["time"])
            for platform, form in names.items():
                if record.get(platform):
                    name = form.format(record[platform])
                    name.encode("utf-8")  # half a character is this student's error, and not the archive's
                    archives[platform][name] = text
            pages += 1
        except Exception as error:
            failed[student] = f"{type(error).__name__}: {error}"
    for platform, texts in archives.items():
        if not texts:
            continue
        with (
            atomic_write(course / "feedback" / f"{assignment.name}-for-{platform}.zip") as new,
            zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            for name, text in texts.items():
                archive.writestr(name, text)
    return pages, failed
