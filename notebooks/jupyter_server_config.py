"""JupyterLab's server as `make lab` starts it: a notebook that was only read is saved as it was.

JupyterLab notes in a notebook which kernel ran it and what its widgets held. That is left out when it is
saved, so reading the course changes no file, and work on it changes the cells alone.
"""

from typing import Any

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
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


c = get_config()  # the server defines it
c.FileContentsManager.pre_save_hook = without_session
