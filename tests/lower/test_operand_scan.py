"""Cheaper operators where the data allow them: the same bits, whatever the data are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from backends.compiled import compile_nest
from drawn import combined
from loopwright.ir.check import check_nest
from loopwright.ir.contraction_shape import ContractionShape, Dim
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.interpret import Memory, interpret_nest
from loopwright.ir.kernel_variant import (
    Algebra,
    Algorithm,
    Broadcast,
    ContractionKernel,
    Initial,
    Packing,
)
from loopwright.ir.loops import Space
from loopwright.kernels import thread_pool
from loopwright.lower.contraction_nests.contraction_kernel import lower_contraction
from loopwright.machines.load import load_machine
from loopwright.planner.contraction_plans.analytical import choose
from lower.contractions import (
    Layout,
    Made,
    Problem,
    expected,
    fresh,
    kernel_of,
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


def guarded(pair: tuple[str, str], dtype: str, parallel: str) -> ContractionKernel:
    return kernel_of(
        Algorithm.PRODUCT,
        ring(*pair, dtype),
        (3, 2, 4),
        left_packing=Packing.ALONG_P,
        right_packing=Packing.ALONG_TILE,
        unroll=2,
        parallel=parallel,
        guarded=True,
    )


def poisoned(kernel: ContractionKernel, poison: tuple[list[float], list[float]], seed: int) -> Made:
    """Operands of which the last steps of some rows and columns are replaced."""
    made = make(PROBLEM, kernel, seed)
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


@pytest.mark.drawn(4)
@pytest.mark.parametrize(("pair", "parallel"), combined(PAIRS, ["none", "i"], one_in=2))
def test_every_number_comes_out_as_by_exact_operators(pair: tuple[str, str], parallel: str) -> None:
    kernel = guarded(pair, "float32" if pair[0] == "min" else "float64", parallel)
    check_guarded(
        kernel, [poisoned(kernel, poison, seed) for seed, poison in enumerate(POISONS.values())]
    )


def check_guarded(kernel: ContractionKernel, operands: list[Made]) -> None:
    """The nest is valid, and its results are those of the exact operators."""
    nest = lower_contraction(kernel, "f")
    check_nest(nest)
    code = compile_nest(nest)
    threads = 1 if kernel.variant.parallel == "none" else 2
    for seed, made in enumerate(operands):
        values, table = launch(kernel, made, PROBLEM)
        values = {name: values[name] for name in nest.scalars}
        right = expected(kernel, made)
        arrays = fresh(made)
        bound = code.bind(values, table, threads, thread_pool)
        bound(*(arrays[b.name] for b in nest.buffers if b.space is Space.GLOBAL))
        assert_equal_bits(plain(arrays["out"], right), right)
        if seed % 4 == 2:
            arrays = fresh(made)
            memory = {name: Memory.of(a) for name, a in arrays.items()}
            interpret_nest(nest, {**memory, "table": table}, values, threads=threads)
            assert_equal_bits(plain(arrays["out"], right), right)


SUMS = [("min", "add_top"), ("max", "add_bottom")]
INTEGERS = ["int8", "int16", "int32", "int64"]


def integers(kernel: ContractionKernel, case: str, seed: int) -> Made:
    """Operands of one sign with the end that absorbs, and what a case puts beside them."""
    made = make(PROBLEM, kernel, seed)
    random = np.random.default_rng(seed)
    sign, limits = (1 if kernel.algebra.times == "add_top" else -1), np.iinfo(kernel.left.name)
    end = limits.max if sign > 0 else limits.min
    for name in ("left", "right"):
        array = made.arrays[name]
        array[...] = sign * abs(array)
        array[random.random(array.shape) < 0.2] = end
        if case == "large":
            array[random.random(array.shape) < 0.5] = end - sign
        elif case == "both signs everywhere":
            array[random.random(array.shape) < 0.5] *= -1
        elif case in ("both", name):
            array.reshape(-1)[-1] = -sign
        elif case == "other end":
            array.reshape(-1)[0] = limits.min if sign > 0 else limits.max
        made.plain[name] = array.reshape(made.plain[name].shape)
    return made


@pytest.mark.drawn(5)
@pytest.mark.parametrize(
    ("dtype", "pair", "team"),
    combined(INTEGERS, SUMS, [("none", Broadcast.LOAD), ("i", Broadcast.REPLICATED)], one_in=3),
)
def test_every_integer_comes_out_as_by_absorbing_sums(
    dtype: str, pair: tuple[str, str], team: tuple[str, Broadcast]
) -> None:
    """The end of the type meets numbers of the other sign nowhere, in the last tile, everywhere."""
    parallel, broadcast = team
    kernel = guarded(pair, dtype, parallel)
    kernel = replace(kernel, variant=replace(kernel.variant, broadcast=broadcast))
    cases = ("one sign", "large", "left", "right", "both", "both signs everywhere", "other end")
    check_guarded(kernel, [integers(kernel, case, seed) for seed, case in enumerate(cases)])


@pytest.mark.parametrize(
    ("machine", "pair", "dtype", "initial", "wanted"),
    [
        ("sapphirerapids", ("min", "add"), "float32", Initial.ZERO, True),
        ("sapphirerapids", ("max", "min"), "float64", Initial.ZERO, True),
        ("sapphirerapids", ("min", "add"), "float32", Initial.OUT, True),
        ("sapphirerapids", ("min", "add"), "float32", Initial.SCALED, False),
        ("sapphirerapids", ("min", "add"), "int32", Initial.ZERO, False),
        ("sapphirerapids", ("add", "mul"), "float32", Initial.ZERO, False),
        ("zen3", ("min", "add"), "float32", Initial.ZERO, False),
        ("neoverse-n1", ("min", "add"), "float32", Initial.ZERO, False),
        ("neoverse-n1", ("min", "add_top"), "int32", Initial.ZERO, True),
        ("neoverse-n1", ("max", "add_bottom"), "int8", Initial.OUT, True),
        ("zen3", ("min", "add_top"), "int64", Initial.ZERO, True),
        ("neoverse-n1", ("min", "add_top"), "uint32", Initial.ZERO, False),
        ("neoverse-n1", ("max", "mul_sat"), "int32", Initial.ZERO, False),
    ],
)
def test_who_scans_its_operands(
    machine: str, pair: tuple[str, str], dtype: str, initial: Initial, wanted: bool
) -> None:
    """Signed sums with an end that absorbs; and on machines whose exact minimum takes many
    instructions, minima that begin with the identity or with out as it is.
    """
    n = 256
    instance = ContractionShape((), (Dim(n, n, 0, n),), (Dim(n, 0, 1, 1),), (Dim(n, 1, n, 0),))
    algebra = Algebra(*pair, 0, *[DTYPES[dtype]] * 4, initial, False)
    assert (
        choose(instance, algebra, load_machine(machine), 1, reassoc=True).kernel.variant.guarded
        == wanted
    )
    assert not choose(
        instance, replace(algebra, scaled=True), load_machine(machine), 1, reassoc=True
    ).kernel.variant.guarded
