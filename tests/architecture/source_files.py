"""The files of a package as text, trees and comments: each is read and parsed once."""

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

# What a `#` may stand in, and comments. Reading tokens one by one takes thirty times as long.
_STRING_OR_COMMENT = re.compile(
    r'"""(?:\\.|[^\\])*?"""'
    r"|'''(?:\\.|[^\\])*?'''"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'(?:\\.|[^'\\\n])*'"
    r"|(?P<comment>#[^\n]*)",
    re.DOTALL,
)
# Most nodes of a tree are of these kinds, and no check asks for them.
_UNASKED = (ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop)


T = TypeVar("T")
_remembering: list[Any] = []


def remembered(function: Callable[..., T]) -> Callable[..., T]:
    """Compute what a function says of a file once, until `forget_files`."""
    known = cache(function)
    _remembering.append(known)
    return known


@remembered
def text_of(file: Path) -> str:
    return file.read_text(encoding="utf-8")


@remembered
def tree_of(file: Path) -> ast.Module:
    return ast.parse(text_of(file), file.name)


@remembered
def comments_of(file: Path) -> dict[int, str]:
    """The comment of each line that has one."""
    text = text_of(file)
    found, line, end = {}, 1, 0
    for match in _STRING_OR_COMMENT.finditer(text):
        if match["comment"] is not None:
            line += text.count("\n", end, match.start())
            end = match.start()
            found[line] = match["comment"]
    return found


@remembered
def nodes(tree: ast.Module) -> tuple[tuple[ast.AST, bool], ...]:
    """Every node but operators, with whether a function encloses it, parents first."""
    found: list[tuple[ast.AST, bool]] = []
    ahead: list[tuple[ast.AST, bool]] = [(tree, False)]
    while ahead:
        node, is_inside = pair = ahead.pop()
        found.append(pair)
        is_inside = is_inside or isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
        )
        below: list[tuple[ast.AST, bool]] = []
        for name in node._fields:
            value = getattr(node, name, None)
            if value.__class__ is list:
                below += [(child, is_inside) for child in value if isinstance(child, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, _UNASKED):
                below.append((value, is_inside))
        ahead += reversed(below)
    return tuple(found[1:])


def forget_files() -> None:
    """Let go of a million nodes, which collections of garbage would visit to the end of the run."""
    for known in _remembering:
        known.cache_clear()


def python_files(root: Path) -> Iterator[tuple[str, Path]]:
    """Every file under `root`, with its path from there."""
    for file in sorted(root.rglob("*.py")):
        yield file.relative_to(root).as_posix(), file
