"""What the package shows: few names, light to import, every file introduced, no loose ends."""

import ast
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import loopwright
from architecture.source_files import comments_of, nodes, python_files, tree_of

SOURCE = Path(loopwright.__file__).parent
MOST_NAMES = 25

# Libraries that `import loopwright` must leave alone: together they cost more than numpy does.
HEAVY = ("islpy", "llvmlite", "hypothesis", "argparse", "logging")

UNNUMBERED = re.compile(r"\b(TODO|FIXME|XXX)\b(?!\s*\(?#\d+)")
# Statements that prose never spells by chance; assignments and calls also occur in mathematics.
DEAD = ast.Import | ast.ImportFrom | ast.Return | ast.Raise | ast.Assert | ast.Delete


def undescribed(root: Path) -> list[str]:
    """Return each file that does not begin by saying what it is for."""
    return [
        path
        for path, file in python_files(root)
        if not (ast.get_docstring(tree_of(file), clean=False) or "").split("\n")[0].strip()
    ]


def broad_handlers(root: Path) -> list[str]:
    """Return each handler that catches what it cannot know."""
    return [
        f"{path}:{node.lineno}"
        for path, file in python_files(root)
        for node, _ in nodes(tree_of(file))
        if isinstance(node, ast.ExceptHandler) and is_broad(node)
    ]


def is_broad(handler: ast.ExceptHandler) -> bool:
    """Say whether a handler is bare or catches Exception, or swallows BaseException."""
    if handler.type is None:
        return True
    names = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)}
    last = handler.body[-1]
    passes_on = isinstance(last, ast.Raise) and last.exc is None
    return "Exception" in names or ("BaseException" in names and not passes_on)


def loose_ends(root: Path) -> list[str]:
    """Return each TODO without an issue and each comment that is switched-off code."""
    return [
        f"{path}:{line}: {comment}"
        for path, file in python_files(root)
        for line, comment in comments_of(file).items()
        if UNNUMBERED.search(comment) or is_dead_code(comment)
    ]


def is_dead_code(comment: str) -> bool:
    try:
        body = ast.parse(comment.lstrip("# ")).body
    except SyntaxError:
        return False
    return any(isinstance(node, DEAD) for node in body)


def loaded_by(statement: str) -> set[str]:
    """Return the top-level modules a fresh interpreter has loaded after `statement`."""
    program = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return {name.split(".")[0] for name in done.stdout.split()}


def test_public_names_are_few_and_there() -> None:
    names = loopwright.__all__
    assert len(names) <= MOST_NAMES
    assert len(set(names)) == len(names)
    assert [name for name in names if not hasattr(loopwright, name)] == []
    assert set(names) <= set(dir(loopwright))


def test_import_is_light() -> None:
    assert loaded_by("import loopwright") & set(HEAVY) == set()


def test_heavy_import_is_seen() -> None:
    assert loaded_by("import loopwright, logging") & set(HEAVY) == {"logging"}


@pytest.mark.parametrize("check", [undescribed, broad_handlers, loose_ends])
def test_house(check: Callable[[Path], list[str]]) -> None:
    assert check(SOURCE) == []


def test_undescribed_file_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('"""Tile a band."""\n', encoding="utf-8")
    (tmp_path / "b.py").write_text("x = 1\n", encoding="utf-8")
    (tmp_path / "c.py").write_text('"""   \n\nlate"""\n', encoding="utf-8")
    (tmp_path / "d.py").touch()
    assert undescribed(tmp_path) == ["b.py", "c.py", "d.py"]


@pytest.mark.parametrize(
    ("handler", "is_seen"),
    [
        ("except:\n    raise", True),
        ("except Exception:\n    pass", True),
        ("except (OSError, Exception) as e:\n    raise", True),
        ("except BaseException:\n    pass", True),
        ("except BaseException:\n    undo()\n    raise", False),
        ("except (OSError, ValueError):\n    pass", False),
    ],
)
def test_broad_handler_is_seen(tmp_path: Path, handler: str, is_seen: bool) -> None:
    (tmp_path / "a.py").write_text(f"try:\n    f()\n{handler}\n", encoding="utf-8")
    assert broad_handlers(tmp_path) == (["a.py:3"] if is_seen else [])


@pytest.mark.parametrize(
    ("comment", "is_seen"),
    [
        ("# TODO later", True),
        ("# FIXME: later (#12)", True),
        ("# TODO #12: later", False),
        ("# TODO(#12): later", False),
        ("# import islpy", True),
        ("# return x + 1", True),
        ("# return the sum of both", False),
        ("# lazy: islpy", False),
        ("# i = it + ii", False),
        ("# { S[i,j] -> A[x,y] }, may-reads", False),
    ],
)
def test_loose_end_is_seen(tmp_path: Path, comment: str, is_seen: bool) -> None:
    (tmp_path / "a.py").write_text(f"x = 1\n{comment}\n", encoding="utf-8")
    assert loose_ends(tmp_path) == ([f"a.py:2: {comment}"] if is_seen else [])
