"""An assignment, marked in process: its solutions, with one of them changed, before its own hidden tests."""

import re
from copy import deepcopy
from dataclasses import replace
from functools import cache
from itertools import chain, count
from pathlib import Path

import nbformat

from minitxl.course.checker import variants_of
from minitxl.course.differences import equal
from minitxl.course.grading import number_shares, points
from minitxl.course.marking.judge import trial_of

SOURCES = Path(__file__).parents[2] / "notebooks" / "assignments"
WRONG = Path(__file__).parent / "wrong"
SEEDS = range(8)
"""Seeds that each wrong solution is marked with."""
NAMED = 2
"""Seeds for which a wrong solution must be named."""


def remembered(trial):
    """Return the trial with a reference and mistakes that are run once for each case, not for each attempt.

    A case ends with its number here, which its probe alone sees.
    """
    ours = {trial.reference, *chain.from_iterable(map(variants_of, trial.mistakes.values()))}

    @cache
    def outcome(function, number):
        case = deepcopy(trial.cases[number])
        try:
            return trial.probe(function, *case), None
        except Exception as error:
            return None, error
        finally:
            assert equal(case, trial.cases[number])  # else who changes it would have to, each time

    def probe(attempt, *case):
        *case, number = case
        if attempt not in ours:
            return trial.probe(attempt, *case)
        result, error = outcome(attempt, number)
        if error is not None:
            raise error
        return result

    cases = [(*case, number) for number, case in enumerate(trial.cases)]
    return replace(trial, probe=probe, cases=cases, names=trial._names())


@cache
def compiled(source):
    """Return the code of a cell: all but one of a changed notebook's cells are those of others."""
    return compile(source, "<string>", "exec")


class Sheet:
    def __init__(self, stem):
        self.notebook = nbformat.read(SOURCES / f"{stem}.ipynb", as_version=4)
        self.cells = {cell.id: cell for cell in self.notebook.cells}
        self.stem = stem
        self.trial = cache(self._trial)
        self.changed = cache(self.handed_in)
        self.shares = cache(self._shares)

    def of_kind(self, *, grade, solution, kind="code"):
        """Ids of cells by nbgrader's flags."""
        return [
            name
            for name, cell in self.cells.items()
            if cell.cell_type == kind
            and (flags := cell.metadata.get("nbgrader"))
            and (flags.grade, flags.solution) == (grade, solution)
        ]

    @property
    def solutions(self):
        return self.of_kind(grade=False, solution=True)

    @property
    def tests(self):
        return self.of_kind(grade=True, solution=False)

    @property
    def points(self):
        """Points by the id of the graded cell, those marked by hand included."""
        flags = {name: cell.metadata.get("nbgrader", {}) for name, cell in self.cells.items()}
        return {name: flag["points"] for name, flag in flags.items() if flag.get("grade")}

    def blank(self, cell):
        """A solution cell as students get it."""
        return re.sub(
            r"### BEGIN SOLUTION.*?### END SOLUTION",
            "raise NotImplementedError()",
            self.cells[cell].source,
            flags=re.DOTALL,
        )

    def handed_in(self, changed=None, *changes):
        """All that the notebook defines, one solution changed: old and new text, pairs of these, or whole."""
        names = {}
        exec(compiled(self.cells["imports"].source), names)
        for cell in self.solutions:
            source = self.cells[cell].source
            if cell == changed:
                for old, new in self._pairs(source, changes):
                    assert old in source, old
                    source = source.replace(old, new)
            exec(compiled(source), names)
        return names

    @staticmethod
    def _pairs(source, changes):
        if all(isinstance(change, tuple) for change in changes):
            return changes
        return [changes] if len(changes) == 2 else [(source, *changes)]

    def _trial(self, test):
        """What a graded cell holds an attempt against: the attempt's name, and the trial."""
        _, attempt, trial = trial_of(self.cells["imports"].source, self.cells[test].source)
        return attempt, trial if test == "numbers-test" else cache(lambda seed: remembered(trial(seed)))

    def mark(self, names, seed=0):
        """What each graded cell says: None for full points, and otherwise a message."""
        return {test: self.message(test, names, seed) for test in self.tests}

    def message(self, test, names, seed):
        attempt, trial = self.trial(test)
        if test == "numbers-test":
            return self.numbers(names[attempt], trial)
        verdict = trial(seed).judge(names[attempt])
        return None if verdict.right else verdict.message

    def numbers(self, attempt, trial):
        """What the marking says of the numbers; the solution's are Ada's."""
        try:
            given = attempt()
        except NotImplementedError:
            given = None
        verdict, _ = number_shares(given, trial, "ada")
        return None if verdict.right else verdict.message

    def check_wrong(self, words, cell, changes):
        """The changed solution loses the same points of its graded cell for any seed, with these words.

        That it costs no points of another cell is tested with blank functions.
        """
        names, test = self.changed(cell, *changes), f"{cell}-test"
        attempt, trial = self.trial(test)
        if test == "numbers-test":
            assert words in (self.numbers(names[attempt], trial) or "full points")
            return
        by_seed = [self.shares(seed, cell, *changes) for seed in SEEDS]
        for verdict, _ in by_seed[:NAMED]:
            assert words in verdict.message
        groups = [right for _, right in by_seed]
        assert not all(groups[0].values())
        assert all(right == groups[0] for right in groups), groups

    def _shares(self, seed, cell, *changes):
        """Return what the marking says of the changed solution, and which groups of cases are right.

        Mistakes are named for the first seeds alone, since that takes longer than all else.
        """
        attempt, trial = self.trial(f"{cell}-test")
        drawn = trial(seed) if seed in SEEDS[:NAMED] else replace(trial(seed), mistakes={})
        return drawn.shares(self.changed(cell, *changes)[attempt])

    def cost(self, cell, changes):
        """Return the points that the changed solution loses of its graded cell, and how many there are."""
        test = f"{cell}-test"
        attempt, trial = self.trial(test)
        if test == "numbers-test":
            _, right = number_shares(self.changed(cell, *changes)[attempt](), trial, "ada")
        else:
            _, right = self.shares(SEEDS[0], cell, *changes)
        return self.points[test] - points(self.points[test], right), self.points[test]

    def fewest(self, wrong):
        """Wrong solutions of the function that has fewest of them."""
        return min(sum(cell == one for cell, *_ in wrong.values()) for one in self.solutions)

    def trials(self, test, cases=100):
        """Trials of random seeds with so many cases together."""
        _, trial = self.trial(test)
        done = 0
        for seed in count():
            drawn = trial(seed)
            yield drawn
            done += len(drawn.cases)
            if done >= cases:
                return


ALL = [Sheet(path.stem) for path in sorted(SOURCES.glob("*.ipynb"))]
