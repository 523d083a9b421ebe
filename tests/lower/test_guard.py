"""Minima and maxima by operators that prefer numbers: the same bits, whatever NaN there are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from backends.compiled import compile_nest
from loopwright.backends.llvm_team import can_claim
from loopwright.ir.check import check_nest
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.form import Form, Initial, Kind, Packing
from loopwright.ir.interpret import Memory, interpret_nest
from loopwright.ir.loops import Space
from loopwright.kernels import thread_pool
from loopwright.lower.contraction import lower_contraction
from loopwright.machines.load import load_machine
from loopwright.planner.analytical import Algebra, choose
from loopwright.planner.instance import Dim, Instance
from lower.contractions import (
    Layout,
    Made,
    Problem,
    expected,
    form_of,
    fresh,
    launch,
    make,
    plain,
    ring,
)

INF, NAN = np.inf, np.nan
PAIRS = [("min", "add"), ("max", "mul"), ("min", "max"), ("max", "add")]
# What stands somewhere in left, in right, or nowhere.
POISONS: dict[str, tuple[list[float], list[float]]] = {
    "numbers": ([], []),
    "zeros of both signs": ([0.0, -0.0, 0.0], [-0.0, 0.0]),
    "NaN in left": ([NAN], []),
    "NaN in right": ([], [NAN]),
    "infinities of one sign": ([INF, INF], [INF]),
    "infinities that cancel": ([INF], [-INF]),
    "infinities that cancel, turned": ([-INF, 3.0], [INF]),
    "infinity and zero": ([INF], [0.0]),
    "all": ([NAN, INF, -INF, 0.0], [-INF, -0.0, INF]),
}
PROBLEM = Problem(
    {"g": (1,), "i": (7,), "j": (19,), "p": (7,)},
    Layout("gip"),
    Layout("gpj"),
    Layout("gij"),
    (3, 8, 3),
)


def guarded(pair: tuple[str, str], dtype: str, parallel: str) -> Form:
    return form_of(
        Kind.PRODUCT,
        ring(*pair, dtype),
        (3, 2, 4),
        left_packing=Packing.ALONG_P,
        right_packing=Packing.ALONG_TILE,
        unroll=2,
        parallel=parallel,
        guarded=True,
    )


def poisoned(form: Form, poison: tuple[list[float], list[float]], seed: int) -> Made:
    """Operands of which the last steps of some rows and columns are replaced."""
    made = make(PROBLEM, form, seed)
    random = np.random.default_rng(seed)
    for name, values in zip(("left", "right"), poison, strict=True):
        array = made.arrays[name]
        for value in values:
            array[tuple(random.integers(0, extent) for extent in array.shape)] = value
        made.plain[name] = array.reshape(made.plain[name].shape)
    return made


def assert_equal_bits(found: np.ndarray, right: np.ndarray) -> None:
    """Equal, zeros by their sign; which NaN comes out is open."""
    np.testing.assert_array_equal(found, right)
    numbers = ~np.isnan(right)
    np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(right)[numbers])


@pytest.mark.parametrize("pair", PAIRS, ids="_".join)
@pytest.mark.parametrize("parallel", ["none", "i"])
def test_every_number_comes_out_as_by_exact_operators(pair: tuple[str, str], parallel: str) -> None:
    form = guarded(pair, "float32" if pair[0] == "min" else "float64", parallel)
    nest = lower_contraction(form, "f")
    check_nest(nest)
    kernel = compile_nest(nest)
    threads = 1 if parallel == "none" else 2
    for seed, poison in enumerate(POISONS.values()):
        made = poisoned(form, poison, seed)
        values, table = launch(form, made, PROBLEM)
        values = {name: values[name] for name in nest.scalars}
        right = expected(form, made)
        arrays = fresh(made)
        bound = kernel.bind(values, table, threads, thread_pool)
        bound(*(arrays[b.name] for b in nest.buffers if b.space is Space.GLOBAL))
        assert_equal_bits(plain(arrays["out"], right), right)
        if seed % 4 == 2:
            arrays = fresh(made)
            memory = {name: Memory.of(a) for name, a in arrays.items()}
            interpret_nest(nest, {**memory, "table": table}, values, threads=threads)
            assert_equal_bits(plain(arrays["out"], right), right)


def test_bits_belong_to_rows_that_stay_with_their_thread() -> None:
    """What a thread has found in its rows counts for later steps: rows must not change hands."""
    for parallel, claims in (("i", False), ("j", True), ("batch", True)):
        assert can_claim(lower_contraction(guarded(PAIRS[0], "float32", parallel), "f")) is claims
        form = replace(guarded(PAIRS[0], "float32", parallel), guarded=False)
        assert can_claim(lower_contraction(form, "f"))


@pytest.mark.parametrize(
    ("machine", "pair", "dtype", "initial", "wanted"),
    [
        ("sapphirerapids", ("min", "add"), "float32", Initial.ZERO, True),
        ("sapphirerapids", ("max", "min"), "float64", Initial.ZERO, True),
        ("sapphirerapids", ("min", "add"), "float32", Initial.OUT, False),
        ("sapphirerapids", ("min", "add"), "int32", Initial.ZERO, False),
        ("sapphirerapids", ("add", "mul"), "float32", Initial.ZERO, False),
        ("zen3", ("min", "add"), "float32", Initial.ZERO, False),
        ("neoverse-n1", ("min", "add"), "float32", Initial.ZERO, False),
    ],
)
def test_who_looks_for_nan(
    machine: str, pair: tuple[str, str], dtype: str, initial: Initial, wanted: bool
) -> None:
    """Machines whose exact minimum takes many instructions, where sums begin with the identity."""
    n = 256
    instance = Instance((), (Dim(n, n, 0, n),), (Dim(n, 0, 1, 1),), (Dim(n, 1, n, 0),))
    algebra = Algebra(*pair, 0, *[DTYPES[dtype]] * 4, initial, False, True)
    assert choose(instance, algebra, load_machine(machine), 1).form.guarded == wanted
    assert not choose(
        instance, replace(algebra, scaled=True), load_machine(machine), 1
    ).form.guarded
