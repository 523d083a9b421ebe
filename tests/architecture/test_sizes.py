"""The size and the name of every file: one idea each, short enough to read in one sitting."""

import re
from pathlib import Path

import pytest

import loopwright

SOURCE = Path(loopwright.__file__).parent
MOST_LINES = 600

# Names that say nothing about the idea in the file, and names that say "instead of the old one".
EMPTY_NAMES = {"common", "helper", "helpers", "misc", "util", "utils"}
SECOND_TRY = re.compile(r"(^|_)(v\d+|new|old|legacy)(_|$)")


def size_breaches(root: Path) -> list[str]:
    """Return each file that has outgrown one reading."""
    return [
        f"{file.relative_to(root).as_posix()}: {count} lines, at most {MOST_LINES}"
        for file in sorted(root.rglob("*.py"))
        if (count := len(file.read_text(encoding="utf-8").splitlines())) > MOST_LINES
    ]


def name_breaches(root: Path) -> list[str]:
    """Return each file or folder with a name that tells nothing."""
    return [
        path.relative_to(root).as_posix()
        for path in sorted(root.rglob("*"))
        if path.is_dir() or path.suffix == ".py"
        if set(path.stem.split("_")) & EMPTY_NAMES or SECOND_TRY.search(path.stem)
    ]


def test_no_file_is_too_long() -> None:
    assert size_breaches(SOURCE) == []


def test_every_file_is_named_for_its_idea() -> None:
    assert name_breaches(SOURCE) == []


@pytest.mark.parametrize(("lines", "told"), [(600, []), (601, ["tile.py: 601 lines, at most 600"])])
def test_long_file_is_seen(tmp_path: Path, lines: int, told: list[str]) -> None:
    (tmp_path / "tile.py").write_text("x\n" * lines, encoding="utf-8")
    assert size_breaches(tmp_path) == told


def test_empty_names_are_seen(tmp_path: Path) -> None:
    (tmp_path / "common").mkdir()
    for name in ("ir_utils.py", "tile_v2.py", "new_cost.py", "threshold.py", "renewal.py"):
        (tmp_path / name).touch()
    assert name_breaches(tmp_path) == ["common", "ir_utils.py", "new_cost.py", "tile_v2.py"]
