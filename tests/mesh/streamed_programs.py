"""Stencils of two and three dimensions whose planes stream, and some whose planes do not."""

from __future__ import annotations

from itertools import product

from loopwright.ir.program import Program
from programs import Do, For, program

__all__ = ["GAUSS_SEIDEL", "PLANE", "SPACE", "nest_of"]

_SPACE = "float64 [a, b, c]"


def nest_of(border: int, statement: Do, names: str = "ijk", extents: str = "abc") -> For | Do:
    """Loops over the inside of a grid around a statement."""
    inner: For | Do = statement
    for name, extent in reversed(list(zip(names, extents, strict=True))):
        inner = For(name, border, f"{extent} - {border}", inner)
    return inner


def _space(name: str, arrays: dict[str, str], *body: For | Do) -> Program:
    return program(name, arrays, For("t", 0, "m", *body), params="a b c m")


def _plane(name: str, arrays: dict[str, str], *body: For | Do) -> Program:
    return program(name, arrays, For("t", 0, "m", *body), params="a b m")


def _sum(array: str, offsets: list[tuple[int, ...]], names: str = "ijk") -> str:
    terms = []
    for offset in offsets:
        index = ", ".join(
            f"{name} {'+' if d >= 0 else '-'} {abs(d)}" if d else name
            for name, d in zip(names, offset, strict=True)
        )
        terms.append(f"{array}[{index}]")
    return " + ".join(terms)


_STAR = [(0, 0, 0), (-1, 0, 0), (1, 0, 0), (0, -1, 0), (0, 1, 0), (0, 0, -1), (0, 0, 1)]
_WIDE = [(d if k == 0 else 0, d if k == 1 else 0, d if k == 2 else 0) for k in range(3)
         for d in (-2, -1, 1, 2)]  # fmt: skip
_CUBE = list(product((-1, 0, 1), repeat=3))
_A_STAR, _B_STAR = _sum("A", _STAR), _sum("B", _STAR)
_BOTH = {"A": f"inout {_SPACE}", "B": f"inout {_SPACE}"}

SPACE = {
    # Both grids are carried: each reads its own old value.
    "wave": _space(
        "wave", {**_BOTH, "v": f"in {_SPACE}"},
        nest_of(1, Do("A[i, j, k]", f"B[i, j, k] - A[i, j, k] + v[i, j, k] * ({_B_STAR})")),
        nest_of(1, Do("B[i, j, k]", f"A[i, j, k] - B[i, j, k] + v[i, j, k] * ({_A_STAR})")),
    ),
    "cube": _space(
        "cube", _BOTH,
        nest_of(1, Do("B[i, j, k]", f"0.037 * ({_sum('A', _CUBE)})")),
        nest_of(1, Do("A[i, j, k]", "B[i, j, k]")),
    ),
    "wide": _space(
        "wide", _BOTH,
        nest_of(2, Do("B[i, j, k]", f"0.0625 * ({_sum('A', _WIDE)})")),
        nest_of(2, Do("A[i, j, k]", f"0.0625 * ({_sum('B', _WIDE)})")),
    ),
    # Planes of a border are computed, too, and a line has a number for every step.
    "driven": _space(
        "driven", {**_BOTH, "p": "in float64 [m]"},
        For("j", 0, "b", For("k", 0, "c", Do("A[0, j, k]", "p[t]"))),
        nest_of(1, Do("B[i, j, k]", f"0.2 * ({_sum('A', _STAR)}) + p[t]")),
        nest_of(1, Do("A[i, j, k]", "B[i, j, k] - 0.5 * A[i, j, k]")),
    ),
}  # fmt: skip
_FLAT = {"A": "inout float64 [a, b]", "B": "inout float64 [a, b]"}
PLANE = {
    "upwind": _plane(
        "upwind", {**_FLAT, "w": "in float64 [a, b]"},
        nest_of(2, Do("B[i, j]", "A[i - 2, j] - 0.5 * A[i, j - 1] + w[i, j + 1]"), "ij", "ab"),
        nest_of(2, Do("A[i, j]", "B[i, j]"), "ij", "ab"),
    ),
    "downwind": _plane(
        "downwind", _FLAT,
        nest_of(1, Do("B[i, j]", "A[i + 1, j] * 0.5 + A[i, j + 1]"), "ij", "ab"),
        nest_of(1, Do("A[i, j]", "B[i + 1, j] - B[i, j - 1]"), "ij", "ab"),
    ),
    "in_place": _plane(
        "in_place", {"A": "inout float32 [a, b]"},
        nest_of(0, Do("A[i, j]", "A[i, j] * 0.5 + 1.0"), "ij", "ab"),
    ),
}  # fmt: skip
GAUSS_SEIDEL = _space(
    "gauss_seidel", {"A": f"inout {_SPACE}"},
    nest_of(1, Do("A[i, j, k]", f"0.14 * ({_sum('A', _STAR)})")),
)  # fmt: skip
