"""What LLVM is told of loops: strips, flags that are seldom set, powers in vector loops."""

from __future__ import annotations

import pytest

from loopwright.backends.llvm.llvm_metadata import Metadata
from loopwright.ir.dtypes import FLOAT64
from loopwright.ir.expr import Const, Expr, Load, Var
from loopwright.ir.loops import For, If, Mark, Store


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
