import hashlib
import os
import random
import socket
import tarfile
import zipfile
from pathlib import Path

import pytest
import sites
from support.disk import fill_disk

from minitxl.data import archives, downloads
from minitxl.data.archives import members
from minitxl.data.download_addresses import Download
from minitxl.data.downloads import fetch

CONTENT = random.Random(0).randbytes(400_000)


@pytest.fixture
def site(monkeypatch):
    sites.ask_without_delay(monkeypatch)
    with sites.running() as site:
        site.files["text.zip"] = CONTENT
        yield site


DIGEST = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


def fetched(site, folder: Path, digest: str = DIGEST, **more) -> bytes:
    """Return the content of the site's file, fetched into the folder."""
    (path,) = fetch([Download(f"{site.address}/text.zip", digest, **more)], folder)
    assert path == folder / "text.zip"
    return path.read_bytes()


def test_a_file_is_downloaded_once(site, tmp_path):
    for _ in range(2):
        assert fetched(site, tmp_path / "new") == CONTENT
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["text.zip"]
    assert len(site.asked) == 1


def test_md5_does_where_it_is_all_there_is(site, tmp_path):
    assert fetched(site, tmp_path, f"md5:{hashlib.md5(CONTENT).hexdigest()}") == CONTENT


def test_a_file_placed_by_hand_is_not_downloaded(site, tmp_path):
    (tmp_path / "text.zip").write_bytes(CONTENT)
    fetched(site, tmp_path)
    assert site.asked == []


def test_a_damaged_file_in_the_folder_is_downloaded_anew(site, tmp_path):
    (tmp_path / "text.zip").write_bytes(CONTENT[:-1])
    assert fetched(site, tmp_path) == CONTENT


def test_a_wrong_checksum_is_one_sentence_and_leaves_nothing_behind(site, tmp_path):
    with pytest.raises(ValueError, match=r"^what .* lacks can't be downloaded") as refusal:
        fetched(site, tmp_path, "md5:" + "0" * 32)
    assert str(refusal.value).endswith(
        f"text.zip with the MD5 {'0' * 32} from {site.address}/text.zip "
        f"(what it sends has the MD5 {hashlib.md5(CONTENT).hexdigest()})"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_download_that_breaks_off_goes_on_from_there(site, tmp_path):
    site.faults = [("break", 200_000)]
    assert fetched(site, tmp_path) == CONTENT
    (_, first), (_, second) = site.asked
    assert first is None
    assert 100_000 < int(second.removeprefix("bytes=").removesuffix("-")) <= 200_000
    assert [path.name for path in tmp_path.iterdir()] == ["text.zip"]


def test_a_later_call_goes_on_from_what_an_earlier_one_kept(site, tmp_path):
    site.faults = [("break", 150_000)] + [("status", 503)] * downloads.RETRIES
    with pytest.raises(ValueError, match=r"\(the server answers 503\)"):
        fetched(site, tmp_path)
    (part,) = tmp_path.iterdir()
    assert part.name == "text.zip.part"
    kept = part.stat().st_size
    assert kept > 0
    site.asked.clear()
    assert fetched(site, tmp_path) == CONTENT
    assert site.asked == [("text.zip", f"bytes={kept}-")]
    assert not part.exists()


def test_a_server_that_ignores_ranges_is_read_from_the_start(site, tmp_path):
    site.knows_ranges, site.faults = False, [("break", 200_000)]
    assert fetched(site, tmp_path) == CONTENT
    assert len(site.asked) == 2


@pytest.mark.parametrize("part", [b"x" * 1000, CONTENT, CONTENT + b"too much"])
def test_a_part_that_does_not_fit_is_thrown_away(site, tmp_path, part):
    (tmp_path / "text.zip.part").write_bytes(part)
    assert fetched(site, tmp_path) == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["text.zip"]


def test_a_download_that_always_breaks_off_says_so(site, tmp_path):
    site.faults, site.knows_ranges = [("break", 1000)] * 9, False
    with pytest.raises(ValueError, match=r"text\.zip with the .* \(it breaks off\)$"):
        fetched(site, tmp_path)
    assert not (tmp_path / "text.zip").exists()


def test_a_server_that_recovers_is_asked_again(site, tmp_path):
    site.faults = [("status", 503)] * downloads.RETRIES
    assert fetched(site, tmp_path) == CONTENT


@pytest.fixture
def nobody(monkeypatch):
    """An address of this machine where nobody listens."""
    sites.ask_without_delay(monkeypatch)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    return f"http://127.0.0.1:{port}"


def test_without_a_network_the_sentence_says_which_file_to_put_where(nobody, tmp_path):
    with pytest.raises(ValueError, match="the connection is refused") as refusal:
        fetch([Download(f"{nobody}/text.zip", "sha256:" + "a" * 64)], tmp_path)
    assert str(refusal.value) == (
        f"what {tmp_path} lacks can't be downloaded, and may be put there by hand: text.zip with the "
        f"SHA-256 {'a' * 64} from {nobody}/text.zip (the connection is refused or lost)"
    )
    assert list(tmp_path.iterdir()) == []


def test_all_that_is_missing_and_all_that_is_wrong_is_named_at_once(nobody, tmp_path, monkeypatch):
    tried, attempt = [], downloads._attempt
    monkeypatch.setattr(downloads, "_attempt", lambda one, folder: tried.append(one) or attempt(one, folder))
    wanted = [Download(f"{nobody}/{name}", f"md5:{hashlib.md5(b'right').hexdigest()}") for name in "abc"]
    (tmp_path / "a").write_bytes(b"right")
    (tmp_path / "c").write_bytes(b"wrong")
    with pytest.raises(ValueError, match="by hand") as refusal:
        fetch(wanted, tmp_path)
    _, missing, wrong = str(refusal.value).replace("by hand: ", "; ").split("; ", 2)
    assert missing.startswith("b with the MD5 ")
    assert missing.endswith("(the connection is refused or lost)")
    assert wrong.startswith("c with the MD5 ")
    assert wrong.endswith(f"the one that is there has the MD5 {hashlib.md5(b'wrong').hexdigest()})")
    assert tried == [wanted[1]]  # the host that is not there is asked for one file, not for each
    assert (tmp_path / "c").read_bytes() == b"wrong"


def test_a_full_disk_is_one_sentence_and_leaves_nothing_behind(site, monkeypatch, tmp_path):
    fill_disk(monkeypatch, ".part")
    with pytest.raises(ValueError, match=r"^text\.zip can't be kept in .*: No space left on device$"):
        fetched(site, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_one_sentence(site, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"^text\.zip can't be kept in .*: Not a directory$"):
        fetched(site, tmp_path / "file" / "folder")


def test_a_length_that_is_no_number_is_ignored(site, tmp_path):
    site.faults = [("length", 0)]
    assert fetched(site, tmp_path) == CONTENT


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (("status", 416), "the server answers 416"),
        (("status", 404), "the server answers 404"),
        (("stall", 0), "no answer within 0.05 seconds"),
        (("stall", 1000), "no answer within 0.05 seconds"),
        (("gzip", 0), "its answer is packed in a way that can't be read"),
        (("redirect", 0), "it sends to an address of another kind"),
        (("circle", 0), "it redirects too often"),
    ],
)
def test_a_server_that_fails_is_told_apart(site, tmp_path, monkeypatch, fault, reason):
    monkeypatch.setattr(downloads, "SILENCE", 0.05)
    site.faults = [fault] * 999
    with pytest.raises(ValueError, match="can't be downloaded") as refusal:
        fetched(site, tmp_path)
    assert str(refusal.value).endswith(f"({reason})")
    assert not (tmp_path / "text.zip").exists()


def test_a_name_that_nobody_knows_is_told_apart(tmp_path, monkeypatch):
    sites.ask_without_delay(monkeypatch)
    monkeypatch.setenv("NO_PROXY", "*")
    with pytest.raises(ValueError, match=r"\(no such host is known, or there is no network\)$"):
        fetch([Download("http://nowhere.invalid/text.zip", DIGEST)], tmp_path)


def test_an_answer_without_an_end_is_cut_off_at_the_files_limit(site, tmp_path):
    site.faults = [("endless", 0)] * 2
    with pytest.raises(ValueError, match=r"\(it sends more than 100,000 bytes\)$"):
        fetched(site, tmp_path, limit=100_000)
    assert len(site.asked) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_sends_byte_after_byte_without_an_end_is_given_up(site, tmp_path, monkeypatch):
    steady = iter(range(0, 10**9, 600))
    monkeypatch.setattr(downloads.time, "monotonic", lambda: next(steady))
    with pytest.raises(ValueError, match=r"\(it sends less than 1,000 bytes a second\)$"):
        fetched(site, tmp_path)
    assert len(site.asked) == 1


def test_what_has_arrived_is_looked_at_without_waiting_for_more(site, tmp_path, monkeypatch):
    monkeypatch.setattr(downloads, "SILENCE", 0.2)
    site.faults = [("stall", 10)] * (downloads.RETRIES + 1)
    with pytest.raises(ValueError, match="no answer within"):
        fetched(site, tmp_path)
    assert (tmp_path / "text.zip.part").read_bytes() == CONTENT[:10]


def test_a_part_that_is_a_link_is_not_written_through(site, tmp_path):
    (tmp_path / "mine").write_bytes(b"mine")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "text.zip.part").symlink_to(tmp_path / "mine")
    assert fetched(site, tmp_path / "data") == CONTENT
    assert (tmp_path / "mine").read_bytes() == b"mine"


def test_a_pipe_in_place_of_a_file_does_not_hang(site, tmp_path):
    os.mkfifo(tmp_path / "text.zip.part")
    assert fetched(site, tmp_path) == CONTENT
    (tmp_path / "text.zip").unlink()
    os.mkfifo(tmp_path / "text.zip")
    with pytest.raises(ValueError, match=r"text\.zip must be a plain file, got a named pipe"):
        fetched(site, tmp_path)


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def read_all(path: Path) -> list[tuple[str, bytes]]:
    return [(name, b"".join(blocks)) for name, blocks in members(path)]


def test_members_come_in_the_archives_order(tmp_path):
    files = {"in/": b"", "in/b": b"two", "in/a": b"one"}
    expected = [("in/b", b"two"), ("in/a", b"one")]
    assert read_all(written(tmp_path / "a.zip", sites.zip_of(files))) == expected
    assert read_all(written(tmp_path / "a.tar.gz", sites.targz_of(files))) == expected
    assert read_all(written(tmp_path / "a.txt", b"text")) == [("a.txt", b"text")]


@pytest.mark.parametrize("name", ["../x", "in/../../x", "/etc/x", "..\\x", "\\x", "C:x", "C:\\x"])
def test_an_archive_that_leaves_its_folder_is_refused(name, tmp_path):
    sentence = r"must hold plain files inside its own folder, got "
    for path in (
        written(tmp_path / "a.zip", sites.zip_of({name: b""})),
        written(tmp_path / "a.tar.gz", sites.targz_of({name: b""})),
    ):
        with pytest.raises(ValueError, match=sentence):
            read_all(path)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_in_a_tar_are_refused(kind, tmp_path):
    odd = tarfile.TarInfo("in/text")
    odd.type, odd.linkname = kind, "/etc/passwd"
    path = written(tmp_path / "a.tar.gz", sites.targz_of({}, odd))
    with pytest.raises(ValueError, match=r"a\.tar\.gz must hold plain files .* got in/text"):
        read_all(path)


def test_a_link_in_a_zip_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        link = zipfile.ZipInfo("in/text")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(ValueError, match="must hold plain files"):
        read_all(tmp_path / "a.zip")


def test_an_encrypted_zip_and_one_packed_in_an_unknown_way_are_refused(tmp_path):
    path = written(tmp_path / "a.zip", sites.zip_of({"text": b"text" * 9}))
    for place, value, reason in (
        (6, 1, "is encrypted"),  # flags of the local header; those of the directory lie 2 bytes further
        (8, 77, "compression (method|type)"),
    ):
        content = bytearray(sites.zip_of({"text": b"text" * 9}))
        directory = content.index(b"PK\x01\x02")
        content[place] = content[directory + place + 2] = value
        path.write_bytes(content)
        with pytest.raises(ValueError, match=rf"^the archive a\.zip can't be read: .*{reason}"):
            read_all(path)


@pytest.mark.parametrize("pack", [sites.zip_of, sites.targz_of])
def test_an_archive_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path, monkeypatch, pack):
    monkeypatch.setattr(archives, "ALWAYS_ALLOWED", 1000)
    monkeypatch.setattr(archives, "BLOCK", 100)
    path = tmp_path / ("a.zip" if pack is sites.zip_of else "a.tar.gz")
    path.write_bytes(pack({"zeros": bytes(10_000_000)}))
    limit = archives.MOST_TIMES * path.stat().st_size
    assert limit < 10_000_000
    with pytest.raises(ValueError, match=f"must unpack to {limit:,} bytes or less, got more"):
        read_all(path)
