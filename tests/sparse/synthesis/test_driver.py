"""Stages written as Python do what their descriptions say, all at once or one by one."""

from typing import Any

import numpy as np
import pytest

from loopwright.ir.dtypes import FLOAT64, INT32
from loopwright.ir.expr import Const
from loopwright.sparse.convert_tensor import conversion
from loopwright.sparse.formats import find
from loopwright.sparse.spf.computation import Stmt
from loopwright.sparse.synthesis import driver
from loopwright.sparse.synthesis.conversion import run
from loopwright.sparse.synthesis.driver import (
    ConversionSignature,
    single_thread_driver,
    stage_steps,
)
from loopwright.sparse.synthesis.entry_iterator import over
from loopwright.sparse.synthesis.stages import ArrayReuse, Builder, RuntimeSymbol, element
from loopwright.sparse.uf import Sym, Term, TupleVar
from sparse.synthesis.pairs import scattered
from sparse_builders import of_dense

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


def test_only_what_runs_is_compiled() -> None:
    builder = builder_of(None, N + 7)
    codes = [stage.code[0] for stage in builder.stages]
    both(builder, [4, 5, 3])
    assert [code._kernel is not None for code in codes] == [True, False]
    both(builder, [4, 5, 2])
    assert [code._kernel is not None for code in codes] == [True, True]


def test_long_temporaries_are_lent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays that are no results come from memory that is kept, and results never do."""
    monkeypatch.setattr(driver, "_WORTH_KEEPING", 1)
    tensor = of_dense("coo", scattered(3, (9, 8), 0.4))
    order = np.random.default_rng(1).permutation(len(tensor.values))
    arrays = {name: array[order] for name, array in tensor.arrays.items()}
    found = conversion(tensor, find("csr"), find("coo"))
    written = single_thread_driver(found.stages, found._signature, found.temporary)
    lent = []

    def lend(shape: tuple[int, ...], dtype: Any) -> Any:
        lent.append(np.full(shape, 77, dtype))
        return lent[-1]

    made, values, symbols = written(arrays, tensor.values[order], tensor.symbols, lend)
    assert lent
    assert not {id(values), *map(id, made.values())} & set(map(id, lent))
    right, numbers, known = run(found, arrays, tensor.values[order], tensor.symbols)
    assert symbols == known
    assert values.tolist() == numbers.tolist()
    assert {n: a.tolist() for n, a in made.items()} == {n: a.tolist() for n, a in right.items()}
    assert values.dtype == FLOAT64.numpy
