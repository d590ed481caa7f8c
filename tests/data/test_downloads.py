import hashlib
import random
import socket
import tarfile
import zipfile
from pathlib import Path

import pytest
import sites
from support.disk import fill_disk

from minitxl.data import downloads
from minitxl.data.archives import members
from minitxl.data.downloads import Download, fetch

CONTENT = random.Random(0).randbytes(400_000)


@pytest.fixture
def site(monkeypatch):
    sites.ask_without_delay(monkeypatch)
    with sites.running() as site:
        site.files["text.zip"] = CONTENT
        yield site


def wanted_from(site, digest: str | None = None) -> Download:
    return Download(f"{site.address}/text.zip", digest or f"sha256:{hashlib.sha256(CONTENT).hexdigest()}")


def test_a_file_is_downloaded_once(site, tmp_path):
    for _ in range(2):
        assert fetch(wanted_from(site), tmp_path / "new").read_bytes() == CONTENT
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["text.zip"]
    assert len(site.asked) == 1


def test_md5_does_where_it_is_all_there_is(site, tmp_path):
    wanted = wanted_from(site, f"md5:{hashlib.md5(CONTENT).hexdigest()}")
    assert fetch(wanted, tmp_path).read_bytes() == CONTENT


def test_a_file_placed_by_hand_is_not_downloaded(site, tmp_path):
    (tmp_path / "text.zip").write_bytes(CONTENT)
    fetch(wanted_from(site), tmp_path)
    assert site.asked == []


def test_a_damaged_file_in_the_folder_is_downloaded_anew(site, tmp_path):
    (tmp_path / "text.zip").write_bytes(CONTENT[:-1])
    assert fetch(wanted_from(site), tmp_path).read_bytes() == CONTENT


def test_a_wrong_checksum_is_one_sentence_and_leaves_nothing_behind(site, tmp_path):
    with pytest.raises(ValueError, match=r"^text\.zip must have the MD5 0{32}, and what .* has another$"):
        fetch(wanted_from(site, "md5:" + "0" * 32), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_download_that_breaks_off_goes_on_from_there(site, tmp_path):
    site.faults = [("break", 200_000)]
    assert fetch(wanted_from(site), tmp_path).read_bytes() == CONTENT
    (_, first), (_, second) = site.asked
    assert first is None
    assert 100_000 < int(second.removeprefix("bytes=").removesuffix("-")) <= 200_000
    assert [path.name for path in tmp_path.iterdir()] == ["text.zip"]


def test_a_later_call_goes_on_from_what_an_earlier_one_kept(site, tmp_path):
    site.faults = [("break", 150_000)] + [("status", 503)] * downloads.RETRIES
    with pytest.raises(ValueError, match=r"\(the server answers 503\)"):
        fetch(wanted_from(site), tmp_path)
    (part,) = tmp_path.iterdir()
    assert part.name == "text.zip.part"
    kept = part.stat().st_size
    assert kept > 0
    site.asked.clear()
    assert fetch(wanted_from(site), tmp_path).read_bytes() == CONTENT
    assert site.asked == [("text.zip", f"bytes={kept}-")]
    assert not part.exists()


def test_a_server_that_ignores_ranges_is_read_from_the_start(site, tmp_path):
    site.knows_ranges, site.faults = False, [("break", 200_000)]
    assert fetch(wanted_from(site), tmp_path).read_bytes() == CONTENT
    assert len(site.asked) == 2


@pytest.mark.parametrize("part", [b"x" * 1000, CONTENT, CONTENT + b"too much"])
def test_a_part_that_does_not_fit_is_thrown_away(site, tmp_path, part):
    (tmp_path / "text.zip.part").write_bytes(part)
    assert fetch(wanted_from(site), tmp_path).read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["text.zip"]


def test_a_download_that_always_breaks_off_says_so(site, tmp_path):
    site.faults, site.knows_ranges = [("break", 1000)] * 9, False
    with pytest.raises(ValueError, match=r"^text\.zip can't be downloaded from .* \(it breaks off\)"):
        fetch(wanted_from(site), tmp_path)
    assert not (tmp_path / "text.zip").exists()


def test_a_server_that_recovers_is_asked_again(site, tmp_path):
    site.faults = [("status", 503)] * downloads.RETRIES
    assert fetch(wanted_from(site), tmp_path).read_bytes() == CONTENT


def test_without_a_network_the_sentence_says_which_file_to_put_where(monkeypatch, tmp_path):
    sites.ask_without_delay(monkeypatch)
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    with pytest.raises(ValueError, match="no connection") as caught:
        fetch(Download(f"http://127.0.0.1:{port}/text.zip", "sha256:" + "a" * 64), tmp_path)
    assert str(caught.value) == (
        f"text.zip can't be downloaded from http://127.0.0.1:{port}/text.zip (no connection): "
        f"put that file, whose SHA-256 is {'a' * 64}, into {tmp_path} by hand"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_sentence_and_leaves_nothing_behind(site, monkeypatch, tmp_path):
    fill_disk(monkeypatch, ".part")
    with pytest.raises(ValueError, match=r"^text\.zip can't be kept in .*: No space left on device$"):
        fetch(wanted_from(site), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_one_sentence(site, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"^text\.zip can't be kept in .*: Not a directory$"):
        fetch(wanted_from(site), tmp_path / "file" / "folder")


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
