"""Downloads from a hub that is wrong, hostile, slow or silent."""

import hashlib
from pathlib import Path

import pytest
from huggingface_hub import constants
from support import hub_server
from support.hub_server import COMMIT

from minitxl.pretrained import hub as module
from minitxl.pretrained.hub import folder_of

FILES = {"config.json": b"{}", "vocab.bin": b"words", "model.safetensors": b"weights"}


@pytest.fixture
def hub(tmp_path, monkeypatch):
    with hub_server.running() as hub:
        hub_server.ask(hub.address, monkeypatch, tmp_path / "cache")
        hub.files = dict(FILES)
        yield hub


def everything_in(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_files_lie_in_the_cache_as_the_hubs_own_client_finds_them(hub, tmp_path):
    from huggingface_hub import hf_hub_download

    repository = f"models--me--small/snapshots/{COMMIT}"
    assert folder_of("me/small") == tmp_path / "cache" / repository
    assert everything_in(tmp_path / "cache") == {
        **{f"{repository}/{name}": content for name, content in FILES.items()},
        "models--me--small/refs/main": COMMIT.encode(),
    }
    for name, content in FILES.items():
        assert Path(hf_hub_download("me/small", name, local_files_only=True)).read_bytes() == content


def test_a_new_commit_is_fetched_and_without_a_connection_the_last_one_is_used(hub, monkeypatch):
    first = folder_of("me/small")
    newer = COMMIT[::-1]
    hub.headers["X-Repo-Commit"], hub.commit = newer, newer
    hub.files["config.json"] = b"[]"
    second = folder_of("me/small")
    assert (first.name, second.name) == (COMMIT, newer)
    assert (second / "config.json").read_bytes() == b"[]"
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert folder_of("me/small") == second


@pytest.mark.parametrize(
    ("headers", "sentence"),
    [
        (
            {"ETag": '"../../../../outside"'},
            "the hub must name the digest of me/small/config.json, got '../../",
        ),
        (
            {"X-Linked-Etag": "/etc/outside"},
            "the hub must name the digest of me/small/config.json, got 'etc/",
        ),
        ({"ETag": None}, "the hub must name the digest of me/small/config.json, got None"),
        ({"X-Repo-Commit": "../../../outside"}, "the hub must name a commit of me/small, got '../../"),
        ({"X-Repo-Commit": None}, "the hub must name a commit of me/small, got None"),
        ({"Content-Length": None}, r"config.json in at most 67,108,864 bytes, got None"),
        ({"Content-Length": str(2**40)}, r"config.json in at most 67,108,864 bytes, got 1099511627776"),
        (
            {"ETag": f'"{hashlib.sha256(b"other").hexdigest()}"'},
            "must have the digest [0-9a-f]{64}, and the hub",
        ),
        (
            {"ETag": f'"{hashlib.sha1(b"other").hexdigest()}"'},
            "must have the digest [0-9a-f]{40}, and the hub",
        ),
    ],
)
def test_answers_that_would_lead_astray_are_refused_and_write_nothing(headers, sentence, hub, tmp_path):
    hub.headers = headers
    before = everything_in(tmp_path)
    with pytest.raises(ValueError, match=sentence):
        folder_of("me/small")
    assert everything_in(tmp_path) == before


def test_gits_digest_of_a_small_file_is_checked_too(hub):
    hub.headers = {"ETag": f'"{hashlib.sha1(b"blob 2" + bytes(1) + b"{}").hexdigest()}"'}
    hub.files = {"config.json": b"{}", "model.safetensors": b"{}"}
    assert folder_of("me/small").name == COMMIT


def test_a_body_longer_or_shorter_than_announced_is_not_kept(hub, tmp_path):
    hub.sent["model.safetensors"] = b"weights and more"
    with pytest.raises(
        ValueError, match=r"the hub must send the 7 bytes of me/small/.* it announced, got more"
    ):
        folder_of("me/small")
    hub.sent["model.safetensors"] = b"wei"
    with pytest.raises(ValueError, match="me/small can't be downloaded from the hub"):
        folder_of("me/small")
    assert not [name for name in everything_in(tmp_path) if "model.safetensors" in name]
    del hub.sent["model.safetensors"]
    assert (folder_of("me/small") / "model.safetensors").read_bytes() == b"weights"


def test_a_hub_that_does_not_answer_is_asked_once_and_given_up(hub, monkeypatch):
    monkeypatch.setattr(module, "SECONDS", 0.2)
    hub.silent.set()
    with pytest.raises(ValueError, match="me/small can't be downloaded from the hub"):
        folder_of("me/small")
    assert hub.asked == [("HEAD", "config.json")]


def test_a_wrong_name_is_asked_for_once(hub):
    for name in ("me/other", "other"):
        with pytest.raises(ValueError, match=f"{name} is neither a folder nor a hub repository"):
            folder_of(name)
    assert hub.requests == 2


@pytest.mark.parametrize("name", ["a/b/c", "../small", "me/..", "me/sm all", "me\\small", "-", "a" * 200])
def test_a_name_that_no_repository_can_have_is_not_asked_for(name, hub):
    with pytest.raises(ValueError, match="is neither a folder nor a hub repository that can be reached"):
        folder_of(name)
    assert hub.requests == 0


def test_no_name_and_a_file_are_no_folder_and_no_repository(hub, tmp_path):
    for name in ("", " "):
        with pytest.raises(ValueError, match="must be a folder or a hub repository, got an empty name"):
            folder_of(name)
    (tmp_path / "t.txt").write_text("x")
    with pytest.raises(ValueError, match=r"must be a folder or a hub repository, got the file .*t\.txt"):
        folder_of(tmp_path / "t.txt")
    assert hub.requests == 0


def test_a_cache_that_takes_no_file_is_named(hub, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "models--me--small").write_text("in the way")
    with pytest.raises(ValueError, match="me/small can't be kept in the hub's cache"):
        folder_of("me/small")
