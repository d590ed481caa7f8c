"""JupyterLab's server as `make lab` starts it: a notebook that was only read is saved as it was.

JupyterLab notes in a notebook which kernel ran it and what its widgets held. That is left out when it is
saved, so reading the course changes no file, and work on it changes the cells alone. A notebook that is
opened has those notes already, so that it does not count as changed before it is. There are no news from
outside, and no question whether they are wanted.
"""

import platform
from pathlib import Path
from typing import Any

from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
OPENED = {
    "kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"},
    "language_info": {
        "name": "python",
        "version": platform.python_version(),
        "mimetype": "text/x-python",
        "codemirror_mode": {"name": "ipython", "version": 3},
        "pygments_lexer": "ipython3",
        "nbconvert_exporter": "python",
        "file_extension": ".py",
    },
}
"""Metadata that JupyterLab writes once the kernel has told its name."""
TOOLS = ("execute.py", "home.py", "jupyter_server_config.py", "book", "lab", "*.egg-info", "build")
"""Names that the list of files leaves out: what builds and runs the course, and what is built."""
KEPT = ("tags", "jupyter")
"""What a cell's metadata may hold."""


def without_session(model: dict[str, Any], **_: Any) -> None:
    """Take out of a notebook what belongs to the session that saves it."""
    if model["type"] != "notebook" or model["content"]["nbformat"] != 4:
        return
    notebook = model["content"]
    notebook["metadata"] = METADATA
    for cell in notebook["cells"]:
        cell["metadata"] = {name: value for name, value in cell["metadata"].items() if name in KEPT}


class OpenedUnchanged(AsyncLargeFileManager):
    """The files of the course; a notebook of it is opened as JupyterLab would make it."""

    async def get(self, *args: Any, **options: Any) -> dict[str, Any]:
        """Return a file, and to a notebook in the course's form add what JupyterLab would."""
        model: dict[str, Any] = await super().get(*args, **options)
        if model["type"] == "notebook" and model["content"] and model["content"]["metadata"] == METADATA:
            model["content"]["metadata"] = OPENED
        return model


c = get_config()  # the server defines it
c.ServerApp.contents_manager_class = OpenedUnchanged
c.FileContentsManager.pre_save_hook = without_session
c.ContentsManager.hide_globs = [*OpenedUnchanged().hide_globs, *TOOLS]
c.LabApp.app_settings_dir = str(Path(__file__).parent / "lab")
c.LabApp.news_url = None
