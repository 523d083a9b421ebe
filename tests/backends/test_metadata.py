"""What LLVM is told of loops: strips, flags that are seldom set, powers in vector loops."""

from __future__ import annotations

import pytest

from loopwright.backends.llvm.llvm_metadata import Metadata
from loopwright.ir.dtypes import FLOAT64
from loopwright.ir.expr import Const, Expr, Load, Var
from loopwright.ir.loops import For, If, Mark, Store
from loopwright.lower.build import loop


def strip(start: Expr, mark: Mark) -> For:
    """Twelve rows from `start` on, each a loop of the given mark."""
    at = (Var("i"), Var("j"))
    row = loop(Var("j"), 0, Var("n"), Store("A", at, Load("A", at, FLOAT64)), mark=mark)
    return For("i", start, start + 12, row, Const(1))


@pytest.mark.parametrize(
    ("start", "mark", "is_kept"),
    [
        (Var("t"), Mark.SIMD, True),
        (Var("t"), Mark.SERIAL, False),
        (Const(0), Mark.SIMD, False),
    ],
    ids=["a strip of vectors", "a strip of other loops", "a loop of constant bounds"],
)
def test_strips_are_not_unrolled(start: Expr, mark: Mark, is_kept: bool) -> None:
    metadata = Metadata()
    metadata.loop(strip(start, mark), None)
    assert any("llvm.loop.unroll.disable" in line for line in metadata.lines) == is_kept


@pytest.mark.parametrize(
    ("place", "is_rare"),
    [(Const(0), True), (Var("i"), False)],
    ids=["a flag", "an element of its own for each iteration"],
)
def test_flags_are_not_expected_to_be_set(place: Expr, is_rare: bool) -> None:
    body = Store("A", (Var("i"),), Load("B", (Var("i"),), FLOAT64))
    other = Store("refused", (place,), Const(1))
    metadata = Metadata()
    metadata.branch(If(Var("i") < 3, body, other))
    assert any("branch_weights" in line for line in metadata.lines) == is_rare


@pytest.mark.parametrize(
    ("index", "trips", "is_taken"),
    [
        ((Var("r"), Var("j")), 8, True),
        ((Var("r"), Var("k") + Var("j") - 1), 2, True),
        ((Var("r"), Var("j")), 3, False),
        ((Var("r"), Var("j") * 2), 8, False),
        ((Var("j"), Var("r")), 8, False),
        ((Var("r"), Var("j")), 128, False),
    ],
    ids=["rows", "one vector", "a rest", "every other", "columns", "many"],
)
def test_a_few_whole_vectors_are_taken(index: tuple[Expr, ...], trips: int, is_taken: bool) -> None:
    metadata = Metadata()
    body = Store("A", index, Load("B", index, FLOAT64))
    metadata.loop(For("j", Const(0), Const(trips), body, Const(1), Mark.SIMD), None)
    text = "\n".join(metadata.lines)
    assert (f'"llvm.loop.vectorize.width", i32 {min(2, trips)}' in text) == is_taken
    assert "i1 true" not in text, "LLVM warns where a wish is not fulfilled"
