"""Whose a file is and from when, by the names that Moodle, Canvas, nbgrader's exchange and students give."""

import os
import re
import shutil
import time
import unicodedata
from datetime import UTC, datetime
from pathlib import Path
from zipfile import ZipFile, ZipInfo

import pytest

from minitxl.course.marking.collecting import newest
from minitxl.course.marking.owners import Roster, names_back

NAME = "3_memory"
NOON = datetime(2026, 10, 12, 12, tzinfo=UTC).timestamp()
ROSTER = """id,first_name,last_name,email,canvas_id
ada,Ada,Lovelace,ada@example.org,501
van_dijk,Jan,van Dijk,,502
u_12,Jürgen,Müller-Lüdenscheid,,503
oneill,Sinéad,O’Neill,,504
li1,Wei,Li,,505
li2,Wei,Li,,506
"""


@pytest.fixture
def course(tmp_path):
    (tmp_path / "students.csv").write_text(ROSTER, "utf-8")
    return tmp_path


def put(course, name, *, when=NOON, text="{}"):
    """Write a file below the assignment's downloads, or below the course where the name says so."""
    path = course / (name if name.startswith("submitted/") else f"downloaded/{NAME}/{name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (when, when))
    return path


def pack(course, name, members, *, when=NOON, local=(2026, 10, 11, 9, 0, 0)):
    """Write a zip file with these members, all of one local time."""
    path = course / "downloaded" / NAME / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with ZipFile(path, "w") as archive:
        for member, content in members.items():
            archive.writestr(ZipInfo(member, local), content)
    os.utime(path, (when, when))
    return path


def collected(course):
    """Return the students whose notebooks were found, and the names of files that belong to no one."""
    found, lost = newest(course, NAME, Roster.of(course))
    return {student: one.path for student, one in found.items()}, [one.path.name for one in lost]


@pytest.mark.parametrize(
    ("name", "student"),
    [
        ("ada_3_memory.ipynb", "ada"),
        ("ada.ipynb", "ada"),
        ("Ada Lovelace.ipynb", "ada"),
        ("Ada_3_memory.IPYNB", "ada"),
        ("van_dijk_3_memory.ipynb", "van_dijk"),
        ("archive/van_dijk_3_memory (1).ipynb", "van_dijk"),
        ("van_dijk_3_memory(2).ipynb", "van_dijk"),
        ("van_dijk_3_memory-2.ipynb", "van_dijk"),
        ("u_12_3_memory.ipynb", "u_12"),
        ("van_dijk/3_memory.ipynb", "van_dijk"),
        ("van_dijk/anything at all.ipynb", "van_dijk"),
        ("week 5/ada/work/3_memory-2.ipynb", "ada"),
        # Moodle: "Download all submissions", with a folder for each and without
        ("Ada Lovelace_4211_assignsubmission_file_/3_memory.ipynb", "ada"),
        ("Ada Lovelace_4211_assignsubmission_file/sub/my work (final).ipynb", "ada"),
        ("Ada Lovelace_4211_assignsubmission_file_3_memory (1).ipynb", "ada"),
        ("Jan van Dijk_4212_assignsubmission_file_/3_memory.ipynb", "van_dijk"),
        ("van Dijk Jan_4212_assignsubmission_file_/3_memory.ipynb", "van_dijk"),
        ("Jürgen Müller-Lüdenscheid_4213_assignsubmission_file_/3_memory.ipynb", "u_12"),
        ("Jurgen Muller-Ludenscheid_4213_assignsubmission_file_/3_memory.ipynb", "u_12"),
        ("Sinéad O'Neill_4214_assignsubmission_file_/3_memory.ipynb", "oneill"),
        # Canvas: sortable name, its number of the user and of the submission
        ("lovelaceada_501_98765_3_memory.ipynb", "ada"),
        ("lovelaceada_LATE_501_98765_3_memory-1.ipynb", "ada"),
        ("vandijkjan_502_98766_3_memory.ipynb", "van_dijk"),
        ("müllerlüdenscheidjürgen_503_98767_work.ipynb", "u_12"),
        ("liwei_506_98768_3_memory.ipynb", "li2"),
        # nbgrader's exchange: its inbound folders, and what nbgrader collect makes of them
        ("ada+3_memory+2026-10-12 10:00:00.123456 UTC+xY7zQ/3_memory.ipynb", "ada"),
        ("van_dijk+3_memory+2026-10-12 10:00:00 UTC/3_memory.ipynb", "van_dijk"),
        ("submitted/van_dijk/3_memory/3_memory.ipynb", "van_dijk"),
    ],
)
def test_a_file_is_its_students_whatever_platform_named_it(course, name, student):
    path = put(course, name)
    assert collected(course) == ({student: path}, [])


def test_a_name_is_found_with_its_accents_apart_as_a_mac_writes_them(course):
    name = unicodedata.normalize("NFD", "Jürgen Müller-Lüdenscheid_9_assignsubmission_file_/3_memory.ipynb")
    put(course, name)
    assert list(collected(course)[0]) == ["u_12"]


@pytest.mark.parametrize(
    "name",
    [
        "stranger_3_memory.ipynb",
        "3_memory.ipynb",
        "Wei Li_4215_assignsubmission_file_/3_memory.ipynb",  # there are two
        "Participant_4216_assignsubmission_file_/3_memory.ipynb",
        "anon_a1B2c_98765_3_memory.ipynb",
        "lovelaceada_501_98767_Jan van Dijk_1_assignsubmission_file_.ipynb",
        "Some One_501_4216_assignsubmission_file_/3_memory.ipynb",  # who is called "Some One_501"
        "stranger+3_memory+2026-10-12 10:00:00 UTC/ada_3_memory.ipynb",
    ],
)
def test_a_file_of_no_one_is_told_and_not_guessed(course, name):
    path = put(course, name)
    assert collected(course) == ({}, [path.name])


@pytest.mark.parametrize(
    "name",
    [
        "Ada Lovelace_4211_assignsubmission_file_/Jan van Dijk_4212_assignsubmission_file_.ipynb",
        "Ada Lovelace_4211_assignsubmission_file_/van_dijk_3_memory.ipynb",
        "Ada Lovelace_4211_assignsubmission_file_/downloaded/3_memory/van_dijk_3_memory.ipynb",
        "Ada Lovelace_4211_assignsubmission_file_van_dijk_3_memory.ipynb",
        "lovelaceada_501_98765_van_dijk_3_memory.ipynb",
        "ada+3_memory+2026-10-12 10:00:00 UTC/van_dijk_3_memory.ipynb",
        "ada/van_dijk_3_memory.ipynb",
    ],
)
def test_no_one_hands_in_for_another_by_the_name_of_a_file(course, name):
    put(course, name)
    assert list(collected(course)[0]) == ["ada"]


FORGED = "2026-10-01 09:00:00 UTC"
"""A time before all others, which a student writes into a name."""
OUTER = [
    "Ada Lovelace_4211_assignsubmission_file_/work.zip",
    "Ada Lovelace_4211_assignsubmission_file_work.zip",
    "lovelaceada_501_98767_work.zip",
    "lovelaceada_LATE_501_98767_work.zip",
    "ada_3_memory.zip",
    "ada/work.zip",
    "ada.zip",
    "ada+3_memory+2026-10-11 07:00:00 UTC.zip",
]
"""Names of a student's own archive, as platforms and teachers give them."""
INNER = [
    f"van_dijk+3_memory+{FORGED}/3_memory.ipynb",
    f"van_dijk+3_memory+{FORGED}+xY7zQ.ipynb",
    "Jan van Dijk_1_assignsubmission_file_/3_memory.ipynb",
    "Jan van Dijk_1_assignsubmission_file_3_memory.ipynb",
    "vandijkjan_502_98766_3_memory.ipynb",
    "van_dijk_3_memory.ipynb",
    "van_dijk/3_memory.ipynb",
    "submissions/Jan van Dijk/3_memory.ipynb",
]
"""Names in it that tell of another student."""


def zipped(path, members):
    """Return the bytes of a zip file with these members, all of 2020."""
    with ZipFile(path, "w") as archive:
        for member, content in members.items():
            archive.writestr(ZipInfo(member, (2020, 1, 1, 0, 0, 0)), content)
    return path.read_bytes()


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("is_saved_alone", [False, True])
def test_no_name_in_a_students_archive_is_another_students_or_another_time(
    course, tmp_path, is_saved_alone, outer, inner
):
    mine = "vandijkjan_502_98766_3_memory.ipynb"
    archive = zipped(tmp_path / "inner.zip", {inner: "forged"})
    if is_saved_alone:
        pack(course, outer, {inner: "forged"}, when=NOON + 60)
        put(course, mine)
    else:
        pack(course, "submissions.zip", {outer: archive, mine: "{}"})
    found, lost = newest(course, NAME, Roster.of(course))
    assert (sorted(found), lost) == (["ada", "van_dijk"], [])
    assert found["van_dijk"].path.read_text() == "{}"
    assert (found["van_dijk"].files, found["van_dijk"].others) == (1, {})
    own = datetime.fromtimestamp(NOON + 60, UTC) if is_saved_alone else datetime(2026, 10, 11, 9).astimezone()
    assert found["ada"].when == own
    assert found["ada"].others == {"van_dijk": found["ada"].path}


@pytest.mark.parametrize(("zone", "hour"), [("UTC", 9), ("Europe/Berlin", 7), ("America/New_York", 13)])
def test_times_in_a_zip_file_are_read_on_the_clock_that_tz_names_and_anew_when_it_is_unpacked_again(
    course, monkeypatch, zone, hour
):
    path = pack(course, "submissions.zip", {f"ada_{NAME}.ipynb": "{}"})

    def when():
        time.tzset()
        return newest(course, NAME, Roster.of(course))[0]["ada"].when

    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        assert when() == datetime(2026, 10, 11, 0, tzinfo=UTC)
        shutil.rmtree(path.with_suffix(".unpacked"))
        patch.setenv("TZ", zone)
        assert when() == datetime(2026, 10, 11, hour, tzinfo=UTC)
    time.tzset()


@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("inner", [f"ada+3_memory+{FORGED}/3_memory.ipynb", f"ada+3_memory+{FORGED}.ipynb"])
def test_no_name_in_a_students_archive_is_an_earlier_time_of_their_own(course, tmp_path, outer, inner):
    pack(course, "submissions.zip", {outer: zipped(tmp_path / "inner.zip", {inner: "{}"})})
    found, _ = newest(course, NAME, Roster.of(course))
    assert found["ada"].when == datetime(2026, 10, 11, 9).astimezone(UTC)
    assert found["ada"].others == {}


@pytest.mark.parametrize(
    "name",
    [
        f"ada/van_dijk+3_memory+{FORGED}.ipynb",
        f"ada/van_dijk+3_memory+{FORGED}/3_memory.ipynb",
        f"lovelaceada_501_98767_van_dijk+3_memory+{FORGED}.ipynb",
        f"Ada Lovelace_1_assignsubmission_file_van_dijk+3_memory+{FORGED}.ipynb",
        "Ada Lovelace_1_assignsubmission_file_vandijkjan_502_98766_x.ipynb",
        "Ada Lovelace_1_assignsubmission_file_/Jan van Dijk/3_memory.ipynb",
    ],
)
def test_who_names_another_in_a_file_hands_in_their_own_and_it_is_a_sign(course, name):
    path = put(course, name)
    found, lost = newest(course, NAME, Roster.of(course))
    assert ([*found], lost) == (["ada"], [])
    assert found["ada"].when.timestamp() == NOON
    assert found["ada"].others == {"van_dijk": path}


@pytest.mark.parametrize(
    "outer",
    [
        "Stranger_4211_assignsubmission_file_/work.zip",
        "stranger_999_98767_work.zip",
        f"stranger+3_memory+{FORGED}/work.zip",
    ],
)
@pytest.mark.parametrize("inner", INNER)
def test_no_stranger_hands_in_for_a_student(course, tmp_path, outer, inner):
    pack(course, "submissions.zip", {outer: zipped(tmp_path / "inner.zip", {inner: "forged"})})
    assert collected(course)[0] == {}


def test_a_platforms_archive_whose_name_looks_like_canvass_is_no_students(course):
    inner = {
        "Ada Lovelace_4211_assignsubmission_file_/a.ipynb": "{}",
        "Jan van Dijk_4212_assignsubmission_file_/b.ipynb": "{}",
    }
    pack(course, "INF_2026_1_CS-3_memory-4210.zip", inner)
    assert sorted(collected(course)[0]) == ["ada", "van_dijk"]


def test_a_file_that_a_students_corrected_archive_lacks_counts_no_more(course, tmp_path):
    name = "lovelaceada_501_98767_work.zip"
    deeper = zipped(tmp_path / "deeper.zip", {"van_dijk_3_memory.ipynb": "forged"})
    first = {INNER[0]: "forged", "more.zip": deeper, "3_memory.ipynb": "mine"}
    for members, files, others in ((first, 3, ["van_dijk"]), ({"3_memory.ipynb": "mine"}, 1, [])):
        pack(course, "submissions.zip", {name: zipped(tmp_path / "inner.zip", members)})
        found, _ = newest(course, NAME, Roster.of(course))
        assert (found["ada"].files, [*found["ada"].others]) == (files, others)
    assert found["ada"].path.read_text() == "mine"


def test_an_archive_of_who_is_listed_later_cannot_say_when_it_came(course):
    for outer in ("stranger_999_98767_work.zip", "stranger_3_memory.zip"):
        pack(course, outer, {"3_memory.ipynb": "{}"}, local=(2020, 1, 1, 0, 0, 0))
    assert collected(course)[0] == {}
    with (course / "students.csv").open("a", encoding="utf-8") as file:
        file.write("stranger,Some,Stranger,,999\n")
    found, _ = newest(course, NAME, Roster.of(course))
    assert found["stranger"].when.timestamp() == NOON


@pytest.mark.parametrize(
    "name", ["__MACOSX/._3_memory.ipynb", ".ipynb_checkpoints/3_memory.ipynb", "._x.ipynb"]
)
def test_what_systems_put_beside_a_notebook_is_no_submission(course, name):
    mine = put(course, "ada/3_memory.ipynb")
    put(course, f"ada/{name}", when=NOON + 60)
    assert collected(course) == ({"ada": mine}, [])


def test_the_newest_version_counts_and_at_one_time_the_highest_number(course):
    put(course, "ada_3_memory (3).ipynb", when=NOON - 60)
    put(course, "ada_3_memory.ipynb")
    last = put(course, "ada_3_memory (1).ipynb")
    assert collected(course)[0] == {"ada": last}
    collect = put(course, "submitted/ada/3_memory/3_memory.ipynb", when=NOON - 3600)
    put(course, "submitted/ada/3_memory/timestamp.txt", text="2026-10-12 12:30:00.000000 UTC")
    assert collected(course)[0] == {"ada": collect}


def test_the_exchange_tells_the_time_and_not_the_files(course):
    old = put(course, "ada+3_memory+2026-10-12 10:00:00 UTC+a/3_memory.ipynb", when=NOON + 3600)
    new = put(course, "ada+3_memory+2026-10-12 11:00:00 UTC+b/3_memory.ipynb", when=NOON - 3600)
    found, _ = newest(course, NAME, Roster.of(course))
    assert found["ada"].path == new != old
    assert found["ada"].when == datetime(2026, 10, 12, 11, tzinfo=UTC)


def test_a_timestamp_that_is_no_time_leaves_the_files_time(course):
    put(course, "submitted/ada/3_memory/3_memory.ipynb")
    put(course, "submitted/ada/3_memory/timestamp.txt", text="yesterday, I think")
    found, _ = newest(course, NAME, Roster.of(course))
    assert found["ada"].when.timestamp() == NOON


def test_a_platforms_archive_is_unpacked_once_with_the_times_it_tells(course):
    ours = {
        "Ada Lovelace_4211_assignsubmission_file_/3_memory.ipynb": "{}",
        "Jan van Dijk_4212_assignsubmission_file_/3_memory.ipynb": "{}",
        "__MACOSX/Ada Lovelace_4211_assignsubmission_file_/._3_memory.ipynb": "junk",
        "Jan van Dijk_4212_assignsubmission_onlinetext_/onlinetext.html": "hello",
    }
    pack(course, "course-3_memory-4210.zip", ours)
    found, lost = newest(course, NAME, Roster.of(course))
    assert (sorted(found), lost) == (["ada", "van_dijk"], [])
    assert found["ada"].when == datetime(2026, 10, 11, 9).astimezone(UTC)
    inode = found["ada"].path.stat().st_ino
    assert newest(course, NAME, Roster.of(course))[0]["ada"].path.stat().st_ino == inode


def test_a_students_archive_in_the_platforms_is_unpacked_and_cannot_say_when_it_came(course, tmp_path):
    inner = tmp_path / "inner.zip"
    with ZipFile(inner, "w") as archive:
        archive.writestr(ZipInfo("van_dijk_3_memory/3_memory.ipynb", (2020, 1, 1, 0, 0, 0)), "{}")
    pack(course, "all.zip", {"Ada Lovelace_4211_assignsubmission_file_/my work.zip": inner.read_bytes()})
    found, lost = newest(course, NAME, Roster.of(course))
    assert lost == []
    assert found["ada"].when == datetime(2026, 10, 11, 9).astimezone(UTC)


def test_colons_in_an_archives_names_are_times_and_no_drives(course):
    ours = {
        "ada+3_memory+2026-10-12 10:00:00 UTC+xY7zQ/3_memory.ipynb": "{}",
        "inbound: week 5/van_dijk/12:30/3_memory.ipynb": "{}",
        "u_12/3_memory: my answer.ipynb": "{}",
    }
    pack(course, "inbound.zip", ours)
    found, lost = newest(course, NAME, Roster.of(course))
    assert (sorted(found), lost) == (["ada", "u_12", "van_dijk"], [])
    assert found["ada"].when == datetime(2026, 10, 12, 10, tzinfo=UTC)


def test_moodles_number_is_another_in_each_assignment_and_tells_nothing(course):
    theirs = {"3_memory": {"ada": 4211, "van_dijk": 501}, "4_shaw": {"ada": 9934, "van_dijk": 4211}}
    names = {"ada": "Ada Lovelace", "van_dijk": "Jan van Dijk"}
    for assignment, numbers in theirs.items():
        for student, number in numbers.items():
            folder = f"{names[student]}_{number}_assignsubmission_file_"
            path = course / "downloaded" / assignment / folder / f"{assignment}.ipynb"
            path.parent.mkdir(parents=True)
            path.write_text(student)
        found, lost = newest(course, assignment, Roster.of(course))
        assert lost == []
        assert {student: one.path.read_text() for student, one in found.items()} == {
            "ada": "ada",
            "van_dijk": "van_dijk",  # and no one by Canvas's number 501, which is Ada's
        }


@pytest.mark.parametrize("member", ["../outside.ipynb", "/outside.ipynb", "C:outside.ipynb"])
def test_an_archive_writes_nothing_outside_its_folder_and_its_other_files_count(course, member):
    names = ["Ada Lovelace_1_assignsubmission_file_/a.ipynb", "Jan van Dijk_2_assignsubmission_file_/b.ipynb"]
    path = pack(course, "all.zip", {names[0]: "{}", member: "{}", names[1]: "{}"})
    for _ in range(2):
        found, lost = newest(course, NAME, Roster.of(course))
        assert not list(course.parent.rglob("*outside.ipynb"))
        assert found.keys() == {"ada", "van_dijk"}
        assert [(one.path, one.student) for one in lost] == [(path, None)]
        assert lost[0].why == f"left out, since it is no plain file inside the archive: {member}"


def test_a_damaged_archive_is_told_each_time_and_stops_no_one(course):
    mine = put(course, "ada/3_memory.ipynb")
    broken = pack(course, "van_dijk_3_memory.zip", {"3_memory.ipynb": "{}" * 1000})
    broken.write_bytes(broken.read_bytes()[:-30])
    for _ in range(2):
        assert collected(course) == ({"ada": mine}, [broken.name])


NO_NOTEBOOK = [
    "ada_3_memory.pdf",
    "ada/3_memory.ipynb.txt",
    "Ada Lovelace_4211_assignsubmission_file_/3_memory.pdf",
    "lovelaceada_501_98765_3_memory.html",
    "submitted/ada/3_memory/3_memory.html",
]


@pytest.mark.parametrize("name", NO_NOTEBOOK)
def test_a_students_file_that_is_no_notebook_is_told_until_there_is_one(course, name):
    path = put(course, name)
    put(course, "submitted/ada/3_memory/timestamp.txt", text="2026-10-12 12:30:00.000000 UTC")
    found, (lost,) = newest(course, NAME, Roster.of(course))
    assert found == {}
    assert (lost.path, lost.student, lost.why) == (path, "ada", f"{path.name} is no notebook")
    mine = put(course, "ada_3_memory (1).ipynb")
    assert collected(course) == ({"ada": mine}, [])


def test_what_is_no_notebook_is_told_in_archives_too_and_so_is_an_archive_of_nothing(course, tmp_path):
    inner = tmp_path / "inner.zip"
    with ZipFile(inner, "w") as archive:
        archive.writestr("my work/3_memory.pdf", "%PDF")
    empty = b"PK\5\6" + bytes(18)
    ours = {
        "Ada Lovelace_4211_assignsubmission_file_/3_memory.html": "<html>",
        "Jan van Dijk_4212_assignsubmission_file_/mine.zip": inner.read_bytes(),
        "Sinéad O’Neill_4213_assignsubmission_file_/empty.zip": empty,
    }
    pack(course, "all.zip", ours)
    found, lost = newest(course, NAME, Roster.of(course))
    assert found == {}
    assert {one.student: one.why for one in lost} == {
        "ada": "3_memory.html is no notebook",
        "van_dijk": "3_memory.pdf is no notebook",
        "oneill": "empty.zip holds no notebook",
    }


STRANGE = [
    "\U0001f389" * 120 + ".ipynb",
    f"work/{'long' * 100}/3_memory.ipynb",
    f"{'deep/' * 900}3_memory.ipynb",
    "3_memory.ipynb/3_memory.ipynb",
    f"3_memory ({'9' * 5000}).ipynb",
]
"""Names in an archive that a system may refuse to write, or that stand in one another's way."""


@pytest.mark.parametrize("rest", STRANGE)
@pytest.mark.parametrize("head", ["ada/", "all/Ada Lovelace_1_assignsubmission_file_"])
def test_a_name_that_no_file_can_have_costs_no_one_in_the_archive(course, head, rest):
    jan = "Jan van Dijk_2_assignsubmission_file_/b.ipynb"
    for hour in (9, 10):
        pack(course, "all.zip", {head + rest: f"{hour}", jan: "{}"}, local=(2026, 10, 11, hour, 0, 0))
        found, lost = newest(course, NAME, Roster.of(course))
        assert (sorted(found), lost) == (["ada", "van_dijk"], [])
        assert found["ada"].path.read_text() == f"{hour}"


def test_files_and_folders_of_one_name_cost_no_one_in_the_archive(course):
    members = {"ada/a": "x", "ada/a/b.ipynb": "{}", "van_dijk/3_memory.ipynb": "{}"}
    for one in (members, dict(reversed(members.items())), {"ada/a/b.ipynb/c.ipynb": "{}"}):
        pack(course, "all.zip", one, local=(2026, 10, 11, 10, 0, 0))
        assert (sorted(collected(course)[0]), collected(course)[1]) == (["ada", "van_dijk"], [])


@pytest.mark.parametrize("said", ["9999-12-31 23:59:59 UTC", "0001-01-01 00:00:00 UTC", "[" * 10_000])
def test_a_time_in_which_nothing_can_come_leaves_the_files_time(course, said):
    put(course, "submitted/ada/3_memory/3_memory.ipynb")
    put(course, "submitted/ada/3_memory/timestamp.txt", text=said)
    assert newest(course, NAME, Roster.of(course))[0]["ada"].when.timestamp() == NOON


def test_a_files_own_time_of_another_age_stops_no_one(course):
    put(course, "ada_3_memory.ipynb", when=-1e9)
    put(course, "van_dijk_3_memory.ipynb", when=1e10)
    found, _ = newest(course, NAME, Roster.of(course))
    assert [found[one].when.year for one in ("ada", "van_dijk")] == [1980, 2200]


def test_a_link_to_nowhere_is_told_and_stops_no_one(course):
    path = put(course, "submitted/ada/3_memory/3_memory.ipynb")
    path.unlink()
    path.symlink_to("nowhere")
    mine = put(course, "van_dijk_3_memory.ipynb")
    assert collected(course) == ({"van_dijk": mine}, [path.name])


def test_a_strange_name_of_what_is_no_notebook_costs_no_notebook_in_the_archive(course):
    long = "x" * 300
    pack(course, "all.zip", {f"ada/{long}.pdf": "%PDF", "ada/3_memory.ipynb": "{}"})
    assert list(collected(course)[0]) == ["ada"]


@pytest.mark.parametrize(
    ("name", "student"),
    [
        ("u_12_3_memory (1).ipynb", "u_12"),
        ("u_1_2_3_memory.ipynb", "u_1_2"),
        ("ada/3_memory.ipynb", "ada"),
        ("Ada Lovelace_4211_assignsubmission_file_/any.ipynb", "Ada Lovelace"),
    ],
)
def test_without_a_list_of_students_the_name_in_the_files_name_is_taken(tmp_path, name, student):
    path = put(tmp_path, name)
    assert collected(tmp_path) == ({student: path}, [])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name,email\nAda,ada@example.org\n", "the column id, got name, email$"),
        ("", "the column id, and is empty$"),
        ("id;first_name;email\nada;Ada;\n", "commas between its columns, and has semicolons: save it as"),
        ("id\tfirst_name\nada\tAda\n", "commas between its columns, and has tabs: save it as"),
        ("id,first_name\n", "a row for each student, and has none below its column names$"),
        ("id,first_name\nada,Ada\njan,\nAda,Jan\n", "each id once, and has Ada twice: see row 3$"),
        ("first_name,id\nAda,ada\nJan\n", "an id for each student, and its row 2 has none$"),
    ],
)
def test_a_list_that_names_no_student_or_one_twice_is_refused_in_a_sentence(tmp_path, text, words):
    Path(tmp_path, "students.csv").write_text(text)
    with pytest.raises(ValueError, match=rf"^students\.csv must have {words}"):
        Roster.of(tmp_path)


def test_an_archive_that_is_saved_again_under_its_name_is_read_again_and_loses_nothing(course):
    ada, jan = (
        f"{name}_421_assignsubmission_file_/3_memory.ipynb" for name in ("Ada Lovelace", "Jan van Dijk")
    )
    pack(course, "all.zip", {ada: "first", jan: "first"})
    newest(course, NAME, Roster.of(course))
    sinead = "Sinéad O’Neill_421_assignsubmission_file_/3_memory.ipynb"
    pack(course, "all.zip", {ada: "second", sinead: "first"}, local=(2026, 10, 11, 10, 0, 0))
    found, lost = newest(course, NAME, Roster.of(course))
    texts = {student: one.path.read_text() for student, one in found.items()}
    assert (texts, lost) == ({"ada": "second", "van_dijk": "first", "oneill": "first"}, [])
    assert found["ada"].when == datetime(2026, 10, 11, 10).astimezone(UTC)


def test_of_an_archive_that_is_saved_again_the_newer_files_count_and_equal_ones_keep_their_time(course):
    ada, jan = (
        f"{name}_421_assignsubmission_file_/3_memory.ipynb" for name in ("Ada Lovelace", "Jan van Dijk")
    )
    pack(course, "all.zip", {ada: "newer", jan: "same"})
    newest(course, NAME, Roster.of(course))
    for hour in (8, 10):
        pack(course, "all.zip", {ada: "older", jan: "same"}, local=(2026, 10, 11, 8, hour, 0))
        found, _ = newest(course, NAME, Roster.of(course))
        assert found["ada"].path.read_text() == "newer"
        assert found["van_dijk"].when == datetime(2026, 10, 11, 8, 8).astimezone(UTC)


def test_a_students_archive_in_one_that_is_saved_again_is_read_again(course, tmp_path):
    for text, hour in (("first", 9), ("second", 10)):
        with ZipFile(tmp_path / "inner.zip", "w") as archive:
            archive.writestr("3_memory.ipynb", text)
        name = "Ada Lovelace_4211_assignsubmission_file_/my work.zip"
        inner = (tmp_path / "inner.zip").read_bytes()
        pack(course, "all.zip", {name: inner}, local=(2026, 10, 11, hour, 0, 0))
        found, _ = newest(course, NAME, Roster.of(course))
        assert found["ada"].path.read_text() == text


@pytest.mark.parametrize(
    "name", ["hal.pdf", "zzz_3_memory.pdf", "Wei L_4215_assignsubmission_file_/3_memory.pdf"]
)
def test_a_file_of_no_one_that_is_no_notebook_is_told_too(course, name):
    path = put(course, name)
    found, (lost,) = newest(course, NAME, Roster.of(course))
    assert (found, lost.path, lost.student) == ({}, path, None)
    assert lost.why.startswith(f"{path.name} is no notebook, and no student of students.csv has this name")


TURNED = "id,first_name,last_name\nfay,Fay,Kim\nkim,Kim,Fay\nlee1,Lee,Chan\nlee2,Lee,Chan\n"


@pytest.mark.parametrize(
    ("name", "student"),
    [
        ("Fay Kim_1_assignsubmission_file_/3_memory.ipynb", "fay"),
        ("Kim Fay_2_assignsubmission_file_/3_memory.ipynb", "kim"),
        ("kimfay_501_1_3_memory.ipynb", "fay"),  # Canvas: last name first
        ("faykim_502_2_3_memory.ipynb", "kim"),
    ],
)
def test_who_is_called_as_another_one_is_the_other_way_round_is_found(course, name, student):
    (course / "students.csv").write_text(TURNED)
    path = put(course, name)
    assert collected(course) == ({student: path}, [])


@pytest.mark.parametrize("name", ["Lee Chan_1_assignsubmission_file_/my.ipynb", "chanlee_501_1_my.ipynb"])
@pytest.mark.parametrize("kind", [".ipynb", ".pdf"])
def test_a_file_of_two_students_of_one_name_is_told_of_both(course, name, kind):
    (course / "students.csv").write_text(TURNED)
    put(course, name.replace(".ipynb", kind))
    found, (lost,) = newest(course, NAME, Roster.of(course))
    assert (found, lost.student, lost.same) == ({}, None, ("lee1", "lee2"))
    assert "more than one of this name, lee1 and lee2: rename " in lost.why
    assert lost.why.endswith(", if it is lee1's")


DOWNLOADED = f"downloaded/{NAME}"
MAXI = "Maxi Planck_4399_assignsubmission_file_"
LEE = "Lee Chan_4399_assignsubmission_file_"
INBOUND = f"maxi+{NAME}+2026-10-11 09:00:00 UTC"


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        (f"{MAXI}/my.ipynb", MAXI, "USER_4399_assignsubmission_file_"),
        (f"{MAXI}/max_{NAME}.ipynb", MAXI, "USER_4399_assignsubmission_file_"),
        (f"{MAXI}/my.pdf", MAXI, "USER_4399_assignsubmission_file_"),
        (f"{MAXI}my.ipynb", f"{MAXI}my.ipynb", "USER_4399_assignsubmission_file_my.ipynb"),
        (f"{LEE}/my.ipynb", LEE, "lee1_4399_assignsubmission_file_"),
        (f"{INBOUND}/{NAME}.ipynb", INBOUND, INBOUND.replace("maxi", "USER")),
        (f"submitted/maxi/{NAME}/{NAME}.ipynb", "submitted/maxi", "submitted/USER"),
        ("my.ipynb", "my.ipynb", f"USER_{NAME}.ipynb"),
        ("group/my.ipynb", "group/my.ipynb", f"group/USER_{NAME}.ipynb"),
        ("Lee Chan/my.ipynb", "Lee Chan/my.ipynb", f"Lee Chan/lee1_{NAME}.ipynb"),
        ("my.pdf", "my.pdf", f"USER_{NAME}.pdf"),
    ],
)
@pytest.mark.parametrize("student", ["lee1", "fay"])
def test_what_the_table_says_to_rename_makes_a_file_the_students(course, name, old, new, student):
    """The folder that names someone, where it is a folder's name that decided, and else the file."""
    (course / "students.csv").write_text(TURNED)
    put(course, name)
    _, (lost,) = newest(course, NAME, Roster.of(course))
    what = f"the folder {old}" if "." not in Path(old).name or old == INBOUND else "it"
    assert f": rename {what} to {new if what != 'it' else Path(new).name}, " in lost.why
    folder = course if old.startswith("submitted/") else course / DOWNLOADED
    mine = new.replace("USER", student).replace("lee1_", f"{student}_")
    (folder / old).rename(folder / mine)
    found, others = newest(course, NAME, Roster.of(course))
    assert [*found, *(one.student for one in others)] == [student]


def test_a_renamed_folder_of_moodles_keeps_its_place_in_the_zip_file_of_the_pages(course):
    path = put(course, f"ada_{MAXI.partition('_')[2]}/my.ipynb")
    assert names_back(path, course, NAME, Roster.of(course))["moodle"] == path.parent.name


def test_a_zip_file_of_no_one_is_renamed_and_its_folder_deleted(course):
    pack(course, f"{MAXI}work.zip", {"my.ipynb": "{}"})
    _, (lost,) = newest(course, NAME, Roster.of(course))
    new = "USER_4399_assignsubmission_file_work.zip"
    said = f"rename the zip file {MAXI}work to {new}, and delete the folder {MAXI}work.unpacked beside it, "
    assert said in lost.why
    folder = course / DOWNLOADED
    (folder / f"{MAXI}work.zip").rename(folder / new.replace("USER", "ada"))
    shutil.rmtree(folder / f"{MAXI}work.unpacked")
    assert list(newest(course, NAME, Roster.of(course))[0]) == ["ada"]


@pytest.mark.parametrize("member", ["planckmaxi_LATE_699_7_my.ipynb", "liwei_LATE_699_7_my.ipynb"])
def test_a_file_of_canvass_becomes_a_students_by_its_number_and_stays_late(course, member):
    pack(course, "submissions.zip", {member: "{}"})
    _, (lost,) = newest(course, NAME, Roster.of(course))
    assert re.search(r": write 699 as the canvas_id of (USER|li1) into students.csv, ", lost.why)
    (course / "students.csv").write_text(ROSTER.replace("li1,Wei,Li,,505", "li1,Wei,Li,,699"), "utf-8")
    found, others = newest(course, NAME, Roster.of(course))
    assert ([*found], others, found["li1"].on_time) == (["li1"], [], False)
