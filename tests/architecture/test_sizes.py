"""The size and the name of every file: one idea each, short enough to read in one sitting."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

import loopwright
from architecture.source_files import python_files, text_of, tree_of

SOURCE = Path(loopwright.__file__).parent
MOST_LINES = 600
MOST_FILES = 60  # side by side in a folder; what outgrows them gets rooms (ADR 73)

# Names that say nothing about the idea in the file, and names that say "instead of the old one".
EMPTY_NAMES = {"common", "helper", "helpers", "misc", "util", "utils"}
SECOND_TRY = re.compile(r"(^|_)(v\d+|new|old|legacy)(_|$)")


def size_breaches(root: Path) -> list[str]:
    """Return each file that has outgrown one reading."""
    return [
        f"{path}: {count} lines, at most {MOST_LINES}"
        for path, file in python_files(root)
        if (count := len(text_of(file).splitlines())) > MOST_LINES
    ]


def folder_breaches(root: Path) -> list[str]:
    """Return each folder with more files than a table of contents has lines."""
    counts = Counter(Path(path).parent.as_posix() for path, _ in python_files(root))
    return [
        f"{folder}: {count} files, at most {MOST_FILES}"
        for folder, count in counts.items()
        if count > MOST_FILES
    ]


def name_breaches(root: Path) -> list[str]:
    """Return each file or folder with a name that tells nothing."""
    return [
        path.relative_to(root).as_posix()
        for path in sorted(root.rglob("*"))
        if path.is_dir() or path.suffix == ".py"
        if set(path.stem.split("_")) & EMPTY_NAMES or SECOND_TRY.search(path.stem)
    ]


# Packages whose modules and public classes share their names with no other of the whole source.
DISTINCT = ("backends", "cli", "machines", "runtime", "semirings", "validate")


def shared_names(root: Path, packages: tuple[str, ...]) -> list[str]:
    """Return each name of a module or public class of `packages` that another one has as well."""
    homes: dict[str, list[str]] = {}
    for path, file in python_files(root):
        classes = [node.name for node in tree_of(file).body if isinstance(node, ast.ClassDef)]
        modules = [] if file.stem.startswith("__") else [f"{file.stem}.py"]
        for name in (*modules, *(name for name in classes if not name.startswith("_"))):
            homes.setdefault(name, []).append(path)
    return [
        f"{name}: {', '.join(paths)}"
        for name, paths in homes.items()
        if len(paths) > 1 and any(path.startswith(packages) for path in paths)
    ]


def test_no_folder_is_too_full() -> None:
    assert folder_breaches(SOURCE) == []


def test_full_folders_are_seen(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    for number in range(MOST_FILES + 1):
        (tmp_path / "room" / f"part{number}.py").write_text("", encoding="utf-8")
    assert folder_breaches(tmp_path) == ["room: 61 files, at most 60"]


def test_modules_and_classes_have_names_of_their_own() -> None:
    assert shared_names(SOURCE, DISTINCT) == []


def test_shared_names_are_seen(tmp_path: Path) -> None:
    for folder, text in (
        ("ir", "class A: ..."),
        ("cli", "class A: ..."),
        ("lower", "class _A: ..."),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tile.py").write_text(text, encoding="utf-8")
    assert shared_names(tmp_path, ("cli",)) == [
        "tile.py: cli/tile.py, ir/tile.py, lower/tile.py",
        "A: cli/tile.py, ir/tile.py",
    ]
    assert shared_names(tmp_path, ("sparse",)) == []


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
