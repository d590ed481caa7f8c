"""Downloads, archives and a hub: servers on this machine that answer wrongly, slowly or not at all."""

import hashlib
import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
import sites
from soak import generators
from soak.attempt import Attempt, call, changes, outcome, tree, wrong_with
from soak.world import World
from support import hub_server, small_corpora

from minitxl.data import archives, corpora, downloads
from minitxl.data.download_addresses import Download
from minitxl.pretrained import hub as hub_module

NAME = "downloads, archives, hub server"
FAULTS = ("status", "break", "length", "gzip", "endless", "redirect", "circle", "")
STATUS = (200, 204, 301, 400, 401, 403, 404, 410, 418, 429, 500, 503)
HEADERS = {
    "ETag": ("", '""', '"../../x"', "x", '"' + "0" * 64 + '"', None, 'W/"abc"', '"' + "g" * 40 + '"'),
    "X-Repo-Commit": ("", "main", "../../x", "g" * 40, "0" * 39, None, "0" * 40),
    "Content-Length": ("", "abc", "-1", "0", "1", "10" * 10, None),
    "Location": ("file:///etc/hostname", "http://127.0.0.1:1/", "/"),
    "X-Linked-Etag": ('"../x"', "0" * 64),
    "X-Linked-Size": ("-1", "abc", "9" * 30),
}


def attempt(draw: Random, world: World, place: Path) -> Attempt:
    """Download a file, read an archive, or ask a hub."""
    kinds: list[Callable[[Random, World, Path], Attempt]] = [_download, _corpus, _archive, _hub]
    return draw.choice(kinds)(draw, world, place)


def _download(draw: Random, _world: World, place: Path) -> Attempt:
    """The file comes whole, or a sentence says why not; a right one is never lost."""
    content = draw.randbytes(draw.randrange(1, 5000))
    download_folder = place / "downloads"
    download_folder.mkdir()
    with pytest.MonkeyPatch.context() as patch, sites.running() as site:
        sites.ask_without_delay(patch)
        site.files["text.zip"] = content
        site.knows_ranges = draw.random() < 0.7
        site.faults = [
            (fault, draw.choice(STATUS[3:]) if fault == "status" else draw.randrange(len(content)))
            for fault in draw.choices(FAULTS, k=draw.randrange(6))
        ]
        given = f"{len(content)} bytes, faults {site.faults}, ranges {site.knows_ranges}"
        digest = hashlib.sha256(content).hexdigest() if draw.random() < 0.8 else "0" * 64
        if draw.random() < 0.3:
            part = download_folder / "text.zip.part"
            part.write_bytes(draw.choice([content, content[:-1], generators.noise(draw), content + b"x"]))
            given += f", {generators.odd_file(draw, part)}" if draw.random() < 0.3 else ", a part"
        elif draw.random() < 0.2:
            (download_folder / "text.zip").write_bytes(b"x")
            given += f", {generators.odd_file(draw, download_folder / 'text.zip')}"
        wanted = Download(f"{site.address}/text.zip", f"sha256:{digest}", limit=6000)
        wrong, came_out, refused = outcome(lambda: downloads.fetch([wanted], download_folder)[0].read_bytes())
        if not wrong and isinstance(came_out, bytes) and came_out != content:
            wrong = "silent: another content"
    return Attempt("downloads.fetch", given, repr(came_out), wrong, refused)


def _corpus(draw: Random, _world: World, place: Path) -> Attempt:
    """A corpus of the paper whose archive is damaged, odd, or has other members."""
    name = draw.choice(sorted(small_corpora.SMALL))
    files = dict(small_corpora.SMALL[name])
    altered = draw.choice(sorted(files))
    files[altered] = draw.choice(
        [
            *(files[altered], generators.damaged(draw, files[altered]), generators.noise(draw)),
            *(sites.zip_of({"x": b"y"}), sites.targz_of({"x": b"y"})),
        ]
    )
    with pytest.MonkeyPatch.context() as patch, sites.running() as site:
        sites.ask_without_delay(patch)
        patch.setenv("MINITXL_DATA", str(place / "data"))
        small_corpora.serve_corpus(site, patch, name, files)
        wrong, came_out, refused = outcome(lambda: corpora.load(name).summary())
        if not wrong and isinstance(came_out, str) and (half := list((place / "data").glob(".*"))):
            wrong = f"lost: left behind: {half}"
    return Attempt(
        f"corpora.load({name!r})", f"{altered}: {files[altered][:200]!r}", repr(came_out), wrong, refused
    )


def _archive(draw: Random, _world: World, place: Path) -> Attempt:
    """An archive with members that lead outside, are links, or are packed oddly."""
    names = (
        "a/b",
        "../b",
        "/etc/b",
        "c:/b",
        "a/../../b",
        "a\\..\\..\\b",
        "",
        ".",
        "a//b",
        "é",
        "a" * 300,
        "a/",
    )
    chosen = draw.sample(names, draw.randrange(1, 4))
    path = place / draw.choice(["x.zip", "x.tar.gz", "x.tgz", "x.txt"])
    stream = io.BytesIO()
    if draw.random() < 0.5:
        packed = draw.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
        with zipfile.ZipFile(stream, "w", packed) as archive:
            for name in chosen:
                member = zipfile.ZipInfo(name)
                member.external_attr = draw.choice([0o100644, 0o120777, 0o010644, 0o020644]) << 16
                archive.writestr(member, b"content")
    else:
        with tarfile.open(fileobj=stream, mode=draw.choice(["w", "w:gz", "w:xz"])) as tar:  # type: ignore[call-overload]
            for name in chosen:
                tarred = tarfile.TarInfo(name)
                tarred.type = draw.choice(
                    [tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE]
                )
                tarred.size = 7 if tarred.isreg() else 0
                tar.addfile(tarred, io.BytesIO(b"content"))
    content = stream.getvalue()
    path.write_bytes(generators.damaged(draw, content) if draw.random() < 0.4 else content)
    before = tree(place)
    wrong, came_out, refused = outcome(
        lambda: [(name, b"".join(blocks)) for name, blocks in archives.members(path)]
    )
    return Attempt(
        f"archives.members({path.name})",
        f"{chosen}",
        repr(came_out)[:2000],
        wrong or changes(before, tree(place)),
        refused,
    )


def _hub(draw: Random, world: World, place: Path) -> Attempt:
    """A released model from a hub that answers with wrong headers, other content, or files missing."""
    with pytest.MonkeyPatch.context() as patch, hub_server.running() as hub:
        hub_server.ask(hub.address, patch, place / "cache")
        patch.setattr(hub_module, "SECONDS", 1)
        hub.files = {path.name: path.read_bytes() for path in world.released.iterdir()}
        for name in draw.sample(sorted(hub.files), draw.choice([0, 0, 0, 1])):
            del hub.files[name]
        hub.headers = {
            name: draw.choice(HEADERS[name]) for name in draw.sample(sorted(HEADERS), draw.randrange(3))
        }
        for name in draw.sample(sorted(hub.files), draw.choice([0, 0, 1])):
            hub.sent[name] = generators.damaged(draw, hub.files[name])
        if draw.random() < 0.1:
            (place / "cache").write_bytes(b"a file")
        given = f"headers {hub.headers}, files {sorted(hub.files)}, damaged {sorted(hub.sent)}"
        words = ["evaluate", "--released", draw.choice(["me/small"] * 8 + ["me/other", "x", "a/b/c", "-/-"])]
        said = call([*words, "--text", world.text, "--tokens", 40])
    wrong = wrong_with(said, named=[words[2]])
    outside = [path.name for path in place.iterdir() if path.name != "cache"]
    return Attempt(
        f"minitxl {' '.join(words)}",
        given,
        str(said),
        wrong or (f"lost: outside of the cache: {outside}" if outside else ""),
        bool(said.code),
    )
