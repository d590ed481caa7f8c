import pytest

from minitxl import memory
from minitxl.course import notebook


def test_show_prints_the_source_as_it_stands():
    assert notebook.show(memory.extend).data.startswith("def extend(")


def test_the_profile_is_what_is_asked_for_or_what_the_device_allows(monkeypatch):
    monkeypatch.delenv("MINITXL_PROFILE", raising=False)
    assert notebook.profile() == ("full" if notebook.device() == "cuda" else "quick")
    monkeypatch.setenv("MINITXL_PROFILE", "full")
    assert notebook.profile() == "full"
    monkeypatch.setenv("MINITXL_PROFILE", "fast")
    with pytest.raises(ValueError, match="must be quick or full, got 'fast'"):
        notebook.profile()
