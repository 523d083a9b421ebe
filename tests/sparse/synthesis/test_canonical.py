"""Stages under plain names: the same computation, and one code for those that differ in names."""

import numpy as np
import pytest

from loopwright.ir.dtypes import FLOAT64, INT32
from loopwright.ir.expr import Const
from loopwright.sparse.convert_tensor import conversion
from loopwright.sparse.formats import find
from loopwright.sparse.spf.compile_computation import compile_computation
from loopwright.sparse.spf.computation import Stmt
from loopwright.sparse.synthesis.entry_iterator import over
from loopwright.sparse.synthesis.renaming import canonical
from loopwright.sparse.synthesis.stages import Builder, Stage, element
from loopwright.sparse.uf import Sym, Term, TupleVar
from sparse.synthesis.pairs import scattered
from sparse_builders import of_dense


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


def test_what_names_stand_for() -> None:
    found = canonical(scaled("a", "b", "N", "e").computation)
    assert set(found.arrays) == {"a", "b"}
    assert set(found.symbols) == {"N"}
    arrays = {found.arrays["a"]: np.array([1.0, 2.0]), found.arrays["b"]: np.zeros(3)}
    compile_computation(found.computation)(arrays, {found.symbols["N"]: 2})
    assert arrays[found.arrays["b"]].tolist() == [0.0, 3.0, 6.0]


@pytest.mark.parametrize(
    ("source", "target"), [("csr", "csc"), ("csc", "dia"), ("coo", "sell(2,4)")]
)
def test_plain_names_twice_are_the_same(source: str, target: str) -> None:
    """A computation under plain names stays as it is."""
    tensor = of_dense(source, scattered(21, (18, 18), 0.2))
    for stage in conversion(tensor, find(target)).stages:
        once = canonical(stage.computation)
        assert canonical(once.computation).computation == once.computation
