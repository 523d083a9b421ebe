"""Cores inside larger nests: every shape, packing and number of blocks against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.compiled import compile_nest, run_kernel
from contract_steps import contract_loops
from loopwright.ir.interpret import element_strides
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Program
from loopwright.lower.buffers import specialise, stride_name
from loopwright.lower.build import names_bound
from loopwright.lower.passes import lower_schedule
from loopwright.transform.plan import apply_plan
from loopwright.validate import check_translation
from oracle import assert_same
from programs import Do, program
from programs import For as Loop

SQUARES = {"A": "in float64 [n, n]", "B": "in float64 [n, n]", "C": "inout float64 [n, n]"}


def nest_of(
    source: Program,
    packing: tuple[str, ...] = ("gather", "gather"),
    *,
    tile: tuple[int, ...] = (2, 2, 2, 2, 4),
    blocks: tuple[int, ...] = (4, 6, 4),
    broadcast: str = "lane",
    shares: int = 1,
    loops: tuple[str, str, str] = ("i", "j", "k"),
) -> LoopNest:
    """A program that is three loops, as one core with tiny tiles and blocks."""
    step = contract_loops(
        *loops, tile=tile, blocks=blocks, packing=packing, broadcast=broadcast, shares=shares
    )
    return lower_schedule(apply_plan(source, [step]))


def strides_of(arrays: dict[str, np.ndarray]) -> dict[str, int]:
    return {
        stride_name(name, dimension): stride
        for name, data in arrays.items()
        for dimension, stride in enumerate(element_strides(data))
    }


def product(bounds: dict[str, tuple[str, str]], value: str, reassoc: bool = False) -> Program:
    """`C[i, j] = value` in loops i, j, k over the given ranges."""
    (i, j, k) = ((name, *bounds.get(name, ("0", "n"))) for name in "ijk")
    body = Loop(*i, Loop(*j, Loop(*k, Do("C[i, j]", value))))
    arrays = {**SQUARES, "alpha": "in float64 []"}
    return program("product", arrays, body, reassoc=reassoc)


PLAIN = "C[i, j] + A[i, k] * B[k, j]"
SHAPES = {
    "box": {},
    "part": {"i": ("1", "n - 1"), "j": ("2", "n"), "k": ("0", "n - 3")},
    "columns up to the row": {"j": ("0", "i + 1")},
    "columns from the row": {"j": ("i", "n")},
    "columns between rows": {"j": ("i - 3", "i + 4"), "i": ("3", "n - 3")},
    "steps before the row": {"k": ("0", "i")},
    "steps behind the row": {"k": ("i + 1", "n")},
    "steps around the row": {"k": ("i - 2", "i + 3"), "i": ("2", "n - 2")},
    "mirrored steps": {"k": ("0", "n - i")},
}


def test_columns_that_do_not_run() -> None:
    arrays = {**SQUARES, "C": "inout float64 [n, n, 2]"}
    body = Do("C[j, i, 1]", "C[j, i, 1] + A[i, k] * B[k, j]")
    source = program(
        "turned", arrays, Loop("i", 0, "n", Loop("j", 0, "n", Loop("k", 0, "n", body)))
    )
    assert_same(source, nest_of(source), {"n": 7})


@pytest.mark.drawn(2)
@pytest.mark.parametrize("shares", [2, 1])
def test_in_place(shares: int) -> None:
    """Rows of B are read as they were before the loops reached them, also by other threads."""
    arrays = {"A": "in float64 [n, n]", "B": "inout float64 [n, m]"}
    body = Do("B[i, j]", "B[i, j] + A[k, i] * B[k, j]")
    loops = Loop("i", 0, "n", Loop("j", 0, "m", Loop("k", "i + 1", "n", body)))
    source = program("trmm", arrays, loops, params="n m")
    nest = nest_of(source, ("along_tile", "along_tile"), shares=shares)
    sizes = [{"n": n, "m": m} for n, m in ((1, 1), (5, 3), (11, 9), (17, 2))]
    for params in sizes:
        assert_same(source, nest, params, shares)
    # Who reads what another thread may have written is seen whatever the numbers are.
    assert not check_translation(source, nest, sizes, threads=(1, shares))


def test_steps_keep_their_order() -> None:
    """Sums of floats round as the source has them, to the last bit, whatever the blocks."""
    source = product({}, PLAIN)
    nest = nest_of(source, ("along_p", "along_tile"), blocks=(4, 4, 3))
    random = np.random.default_rng(0)
    arrays = {name: random.normal(size=(17, 17)) for name in "ABC"}
    arrays["alpha"] = np.array(1.0)
    # Products that are exact: fused and separate operations round alike, orders do not.
    arrays["A"] = np.round(arrays["A"] * 4)
    arrays["B"] = np.exp2(np.round(arrays["B"] * 20))
    expected = arrays["C"].copy()
    for k in range(17):
        expected = expected + arrays["A"][:, k : k + 1] * arrays["B"][k : k + 1]
    strides = strides_of(arrays)
    kernel = compile_nest(specialise(nest, {name: 1 for name, s in strides.items() if s == 1}))
    run_kernel(kernel, nest, arrays, {"n": 17, **strides})
    np.testing.assert_array_equal(arrays["C"], expected)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("shape", ["box", "columns up to the row", "steps behind the row"])
def test_threads(shape: str) -> None:
    source = product(SHAPES[shape], PLAIN)
    nest = nest_of(source, shares=3)
    for threads in (1, 3):
        assert_same(source, nest, {"n": 9}, threads)


def test_names_of_the_program_stay_its_own() -> None:
    """Loops, parameters and arrays may have the names that a core binds."""
    arrays = {"left": "in float64 [M, M]", "sums": "in float64 [M, M]", "p": "inout float64 [M, M]"}
    body = Do("p[i, j]", "p[i, j] + left[i, k + jc] * sums[k, j]")
    inner = Loop("i", 0, "M", Loop("j", 0, "M", Loop("k", 0, "M - jc", body)))
    source = program("names", arrays, Loop("jc", 0, "M", inner), params="M")
    nest = nest_of(source)
    assert_same(source, nest, {"M": 6})
    bound = names_bound(nest.body)
    assert bound >= {"M_2", "jc", "jc_2", "sums_2", "p_2"}
    assert not {"M", "left", "sums", "p"} & bound


@settings(max_examples=15, deadline=None)
@given(
    rows=st.integers(1, 4),
    vectors=st.integers(1, 2),
    unroll=st.sampled_from([1, 2, 4]),
    blocks=st.tuples(*[st.integers(1, 9)] * 3),
    shape=st.sampled_from(sorted(SHAPES)),
    n=st.integers(0, 9),
)
def test_any_tile_and_blocks(
    rows: int, vectors: int, unroll: int, blocks: tuple[int, ...], shape: str, n: int
) -> None:
    source = product(SHAPES[shape], PLAIN)
    nest = nest_of(source, tile=(rows, vectors, 2, unroll, 0), blocks=blocks, broadcast="broadcast")
    assert_same(source, nest, {"n": n})
