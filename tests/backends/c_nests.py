"""Parts of loop nests, and examples of them, for tests of the C printer."""

from __future__ import annotations

from pathlib import Path

from loopwright.ir.dtypes import FLOAT64
from loopwright.ir.expr import Const, Expr, Load, Var
from loopwright.ir.loops import (
    Buffer,
    For,
    LoopNest,
    Mark,
    Stmt,
)
from nest_text import read_nest

ONE, ZERO = Const(1), Const(0)
i, j, k, n = (Var(name) for name in "ijkn")


def matrix(name: str, columns: Expr, *, writable: bool = False) -> Buffer:
    return Buffer(name, FLOAT64, (columns, ONE), writable=writable)


def element(name: str, *index: Expr) -> Load:
    return Load(name, index, FLOAT64)


def loop(var: Var, start: Expr, stop: Expr, body: Stmt, mark: Mark = Mark.SERIAL) -> For:
    return For(var.name, start, stop, body, ONE, mark)


def example(title: str) -> LoopNest:
    """A nest of the table of nests that are printed."""
    text = (Path(__file__).parent / "nests" / "printed.txt").read_text()
    (part,) = (x for x in text.split("=====\n") if x.startswith(f"# {title} | "))
    return read_nest(part.split("\n", 1)[1].split("->\n", 1)[0])
