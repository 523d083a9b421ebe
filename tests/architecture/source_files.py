"""The files of a package as text, trees and comments: each is read and parsed once."""

import ast
import io
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path


@cache
def text_of(file: Path) -> str:
    return file.read_text(encoding="utf-8")


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(text_of(file), file.name)


@cache
def comments_of(file: Path) -> dict[int, str]:
    """The comment of each line that has one."""
    tokens = tokenize.generate_tokens(io.StringIO(text_of(file)).readline)
    return {t.start[0]: t.string for t in tokens if t.type == tokenize.COMMENT}


def python_files(root: Path) -> Iterator[tuple[str, Path]]:
    """Every file under `root`, with its path from there."""
    for file in sorted(root.rglob("*.py")):
        yield file.relative_to(root).as_posix(), file
