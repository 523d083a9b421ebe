"""Cores inside larger nests: every shape, packing and number of blocks against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.compiled import compile_nest, run_kernel
from contract_steps import contract_loops
from drawn import combined
from loopwright.ir.interpret import element_strides, interpret_program
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Program
from loopwright.lower.buffers import specialise, stride_name
from loopwright.lower.build import names_bound
from loopwright.lower.passes import lower_schedule
from loopwright.transform.plan import apply_plan
from loopwright.validate import check_translation
from oracle import arrays_of, assert_same
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


@pytest.mark.drawn(3)
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape: str) -> None:
    source = product(SHAPES[shape], PLAIN)
    nest = nest_of(source)
    for n in (0, 1, 2, 5, 9):
        assert_same(source, nest, {"n": n})


VALUES = {
    "scaled": ("C[i, j] + alpha * A[i, k] * B[k, j]", ("along_p", "along_tile")),
    "turned round": ("C[i, j] + B[k, j] * A[i, k]", ("along_p", "along_tile")),
    "both turned": ("C[i, j] + A[k, i] * B[j, k]", ("along_tile", "along_p")),
    "by panel": ("C[i, j] + A[k, i] * B[k, j]", ("by_panel", "by_panel")),
    "taken away": ("C[i, j] - A[i, k] * (B[k, j] + alpha)", ("gather", "along_tile")),
    "maximum of sums": ("max(C[i, j], A[i, k] + B[k, j])", ("along_p", "along_tile")),
    "one matrix": ("C[i, j] + A[i, k] * A[j, k]", ("along_p", "along_p")),
    "backwards": ("C[i, j] + A[n - 1 - i, k] * B[n - 1 - k, j]", ("along_p", "along_tile")),
}


@pytest.mark.drawn(4)
@pytest.mark.parametrize(
    ("name", "broadcast"), combined(VALUES, ["lane", "broadcast", "replicated"], one_in=2)
)
def test_values_and_packings(name: str, broadcast: str) -> None:
    value, packing = VALUES[name]
    source = product({}, value)
    nest = nest_of(source, packing, broadcast=broadcast, tile=(3, 2, 2, 4, 8))
    for n in (1, 7):
        assert_same(source, nest, {"n": n})


def test_two_products() -> None:
    source = product({"j": ("0", "i + 1")}, f"{PLAIN} + alpha * B[i, k] * A[k, j]", reassoc=True)
    nest = nest_of(source, ("along_p", "along_tile") * 2)
    for n in (1, 9):
        assert_same(source, nest, {"n": n})


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


@pytest.mark.parametrize("clipped", [False, True])
def test_threads_get_rows_or_columns(clipped: bool) -> None:
    """Which of them the extents tell: 31 rows of 3 columns, 3 rows of 31."""
    arrays = {"A": "in float64 [n, 5]", "B": "in float64 [5, m]", "C": "inout float64 [n, m]"}
    columns = ("j", 0, "min(m, i + 1)" if clipped else "m")
    loops = Loop("i", 0, "n", Loop(*columns, Loop("k", 0, 5, Do("C[i, j]", PLAIN))))
    source = program("product", arrays, loops, params="n m")
    nest = nest_of(source, shares=3)
    for n, m in ((31, 3), (3, 31), (1, 1), (13, 13)):
        assert_same(source, nest, {"n": n, "m": m}, threads=2)


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


def test_loops_around_are_fixed() -> None:
    """Sizes and addresses of a core may depend on the loops around it."""
    arrays = {"A": "in float64 [n, n]", "B": "in float64 [n, n]", "C": "inout float64 [n, n]"}
    body = Do("C[i, j]", "C[i, j] + float64(r) * A[i, k] * B[k + r, j]")
    inner = Loop("j", 0, "n - r", Loop("k", 0, "n - r", body))
    source = program("batch", arrays, Loop("r", 0, "n", Loop("i", "r", "n", inner)))
    nest = nest_of(source, ("along_p", "along_tile"))
    for n in (1, 6):
        assert_same(source, nest, {"n": n})


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


def test_compiled_like_interpreted() -> None:
    source = product(SHAPES["steps before the row"], PLAIN)
    nest = nest_of(source, ("along_p", "along_tile"), tile=(4, 2, 2, 4, 8), blocks=(8, 8, 8))
    params = {"n": 29}
    arrays = arrays_of(source, params)
    strides = strides_of(arrays)
    found = {name: data.copy() for name, data in arrays.items()}
    kernel = compile_nest(specialise(nest, {name: 1 for name, s in strides.items() if s == 1}))
    run_kernel(kernel, nest, found, {**params, **strides})
    interpret_program(source, arrays, params)
    np.testing.assert_array_equal(found["C"], arrays["C"])
