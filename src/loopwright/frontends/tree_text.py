"""A SourceTree as Python-like text: unique names, types, all conversions written out.

A module of its own because `ir/text` imports isl, which a kernel from the disk cache never loads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from loopwright.frontends.source_tree import (
    ArrayParam,
    Assign,
    ForLoop,
    IfElse,
    IntParam,
    Local,
    Node,
    Param,
    ScalarParam,
    SourceTree,
)
from loopwright.ir.expr import Const, Expr
from loopwright.ir.text import access_text, expr_text

__all__ = ["tree_text"]

_INDENT = "    "


def tree_text(tree: SourceTree) -> str:
    """A source tree as Python-like text."""
    return "\n".join(_lines(tree))


def _lines(tree: SourceTree) -> Iterator[str]:
    yield f"def {tree.name}({', '.join(map(_param, tree.params))}):"
    for local in tree.locals:
        yield f"{_INDENT}{_declared(local)}"
    yield from _indented(_block(tree.body))
    if tree.result is not None:
        comma = "," if tree.result.is_tuple and len(tree.result.names) == 1 else ""
        yield f"{_INDENT}return {', '.join(tree.result.names)}{comma}"


def _param(param: Param) -> str:
    match param:
        case ArrayParam():
            return _declared(param)
        case IntParam(name=name):
            return f"{name}: int"
        case ScalarParam(name=name, dtype=dtype):
            return f"{name}: {dtype}"
        case _:
            assert_never(param)


def _declared(array: ArrayParam | Local) -> str:
    shape = f"[{', '.join(map(expr_text, array.shape))}]" if array.shape else ""
    return f"{array.name}: {array.dtype}{shape}"


def _block(nodes: Iterable[Node]) -> Iterator[str]:
    for node in nodes:
        match node:
            case Assign(target=target, value=value):
                yield f"{access_text(target)} = {expr_text(value)}"
            case ForLoop(var=var, body=body):
                yield f"for {var} in range({', '.join(map(expr_text, _range(node)))}):"
                yield from _indented(_block(body))
            case IfElse(cond=cond, body=body, orelse=orelse):
                yield f"if {expr_text(cond)}:"
                yield from _indented(_block(body))
                if orelse:
                    yield "else:"
                    yield from _indented(_block(orelse))
            case _:
                assert_never(node)


def _range(loop: ForLoop) -> tuple[Expr, ...]:
    if loop.step != 1:
        return loop.start, loop.stop, Const(loop.step)
    return (loop.stop,) if loop.start == Const(0) else (loop.start, loop.stop)


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (_INDENT + line for line in lines)
