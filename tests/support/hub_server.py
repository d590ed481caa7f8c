"""A Hugging Face hub on this machine, right or wrong in what it answers."""

import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace

import sites
from huggingface_hub import constants

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """A hub on this machine that holds ``files`` of the one repository me/small, at one commit."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.files: dict[str, bytes] = {}
        self.commit = COMMIT
        self.requests = 0
        self.asked: list[tuple[str, str]] = []
        """Method and file of each request for one of the repository."""
        self.headers: dict[str, str | None] = {}
        """Headers of answers that differ from the right ones; None for one that is left out."""
        self.sent: dict[str, bytes] = {}
        """Content that is sent in place of a file's own."""
        self.silent = threading.Event()
        """Set once requests are not answered any more,"""
        self.closed = threading.Event()
        """until the test ends."""


@contextmanager
def running() -> Iterator[Hub]:
    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            found = re.fullmatch(rf"/me/small/resolve/(main|{hub.commit})/(.*)", self.path)
            hub.requests += 1
            if found:
                hub.asked.append((self.command, found[2]))
            if hub.silent.is_set():
                hub.closed.wait()
                return
            if not found or found[2] not in hub.files:
                self.send_response(404)
                self.send_header("X-Error-Code", "EntryNotFound" if found else "RepoNotFound")
                self.send_header("X-Repo-Commit", hub.commit)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            content = hub.files[found[2]]
            headers = {
                "ETag": f'"{hashlib.sha256(content).hexdigest()}"',
                "X-Repo-Commit": hub.commit,
                "Content-Length": str(len(content)),
            } | hub.headers
            self.send_response(200)
            for name, value in headers.items():
                if value is not None and not (self.command == "GET" and name == "Content-Length"):
                    self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(hub.sent.get(found[2], content))

        def log_message(self, *_: object) -> None:
            pass

    with sites.serving(Handler) as address:
        hub = Hub(address)
        try:
            yield hub
        finally:
            hub.closed.set()


def ask(hub_address: str, monkeypatch, folder) -> None:
    """Of this hub alone, without delay, with a cache of the test's own and nobody's token."""
    for name, value in {
        "ENDPOINT": hub_address,
        "HUGGINGFACE_CO_URL_TEMPLATE": f"{hub_address}/{{repo_id}}/resolve/{{revision}}/{{filename}}",
        "HF_HUB_CACHE": str(folder),
        "HF_HUB_OFFLINE": False,
        "HF_HUB_DISABLE_IMPLICIT_TOKEN": True,
    }.items():
        monkeypatch.setattr(constants, name, value)
    without = SimpleNamespace(sleep=lambda seconds: None)
    monkeypatch.setattr("huggingface_hub.utils._http.time", without)
