"""Names tell parts apart: no two modules and no two public classes share one."""

import ast
from collections import defaultdict
from pathlib import Path

import loopwright
from architecture.source_files import python_files, tree_of

SOURCE = Path(loopwright.__file__).parent


def module_clashes(root: Path) -> list[str]:
    """Each name that several modules have, or a module and a package, with their paths."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for file in sorted(root.rglob("*.py")):
        path = file.relative_to(root)
        if path.stem == "__init__" and len(path.parts) > 1:
            found[path.parent.name].append(path.parent.as_posix())
        elif not path.stem.startswith("__"):
            found[path.stem].append(path.as_posix())
    return [f"{name}: {', '.join(paths)}" for name, paths in found.items() if len(paths) > 1]


def class_clashes(root: Path) -> list[str]:
    """Each name that several public classes have, with their files."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path, file in python_files(root):
        for node in tree_of(file).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path)
    return [f"{name}: {', '.join(paths)}" for name, paths in found.items() if len(paths) > 1]


def test_no_two_modules_have_the_same_name() -> None:
    assert module_clashes(SOURCE) == []


def test_no_two_public_classes_have_the_same_name() -> None:
    assert class_clashes(SOURCE) == []


def test_clashes_are_seen(tmp_path: Path) -> None:
    for path in ("a/tile.py", "b/tile.py", "b/__init__.py", "a/b.py"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("class Tile: ...\nclass _Own: ...\n", encoding="utf-8")
    assert module_clashes(tmp_path) == ["b: a/b.py, b", "tile: a/tile.py, b/tile.py"]
    assert class_clashes(tmp_path) == ["Tile: a/b.py, a/tile.py, b/__init__.py, b/tile.py"]
