"""JupyterLab on the loopback, and a reader in front of it."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import nbformat
import requests
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import BrowserContext, Locator, Page

ROOT = Path(__file__).parent.parent.parent
TOKEN = "loopback"
SETTINGS = {
    "notebook-extension/tracker": {"windowingMode": "none"},
}
"""Every cell in the page, seen or not."""
SEED = """import torch

torch.manual_seed(0);"""
EXECUTE = """async ([id, code]) => {
    const model = { id, name: "python3" };
    const kernel = jupyterapp.serviceManager.kernels.connectTo({ model, handleComms: false });
    const reply = await kernel.requestExecute({ code, store_history: false }).done;
    kernel.dispose();
    if (reply.content.status !== "ok") throw new Error(reply.content.evalue);
}"""
FORGET = """%reset -f
import ipywidgets

ipywidgets.Widget.close_all()"""
"""It leaves a kernel as good as new, that need not load torch again. No notebook may be open: JupyterLab
deletes the kernel's thread for widgets with the last of them, and may have given it to a new one by then."""
RAN = """() => {
    const { content, sessionContext } = jupyterapp.shell.currentWidget;
    const cells = [...content.model.cells].filter(cell => cell.type === "code");
    const failed = cells.some(cell => cell.toJSON().outputs.some(output => output.output_type === "error"));
    const idle = sessionContext.session?.kernel?.status === "idle";
    return idle && (failed || cells.every(cell => cell.executionCount));
}"""
SECONDS = 120
"""The most that a notebook of these tests may take, on a machine that has much else to do."""


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """A copy of the course in the folder, on a server that knows nobody's settings; its address."""
    for name in ("notebooks", "figures"):
        shutil.copytree(ROOT / name, folder / "course" / name)
    for name, setting in SETTINGS.items():
        file = folder / "settings/@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(setting))
    places = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "IPYTHONDIR": "ipython",
    }
    environment = os.environ | {name: str(folder / place) for name, place in places.items()}
    environment |= {"MINITXL_PROFILE": "quick", "OMP_NUM_THREADS": "1"}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = {
        "ServerApp.port": port,
        "ServerApp.port_retries": 0,
        "ServerApp.root_dir": folder / "course",
        "IdentityProvider.token": TOKEN,
        "LabApp.expose_app_in_browser": True,
    }
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += [f"--config={folder / 'course/notebooks/jupyter_server_config.py'}"]
    command += [f"--{name}={value}" for name, value in options.items()]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            address = f"http://127.0.0.1:{port}"
            _wait_for(address, server, folder / "log")
            yield address
        finally:
            server.terminate()
            server.wait()


def _wait_for(address: str, server: subprocess.Popen, log: Path) -> None:
    began = monotonic()
    while monotonic() - began < SECONDS and server.poll() is None:
        try:
            if requests.get(f"{address}/api", timeout=SECONDS).ok:
                return
        except requests.ConnectionError:
            pass
        with suppress(subprocess.TimeoutExpired):
            server.wait(0.1)
    raise AssertionError(f"JupyterLab did not start:\n{log.read_text()}")


@dataclass
class Lab:
    """One JupyterLab in one window. Excerpts share a kernel, notebooks have their own."""

    context: BrowserContext
    address: str
    folder: Path
    kernel: str | None = None

    def __post_init__(self) -> None:
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(1000 * SECONDS)
        self.page.goto(f"{self.address}/lab?reset&token={TOKEN}")
        self.page.wait_for_function("window.jupyterapp?.restored.then(() => true)")

    def open(self, path: Path, *, kernel: str | None = None) -> Locator:
        """Save what is shown, and show a notebook instead; a kernel that is given forgets what it knew."""
        self.save()
        self.page.evaluate("jupyterapp.commands.execute('application:close-all')")
        if kernel:
            self.page.evaluate(EXECUTE, [kernel, FORGET])
        asked: dict[str, Any] = {
            "path": str(path.relative_to(self.folder)),
            "kernel": {"id": kernel} if kernel else {"name": "python3"},
        }
        self.page.evaluate(
            """async asked => {
                const panel = await jupyterapp.commands.execute("docmanager:open", asked);
                await panel.revealed;
                await panel.sessionContext.ready;
            }""",
            asked,
        )
        return self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")

    def save(self) -> None:
        self.page.evaluate("jupyterapp.shell.currentWidget?.context?.save()")

    def run_all(self) -> None:
        """Through the menu."""
        self.page.locator(".lm-MenuBar-itemLabel", has_text="Run").click()
        self.page.locator(".lm-Menu-item[data-command='runmenu:run-all']").click()

    def finish(self) -> None:
        """Return when the last cell has run, or one has failed."""
        self.page.wait_for_function(RAN)

    def show(self, name: str, sources: Sequence[str]) -> Locator:
        """Run these cells, in the kernel that excerpts share, as a notebook beside the course's."""
        path = self.folder / "notebooks" / f"{name}.ipynb"
        cells = [new_code_cell(source) for source in (SEED, *sources)]
        nbformat.write(new_notebook(cells=cells), path)
        panel = self.open(path, kernel=self.kernel)
        self.kernel = self.page.evaluate("jupyterapp.shell.currentWidget.sessionContext.session.kernel.id")
        self.run_all()
        return panel

    def leave(self) -> None:
        """Save what is shown, and end its kernel."""
        self.save()
        self.page.evaluate("jupyterapp.shell.currentWidget.sessionContext.shutdown()")


def complaints(panel: Locator) -> list[str]:
    """What cells raised, and what was written to stderr."""
    kinds = ("error", "stderr")
    shown = ", ".join(f"[data-mime-type='application/vnd.jupyter.{kind}']" for kind in kinds)
    return panel.locator(shown).all_inner_texts()
