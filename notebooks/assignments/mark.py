"""Mark what was handed in, and write the feedback.

    python notebooks/assignments/mark.py FOLDER                   all assignments
    python notebooks/assignments/mark.py FOLDER 3                 these
    python notebooks/assignments/mark.py FOLDER 3 --student ada   after an appeal: Ada's again
    python notebooks/assignments/mark.py FOLDER --feedback        a page for each student

What was marked before and has not changed is left alone, so an interrupted run goes on where it was.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from tqdm import tqdm

from minitxl.course.marking import feedback, report
from minitxl.course.marking.classroom import Course, Marked
from minitxl.course.marking.gradebook import marks, open_gradebook
from minitxl.course.marking.isolation import strongest, warning
from minitxl.course.marking.records import WHAT_TO_DO, read_record


def names_of(course: Course, asked: list[str]) -> list[str]:
    """The assignments that begin with what was asked for, or all."""
    every = course.assignments()
    found = [name for name in every if not asked or name.startswith(tuple(asked))]
    if not found:
        raise ValueError(
            f"{course.folder} must hold an assignment that begins with {' or '.join(asked)}, "
            f"got {', '.join(every)}"
            if every
            else f"{course.folder} must be a course that 'make assignments' built, got no assignment in it"
        )
    return found


def mark(course: Course, name: str, again: bool | list[str]) -> Marked:
    """Mark one assignment with a bar, and print its tables."""
    with tqdm(desc=name, unit="student", leave=False) as bar:

        def progress(step: int) -> None:
            if step < 0:
                bar.update()
            else:
                bar.reset(step)

        marked = course.mark(name, again=again, progress=progress)
    print(f"\n{name}")
    for title, (head, rows) in report.tables(course, marked).items():
        print(report.written(title, head, rows))
    if words := report.without_time(marked):
        print(words)
    print(f"machine time: {report.machine_time(marked, course.processes)}")
    return marked


def write_feedback(course: Course, name: str) -> list[str]:
    """Write the pages of one assignment from the verdicts and the gradebook; return which are not written."""
    folder = course.folder / "marks" / name
    found, damaged = dict[str, Any](), list[str]()
    for path in sorted(folder.glob("*.json")):
        try:
            record = read_record(path)
            found[record["student"]] = record
        except ValueError as error:
            damaged.append(report.visible(f"{name}: no page: {error}; {WHAT_TO_DO}"))
    with open_gradebook(course.folder) as gradebook:
        standing = marks(gradebook, name, found)
    from minitxl.course.marking.notebooks import Assignment

    pages, failed = feedback.write(course.folder, Assignment.of(course.folder, name), found, standing)
    print(f"{name}: {pages} pages in {course.folder / 'feedback'}")
    if not found and not damaged:
        print(f"{name}: nothing is marked yet: give make mark first")
    elif len(standing) < len(found):
        print(f"{name}: {len(found) - len(standing)} not in the gradebook yet: give make mark first")
    return damaged + [
        report.visible(f"{name}: no page of {student}: {why}") for student, why in failed.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Mark what was handed in, and write the feedback.")
    parser.add_argument("folder", type=Path, help="the course that 'make assignments' built")
    parser.add_argument("names", nargs="*", help="beginnings of the assignments' names; none means all")
    parser.add_argument("--feedback", action="store_true", help="write a page for each student, mark nothing")
    parser.add_argument("--again", action="store_true", help="mark all again, with other random cases")
    parser.add_argument(
        "--student",
        action="append",
        default=[],
        metavar="NAME",
        help="mark this student again; may be given several times",
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="students at a time")
    parser.add_argument(
        "--isolation", choices=["bubblewrap", "container", "none"], help="the strongest if left out"
    )
    asked = parser.parse_args()
    try:
        isolation = strongest(asked.isolation)
        course = Course.of(asked.folder, isolation, max(1, asked.processes or 1))
        names = names_of(course, asked.names)
        if asked.feedback:
            if failed := [words for name in names for words in write_feedback(course, name)]:
                sys.exit("\n".join(failed))
            return
        print(f"submissions run in {isolation.words}", file=sys.stderr)
        if words := warning(isolation):
            print(words, file=sys.stderr)
        for name in names:
            mark(course, name, asked.again or asked.student)
    except ValueError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("interrupted: what is marked is kept, and the next run goes on from there")


if __name__ == "__main__":
    main()
