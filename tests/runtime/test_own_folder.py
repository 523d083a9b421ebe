"""Folders of one call: gone afterwards, also where no more files can be opened."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import pytest

import loopwright
from loopwright.cli import main
from loopwright.runtime.own_folder import own_folder
from needed_tools import needs_compiler
from outside.campaigns.failing_resources import failing

REGION = """
void f(int n, double y[n]) {
#pragma scop
  for (int i = 0; i < n; i++)
    y[i] = 2 * y[i] + 1;
#pragma endscop
}
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made."""
    found = tmp_path / "temporary"
    found.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(found))
    return found


@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_folder_goes_where_no_file_can_be_opened(place: Path, n: int, lasting: bool) -> None:
    with failing("open", n, lasting=lasting), contextlib.suppress(OSError), own_folder() as folder:
        (folder / "one").write_text("x", encoding="utf-8")
        (folder / "two").write_text("y", encoding="utf-8")
    assert list(place.iterdir()) == []


def test_folder_is_for_this_user_only(place: Path) -> None:
    with own_folder("some-") as folder:
        assert folder.parent == place
        assert folder.name.startswith("some-")
        assert folder.stat().st_mode & 0o777 == 0o700


@needs_compiler
def test_a_command_leaves_no_folder(place: Path, tmp_path: Path) -> None:
    source = tmp_path / "region.c"
    source.write_text(REGION, encoding="utf-8")
    words = ["cc", str(source), "--target", "c", "-o", str(tmp_path / "made.c")]
    assert main(words) == 0  # what the process asks for once only
    with failing("open", 0) as uses:
        assert main(words) == 0
    for n in range(uses.count - 2, uses.count + 1):
        with failing("open", n):
            main(words)
        assert list(place.iterdir()) == []


def test_there_are_no_other_folders() -> None:
    """Those of tempfile raise where they are removed."""
    package = Path(loopwright.__file__).parent
    files = package.rglob("*.py")
    assert not [x for x in files if "TemporaryDirectory(" in x.read_text(encoding="utf-8")]
