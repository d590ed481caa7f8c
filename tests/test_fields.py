"""Values from outside are checked by one table: type, range, and an error that names value and file."""

import os
from dataclasses import dataclass
from typing import Literal

import pytest

from minitxl.config import ModelConfig
from minitxl.fields import check_types, checked, dataclass_from, flag, number, optional, sequence, text, whole
from minitxl.files import plain_file, read_bytes, read_json

NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("rule", "allowed"),
    [
        (whole(), [0, -5, 10**30]),
        (whole(1, 8), [1, 8]),
        (number(), [0, 0.5, -1]),
        (number(0, 1), [0, 1, 0.5]),
        (flag, [True, False]),
        (text(), ["", "any"]),
        (text("a", "b"), ["a", "b"]),
        (text(longest=2), ["ab"]),
        (optional(whole()), [None, 3]),
        (sequence(whole(0)), [[], [1, 2], (3,)]),
    ],
)
def test_a_value_that_meets_its_rule_is_allowed(rule, allowed):
    assert [rule(value) for value in allowed] == [None] * len(allowed)


@pytest.mark.parametrize(
    ("rule", "value", "requirement"),
    [
        (whole(), "x", "be a whole number"),
        (whole(), 1.0, "be a whole number"),
        (whole(), True, "be a whole number"),
        (whole(1), 0, "be 1 or more"),
        (whole(1, 8), 9, "be at most 8"),
        (number(), "x", "be a number"),
        (number(), True, "be a number"),
        (number(), NAN, "be finite"),
        (number(), INFINITE, "be finite"),
        (number(0), 10**400, "be finite"),
        (number(0), -0.5, "be 0 or more"),
        (flag, 1, "be true or false"),
        (text(), 3, "be text"),
        (text("a", "b", "c"), "d", "be a, b or c"),
        (text("a"), ["a"], "be a"),
        (text(longest=2), "abc", "have at most 2 characters"),
        (optional(whole()), "x", "be a whole number"),
        (sequence(whole()), 3, "be a list"),
        (sequence(whole(0)), [1, -1], "be 0 or more each"),
        (sequence(whole(), longest=1), [1, 1], "have at most 1 values"),
    ],
)
def test_a_value_that_breaks_its_rule_is_told_what_it_must_be(rule, value, requirement):
    assert rule(value) == requirement


SPEC = {"step": whole(0), "name": text()}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, r"run\.json: the content must be an object of names and values, got None"),
        ([1], r"run\.json: the content must be an object of names and values, got \[1\]"),
        ({"name": "a"}, r"run\.json: step must be given, got only 'name'"),
        ({}, r"run\.json: step must be given, got only nothing"),
        ({"step": -5}, r"run\.json: step must be 0 or more, got -5"),
        ({"step": None}, r"run\.json: step must be a whole number, got None"),
        ({"step": 1, "else": 2}, r"run\.json: each name must be one of step, name, got 'else'"),
        ({"step": "x" * 10_000}, r"run\.json: step must be a whole number, got .{,120}"),
    ],
)
def test_what_a_file_holds_is_refused_in_one_sentence_that_names_the_file(content, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        checked(content, SPEC, file="run.json", required=["step"], others="refused")


def test_entries_without_a_rule_are_dropped_unless_they_are_refused():
    assert checked({"step": 3, "else": 1}, SPEC, file="run.json") == {"step": 3}


@dataclass(frozen=True)
class Settings:
    width: int = 1
    rate: float = 0.5
    kind: Literal["a", "b"] = "a"
    sizes: tuple[int, ...] = ()
    limit: int | None = None

    def __post_init__(self):
        if self.width > 9:
            raise ValueError(f"width must be at most 9, got {self.width}")


def test_a_dataclass_is_made_of_what_json_made_of_it():
    settings = Settings(2, 1, "b", (3, 4), 5)
    assert dataclass_from(Settings, {**vars(settings), "sizes": [3, 4]}, file="run.json") == settings
    assert dataclass_from(Settings, {"limit": None}, file="run.json", width=3) == Settings(width=3)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"width": "x"}, "width must be a whole number, got 'x'"),
        ({"width": 10}, "width must be at most 9, got 10"),
        ({"rate": None}, "rate must be a number, got None"),
        ({"kind": "c"}, "kind must be a or b, got 'c'"),
        ({"sizes": [1, "x"]}, r"sizes must be a whole number each, got \[1, 'x'\]"),
        ({"weight": 1}, "each name must be one of width, rate, kind, sizes, limit, got 'weight'"),
    ],
)
def test_a_dataclass_is_not_made_of_other_values(content, sentence):
    with pytest.raises(ValueError, match=rf"^run\.json: {sentence}$"):
        dataclass_from(Settings, content, file="run.json")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"n_layer": 1.5}, "n_layer must be a whole number, got 1.5"),
        ({"n_layer": 10**9}, "n_layer must be at most 1,000, got 1000000000"),
        ({"d_model": 2**40}, "d_model must be at most 1,048,576, got 1099511627776"),
        ({"dropout": NAN}, "dropout must be finite, got nan"),
        ({"tie_embeddings": 1}, "tie_embeddings must be true or false, got 1"),
        ({"cutoffs": ("a",)}, r"cutoffs must be a whole number each, got \('a',\)"),
        ({"attention": "sparse"}, "attention must be absolute, shaw, xl, rotary, alibi or t5, got 'sparse'"),
    ],
)
def test_an_architecture_of_other_types_or_sizes_is_refused(settings, sentence, as_users_run_it):
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        ModelConfig(**settings)


def test_only_a_plain_file_is_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    for path, kind in [
        (tmp_path, "a folder"),
        (tmp_path / "pipe", "a named pipe"),
        ("/dev/zero", "a device"),
        (tmp_path / "missing", "none: No such file or directory"),
        (tmp_path / "loop", "none: Too many levels of symbolic links"),
        ("a\0b", "none: embedded null byte"),
    ]:
        for read in (plain_file, read_json, lambda path: read_bytes(path, at_most=3)):
            with pytest.raises(ValueError, match=f"must be a plain file, got {kind}"):
                read(path)


def test_a_file_beyond_its_limit_is_refused_unread(tmp_path):
    path = tmp_path / "long"
    path.write_bytes(b"1234")
    assert read_bytes(path, at_most=4) == b"1234"
    with pytest.raises(ValueError, match="long must have at most 3 bytes, got 4"):
        read_bytes(path, at_most=3)
    with path.open("wb") as file:
        file.truncate(10**13)  # of holes: it takes no place on the disk
    with pytest.raises(ValueError, match="long must have at most 67,108,864 bytes, got 10,000,000,000,000"):
        read_json(path)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "must be JSON: Expecting value"),
        (b"{", "must be JSON: "),
        (b"\xff", "must be JSON: .*can't decode byte"),
        (b"[" * 100_000, "must be JSON of a few levels, got too many"),
        (b"9" * 5000, "must be JSON: "),
    ],
)
def test_what_is_no_json_is_refused(tmp_path, content, sentence):
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(ValueError, match=rf"x\.json {sentence}"):
        read_json(tmp_path / "x.json")


@dataclass(frozen=True)
class Cuts:
    at: tuple[int, ...]

    def __post_init__(self):
        check_types(self)


def test_a_list_is_taken_as_a_tuple_so_that_settings_are_hashable():
    assert Cuts([3, 5]) == Cuts((3, 5))
    assert hash(Cuts([3, 5])) == hash(Cuts((3, 5)))
    with pytest.raises(ValueError, match="at"):
        Cuts(["x"])
