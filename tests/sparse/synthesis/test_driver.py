"""Stages: written as Python, under plain names, without rows; they do what is described."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loopwright.ir.dtypes import FLOAT64, INT32
from loopwright.ir.expr import Const
from loopwright.sparse.explain_conversion import explain
from loopwright.sparse.format import declare
from loopwright.sparse.formats import find
from loopwright.sparse.spf.computation import Stmt
from loopwright.sparse.synthesis.conversion import Conversion
from loopwright.sparse.synthesis.driver import (
    ConversionSignature,
    single_thread_driver,
    stage_steps,
)
from loopwright.sparse.synthesis.entry_iterator import over
from loopwright.sparse.synthesis.renaming import canonical
from loopwright.sparse.synthesis.stages import ArrayReuse, Builder, RuntimeSymbol, Stage, element
from loopwright.sparse.uf import Sym, Term, TupleVar

E, N = Term.of(TupleVar("e")), Term.of(Sym("N"))


def moved(builder: Builder, source: str, target: str, more: int) -> Stmt:
    """target[e] = source[e] + more for e below N."""
    value = builder.load(element(source, E)) + Const(more, INT32)
    return Stmt("copy", over("e", N), (E,), target, (E,), value)


def builder_of(fill: int | None, shape: Term = N) -> Builder:
    """Two stages: y from x, and z = y + 1, which is y itself where K is N."""
    builder = Builder(INT32)
    builder.given("from_x", INT32, (N,))
    y = builder.array("y", INT32, (shape,), fill)
    builder.stage("first", [moved(builder, "from_x", y, 0)], [RuntimeSymbol("L", y, (N - 1,))])
    builder.define("K", N * 2 - Term.of(Sym("L")))
    z = builder.array("z", INT32, (N,))
    same = ArrayReuse(Term.of(Sym("K")), N, ((z, y),))
    builder.stage("second", [moved(builder, y, z, 1)], reuse=same)
    return builder


def both(builder: Builder, x: list[int], **more: int) -> tuple[Any, Any]:
    """(y, z, symbols) from the stages written as a whole, and from their turns."""
    ends = ConversionSignature(
        {"from_x": "arrays['x']"},
        {"N": "symbols['N']"},
        (("M", Term.of(Sym("K")) + 1),),
        {"y": "y", "z": "z"},
        "z",
        {"M": "M", "L": "L"},
    )
    array = np.array(x, np.int32)
    symbols = {"N": len(x), **more}
    arrays, values, known = single_thread_driver(builder.stages, ends, frozenset())(
        {"x": array}, array, symbols, np.empty
    )
    assert values is arrays["z"]
    held: dict[str, Any] = {"from_x": array}
    names = dict(symbols)
    for turn in stage_steps(builder.stages):
        if turn.prepare(held, names, np.empty):
            turn.call(held, names)
            turn.read_symbols(held, names)
    assert names["K"] + 1 == known["M"]
    assert names["L"] == known["L"]
    return (arrays["y"], arrays["z"]), (held["y"], held["z"])


@pytest.mark.parametrize("fill", [None, 0, -1])
def test_whole_and_by_turns(fill: int | None) -> None:
    for x in ([4, 5, 2], [4, 5, 3]):
        for y, z in both(builder_of(fill, N + 1), x):
            assert y.shape == (4,)
            assert y[:3].tolist() == x
            assert fill is None or y[3] == fill
            # K = 2N - x[N-1]: the second stage is left out where the last element is N.
            assert (z is y) == (x[-1] == 3)
            assert z is y or z.tolist() == [n + 1 for n in x]


def test_arrays_without_room() -> None:
    """Extents below 0 are 0, and nothing is learnt from arrays that have no elements."""
    for y, _ in both(builder_of(0, N - 1), []):
        assert y.shape == (0,)
    with pytest.raises(MemoryError, match=r"72057594037927936\*N is .* more than any memory holds"):
        both(builder_of(0, N * (1 << 56)), [2, 2])


def scaled(source: str, target: str, count: str, variable: str, factor: int = 3) -> Stage:
    """target[x+1] = source[x] * factor for 0 <= x < count, under any names."""
    builder = Builder(INT32)
    size = Term.of(Sym(count))
    builder.given(source, FLOAT64, (size,))
    builder.array(target, FLOAT64, (size + 1,), 0)
    x = Term.of(TupleVar(variable))
    value = builder.load(element(source, x)) * Const(float(factor), FLOAT64)
    builder.stage("scale", [Stmt("scale", over(variable, size), (x,), target, (x + 1,), value)])
    return builder.stages[0]


def test_names_do_not_matter() -> None:
    one, two = scaled("a", "b", "N", "e"), scaled("from_values", "sums", "NNZ", "x")
    assert one.computation != two.computation
    assert canonical(one.computation).computation == canonical(two.computation).computation
    assert one.code[0] is two.code[0]


def test_anything_else_does() -> None:
    one, two = scaled("a", "b", "N", "e"), scaled("a", "b", "N", "e", factor=4)
    assert canonical(one.computation).computation != canonical(two.computation).computation


def stage(of: Conversion, name: str) -> Stage:
    return next(s for s in of.stages if s.computation.name.startswith(name))


def test_without_the_ends_of_pointers_rows_are_visited() -> None:
    csr = find("csr")
    invariants = [rule.text for rule in csr.invariants if not rule.text.startswith("rowptr(0)")]
    texts = str(csr.map), str(csr.access)
    loose = declare(
        "loose", *texts, *csr.indices, places="NNZ", order=("i", "j"), invariants=invariants
    )
    found = explain(loose, "csc").conversion
    assert found is not None
    assert stage(found, "count").collapsed is None
