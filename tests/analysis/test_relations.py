"""Reading relations: moved dimensions, functions as expressions."""

from __future__ import annotations

import islpy as isl
import pytest

from loopwright.analysis.relations import affine_expr, moved_dimensions
from loopwright.ir.expr import Const, Var
from loopwright.ir.islkit import context


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        ("{ S[i, j] -> S[i, j] }", set()),
        ("{ S[i, j] -> S[i, j + 1] }", {1}),
        ("{ S[i, j] -> S[a, b] : i + j = a + b }", {0, 1}),
        ("{ S[i, j] -> S[a, j] : a = i or (a = i + 1 and i < 0) }", {0}),
        ("{ S[i, j] -> S[a, b] : false }", set()),
    ],
)
def test_moved_dimensions(text: str, moved: set[int]) -> None:
    assert moved_dimensions(isl.Map.read_from_str(context(), text)) == moved


def test_affine_expressions() -> None:
    def read(text: str) -> object:
        return affine_expr(isl.Aff.read_from_str(context(), text), ("i",))

    assert (
        read("[n] -> { [i] -> [2i - n + 3] }") == Var("i") * 2 - Var("n") + 3
        or read("[n] -> { [i] -> [i + 1] }") == Var("i") + 1
    )
    assert read("[n] -> { [i] -> [2i - n + 3] }") == Const(2) * Var("i") - Var("n") + 3
    assert read("{ [i] -> [(i)] }") == Var("i")
    # What has divisions is no sum: they must not be dropped.
    assert read("{ [i] -> [(i - (i mod 2))] }") is None
    assert read("{ [i] -> [(floor(i / 2))] }") is None
    assert read("{ [i] -> [(i / 2)] }") is None
