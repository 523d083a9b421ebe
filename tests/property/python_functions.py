"""Random small functions of loops as Python text, for comparing compilers with Python itself.

    @given(python_functions())
    def test(kernel): run(kernel.define(), *kernel.arguments(n=5))

Loops run inside [0, n), so arrays of extent 2n + 4 are never left; `kernel.slack` makes them
smaller now and then. Operands are of one kind (integers or floats) and both sides of min, max
and conditional expressions of one dtype: there Python's types would depend on the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from frontends.kernels import Function, define

__all__ = ["PythonFunction", "python_functions"]

LOOPS = "ijk"
RANKS = {"A": 2, "B": 1, "C": 1}
KINDS = {"int": ("int8", "int32", "int64", "uint8"), "float": ("float32", "float64")}
UPDATES = {"int": ("+=", "-=", "*=", "|=", "^=", "&="), "float": ("+=", "-=", "*=", "/=")}


@dataclass(frozen=True)
class PythonFunction:
    """A function `f(A, B, C, n, x)` as text, and what it is called with."""

    text: str
    kind: str  # "int" or "float"
    dtypes: tuple[str, ...]  # of A, B, C
    slack: int  # extents are 2n + slack

    def define(self) -> Function:
        return define(self.text, "kernel.py")

    def arguments(self, n: int, seed: int = 0) -> tuple[Any, ...]:
        """Arrays of small random contents, n, and a Python number."""
        rng = np.random.default_rng(seed)
        extent = max(0, 2 * n + self.slack)
        arrays = [
            rng.integers(0, 100, (extent,) * rank).astype(dtype)
            if self.kind == "int"
            else rng.normal(size=(extent,) * rank).astype(dtype)
            for rank, dtype in zip(RANKS.values(), self.dtypes, strict=True)
        ]
        return (*arrays, n, 3 if self.kind == "int" else 0.3)


@st.composite
def python_functions(draw: st.DrawFn) -> PythonFunction:
    """A function of one to three loop nests."""
    kind = draw(st.sampled_from(sorted(KINDS)))
    dtypes = tuple(draw(st.sampled_from(KINDS[kind])) for _ in RANKS)
    if kind == "int":  # NumPy refuses to store an integer that does not fit
        dtypes = dtypes[:1] * len(RANKS)
    lines = ["def f(A, B, C, n, x):"]
    if draw(st.booleans()):
        lines.append("    s = 0")
    has_scalar = len(lines) > 1
    for _ in range(draw(st.integers(1, 2))):
        lines += draw(_loops(kind, has_scalar, ()))
    if has_scalar:
        lines.append("    return s")
    slack = draw(st.sampled_from([4, 4, 4, 0, -2]))
    return PythonFunction("\n".join(lines) + "\n", kind, dtypes, slack)


@st.composite
def _loops(draw: st.DrawFn, kind: str, has_scalar: bool, around: tuple[str, ...]) -> list[str]:
    """A loop with one to three statements, loops or branches in it."""
    pad = "    " * (len(around) + 1)
    name = LOOPS[len(around)]
    lines = [f"{pad}for {name} in {draw(_range(around))}:"]
    inside = (*around, name)
    for _ in range(draw(st.integers(1, 2))):
        if len(inside) < len(LOOPS) and draw(st.integers(0, 2)) > 0:
            lines += draw(_loops(kind, has_scalar, inside))
        else:
            body = draw(_statement(kind, has_scalar, inside))
            lines += [f"{pad}    {line}" for line in draw(_guarded(body, inside))]
    return lines


@st.composite
def _range(draw: st.DrawFn, around: tuple[str, ...]) -> str:
    """Bounds inside [0, n), rectangular or triangular, with any step."""
    start = draw(st.sampled_from(["0", "1", *around, *(f"{v} + 1" for v in around)]))
    stops = ["n", "n - 1", "(n + 1) // 2", *around, *(f"min({v} + 2, n)" for v in around)]
    stop = draw(st.sampled_from(stops))
    step = draw(st.sampled_from([1, 1, 1, 2, 3, -1, -2]))
    if step == 1 and start == "0":
        return f"range({stop})"
    if step < 0:
        return f"range({stop} - 1, {start} - 1, {step})"
    return f"range({start}, {stop}, {step})" if step > 1 else f"range({start}, {stop})"


@st.composite
def _guarded(draw: st.DrawFn, body: str, loops: tuple[str, ...]) -> list[str]:
    """A statement, perhaps under an affine if with another one in its else branch."""
    if draw(st.integers(0, 3)) > 0:
        return [body]
    lines = [f"if {draw(_condition(loops))}:", f"    {body}"]
    if draw(st.booleans()):
        lines += ["else:", f"    C[{draw(_subscript(loops))}] = {draw(st.integers(0, 9))}"]
    return lines


@st.composite
def _condition(draw: st.DrawFn, loops: tuple[str, ...]) -> str:
    one, other = draw(st.sampled_from(loops)), draw(st.sampled_from([*loops, "n - 2", "1"]))
    forms = [
        f"{one} < {other}",
        f"0 < {one} <= {other}",
        f"({one} + {other}) % 2 == 0",
        f"not {one} == {other} or {one} > 2",
        f"abs({one} - {other}) <= 1",
        f"{one} // 2 != {other} and n > 1",
    ]
    return draw(st.sampled_from(forms))


@st.composite
def _subscript(draw: st.DrawFn, loops: tuple[str, ...]) -> str:
    loop, shift = draw(st.sampled_from(loops)), draw(st.integers(0, 2))
    other = draw(st.sampled_from(loops))
    forms = [f"{loop} + {shift}", f"n - {loop}", f"2 * {loop}", f"{loop} + {other}", f"{loop} // 2"]
    return draw(st.sampled_from([loop, loop, *forms, "-1", f"{shift}"]))


@st.composite
def _element(draw: st.DrawFn, loops: tuple[str, ...], array: str | None = None) -> str:
    name = draw(st.sampled_from(sorted(RANKS))) if array is None else array
    entries = [draw(_subscript(loops)) for _ in range(RANKS[name])]
    separator = "][" if draw(st.booleans()) else ", "
    return f"{name}[{separator.join(entries)}]"


@st.composite
def _statement(draw: st.DrawFn, kind: str, has_scalar: bool, loops: tuple[str, ...]) -> str:
    target, value = draw(_element(loops)), draw(_value(kind, loops))
    forms = [f"{target} = {value}", f"{target} {draw(st.sampled_from(UPDATES[kind]))} {value}"]
    forms.append(f"{target}, {draw(_element(loops))} = {draw(_element(loops))}, {value}")
    forms.append(f"{target} = {draw(_element(loops))} = {value}")
    if has_scalar:
        forms += [f"s += {draw(_element(loops, 'B'))}", f"{target} = s"]
    return draw(st.sampled_from(forms))


@st.composite
def _value(draw: st.DrawFn, kind: str, loops: tuple[str, ...]) -> str:
    one, other = draw(_element(loops)), draw(_element(loops))
    array = draw(st.sampled_from(sorted(RANKS)))
    same, too = draw(_element(loops, array)), draw(_element(loops, array))
    loop = draw(st.sampled_from(loops))
    forms = [
        one,
        f"{one} + {other}",
        f"{one} * {other} - {loop}",
        f"{one} * x + {loop} * 2",
        f"min({same}, {too})",
        f"max({same}, {too}) + abs({one})",
        f"{same} if {one} > {other} else {too}",
        f"{same} if {draw(_condition(loops))} else {too}",
        f"{one} // 3 + {other} % 5",
        f"{one} ** 2",
    ]
    if kind == "float":
        forms += [f"{one} / 3", f"{one} * 0.5 + {loop} / 2", f"math.sqrt(abs({one}))", f"-{one}"]
    else:
        number = str(draw(st.integers(0, 9)))
        forms += [f"{one} & {other}", f"({one} ^ 5) | {other}", f"~{one}", number]
    return draw(st.sampled_from(forms))
