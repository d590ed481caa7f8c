"""A web site on this machine, with archives to serve and faults to play, for tests."""

import io
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import SimpleNamespace

import pytest


class Site:
    """Serves ``files``; each request takes the next of ``faults``.

    A fault is a status, the byte to break off or to stall at, a wrong length, a wrong packing, an
    answer without an end, or an address to go to: one that is no web address, or itself.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.files: dict[str, bytes] = {}
        self.faults: list[tuple[str, int]] = []
        self.knows_ranges = True
        self.asked: list[tuple[str, str | None]] = []
        """Name and Range of each request."""


@contextmanager
def running() -> Iterator[Site]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name, wanted = self.path.rsplit("/", 1)[-1], self.headers.get("Range")
            site.asked.append((name, wanted))
            fault, value = site.faults.pop(0) if site.faults else ("", 0)
            if fault == "status" or name not in site.files:
                self.send_error(value or 404)
                return
            if fault in ("redirect", "circle"):
                self.send_response(302)
                self.send_header("Location", self.path if fault == "circle" else "file:///etc/hostname")
                self.end_headers()
                return
            if fault == "stall" and not value:
                self.connection.recv(1)
                return
            content, begin = site.files[name], 0
            if wanted and site.knows_ranges:
                begin = int(wanted.removeprefix("bytes=").removesuffix("-"))
                if begin >= len(content):
                    self.send_error(416)
                    return
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
            else:
                self.send_response(200)
            if fault == "gzip":
                self.send_header("Content-Encoding", "gzip")
            length = {"length": "abc", "endless": None}.get(fault, str(len(content) - begin))
            if length is not None:
                self.send_header("Content-Length", length)
            self.end_headers()
            self.wfile.write(content[begin : value if fault in ("break", "stall") else None])
            if fault == "stall":
                self.connection.recv(1)
            with suppress(OSError):
                while fault == "endless":
                    self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with serving(Handler) as address:
        site = Site(address)
        yield site


@contextmanager
def serving(handler: Callable[..., BaseHTTPRequestHandler]) -> Iterator[str]:
    """The address of a server on this machine that answers with ``handler``."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def ask_without_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy, and no pause between attempts."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("pooch.core.time", SimpleNamespace(sleep=lambda seconds: None))


def zip_of(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def targz_of(files: dict[str, bytes], *odd: tarfile.TarInfo) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for member in odd:
            archive.addfile(member)
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            if name.endswith("/"):
                member.type = tarfile.DIRTYPE
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def wikitext_of(texts: dict[str, bytes], name: str = "wikitext-103") -> dict[str, bytes]:
    """WikiText as its site has it, with these texts as its parts."""
    files = {f"{name}/wiki.{part}.tokens": text for part, text in texts.items()}
    return {f"{name}-v1.zip": zip_of({f"{name}/": b"", **files})}
