"""The course's own file, ``course.toml``: the year, due dates, extensions and what a late day costs."""

import json
import math
import tomllib
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

EXAMPLE = """# The rules of this course. Everything may be left out.
year = ""                     # draws everyone's numbers: write it before you hand anything out,
                              # and give make assignments once more

[due]                         # with the offset of your clock from UTC
# "1_heads_and_masks" = 2026-10-12T23:59:00+02:00

[late]
grace_minutes = 15
percent_a_day = 10            # of the assignment's points, for each day that has begun
at_most_percent = 50

# [extensions."1_heads_and_masks"]
# ada = 2026-10-19T23:59:00+02:00
"""


def toml(text: str) -> str:
    """Return a text as course.toml has it."""
    return json.dumps(text, ensure_ascii=False)


def _refuse_others(path: Path, name: str, table: Collection[str], known: Collection[str]) -> None:
    """Refuse keys of a table that have no meaning, and name those that have one."""
    if unknown := {*table} - {*known}:
        listed, may_have = (", ".join(sorted(keys)) for keys in (unknown, known))
        raise ValueError(f"{path} must not have {listed}: {name} may have {may_have}")


@dataclass(frozen=True)
class Rules:
    """What ``course.toml`` says."""

    year: str = ""
    due: dict[str, datetime] = field(default_factory=dict)
    extensions: dict[str, dict[str, datetime]] = field(default_factory=dict)
    grace_minutes: float = 15.0
    percent_a_day: float = 10.0
    at_most_percent: float = 50.0

    @classmethod
    def of(cls, course: Path) -> "Rules":
        """Read the rules of a course; without a file there is neither due date nor penalty."""
        path = course / "course.toml"
        if not path.is_file():
            return cls()
        try:
            told = tomllib.loads(path.read_text("utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} must be TOML: {error}") from None
        _refuse_others(path, "it", told, {"year", "due", "late", "extensions"})
        late = told.get("late", {})
        tables = {"due": told.get("due", {}), "late": late, "extensions": told.get("extensions", {})}
        for name, table in (*tables.items(), *tables["extensions"].items()):
            if not isinstance(table, dict):
                raise ValueError(f"{path}: {name} must be a table, as in [{name}], got {table!r}")
        _refuse_others(path, "late", late, {"grace_minutes", "percent_a_day", "at_most_percent"})
        dates = told.get("due", {}), *told.get("extensions", {}).values()
        for name, when in (pair for table in dates for pair in table.items()):
            if not isinstance(when, datetime) or when.tzinfo is None:
                raise ValueError(
                    f"{path}: the date of {name} must be like 2026-10-12T23:59:00+02:00, got {when}"
                )
        for name, number in late.items():
            if type(number) not in (int, float) or not 0 <= number < math.inf:
                raise ValueError(f"{path}: {name} must be a number of at least 0, got {number!r}")
        numbers = {name: float(number) for name, number in late.items()}
        return cls(str(told.get("year", "")), told.get("due", {}), told.get("extensions", {}), **numbers)

    def check(self, assignments: Collection[str], students: Collection[str]) -> None:
        """Refuse names that no assignment or student has: who is misspelt would get no rule at all.

        Without a list of students, theirs cannot be checked.
        """
        unknown = [name for name in (*self.due, *self.extensions) if name not in assignments]
        if unknown:
            raise ValueError(
                f"course.toml must name assignments of this course ({', '.join(assignments)}), "
                f"got {', '.join(unknown)}"
            )
        people = [name for table in self.extensions.values() for name in table]
        unknown = [name for name in people if students and name not in students]
        if unknown:
            raise ValueError(
                f"course.toml must extend for students of students.csv, got {', '.join(unknown)}"
            )

    def check_year(self, assignment: str, built: str | None) -> None:
        """Refuse an assignment that was built for another year, and so asks everyone for other numbers."""
        if built not in (None, self.year):
            raise ValueError(
                f"{assignment} was built for year = {toml(built)}, and course.toml has year = "
                f"{toml(self.year)}: write {toml(built)} back into it; or, if {assignment} was not handed "
                "out yet, give make assignments again"
            )

    def due_of(self, assignment: str, student: str) -> datetime | None:
        """Return until when a student may hand in: by an extension, or else as everyone; None for ever."""
        return self.extensions.get(assignment, {}).get(student) or self.due.get(assignment)

    def penalty(self, assignment: str, student: str, when: datetime, most: float) -> float:
        """Return the points that a submission loses for its time, of ``most`` points."""
        due = self.due_of(assignment, student)
        if due is None:
            return 0.0
        late = when - due.astimezone(UTC) - timedelta(minutes=self.grace_minutes)
        if late <= timedelta(0):
            return 0.0
        days = math.ceil(late / timedelta(days=1))
        return most * min(self.at_most_percent, days * self.percent_a_day) / 100
