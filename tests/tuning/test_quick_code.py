"""Quick code: equal to NumPy for random trees, in the order of the loops, without spills."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from drawn import HUNTS, in_all
from loopwright import options
from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.expr import Const, Var
from loopwright.ir.program import Access, Array, Role
from loopwright.machines.host import host
from loopwright.machines.load import load_machine
from loopwright.runtime import llvm_engine
from loopwright.tuning.actions import act
from loopwright.tuning.join_loops import joined_nest
from loopwright.tuning.loop_tree import LoopTree, shape_of
from loopwright.tuning.loop_tree_text import parse_tree
from loopwright.tuning.quick_code import can_emit, emit_tree
from loopwright.tuning.quick_kernel import compile_tree, compile_tree_by_pipeline, seconds_of
from loopwright.tuning.quick_plan import MOST_OPERATIONS
from loopwright.tuning.tensor_nests import contraction_tree_of, matmul_tree, nest_of
from tuning.trees import Arrays, drawn_case, wandered

TILES = "split_4 down swap_down down split_16 swap_up swap_up"


def done(tree: LoopTree, words: str) -> LoopTree:
    for word in words.split():
        tree = act(tree, word)
    return tree


def floats(tree: LoopTree, seed: int = 0) -> Arrays:
    """Operands that round."""
    random = np.random.default_rng(seed)
    return {
        a.name: random.normal(size=shape_of(a)).astype(a.dtype.numpy)
        for a in tree.arrays
        if a.role is not Role.LOCAL
    }


@given(seed=st.integers(0, 10**6))
def test_random_trees_run_as_numpy_does(seed: int) -> None:
    random = Random(seed)
    case = drawn_case(random)
    tree = wandered(case.tree, random, random.randint(0, 14))
    arrays = case.arrays(seed)
    wanted = case.result(arrays)
    for compiled in (compile_tree, compile_tree_by_pipeline):
        arrays["out"][...] = 77
        compiled(tree)(arrays)
        np.testing.assert_array_equal(arrays["out"], wanted)


@given(seed=st.integers(0, 10**6))
def test_without_reassociation_sums_keep_every_bit(seed: int) -> None:
    """Products and their sums are rounded once, and sums come in the order of the source."""
    random = Random(seed)
    start = drawn_case(random, reassoc=False, kinds="mcbvs").tree
    tree = wandered(start, random, random.randint(1, 14))
    assume(can_emit(tree))
    first = floats(start, seed)
    second = {name: array.copy() for name, array in first.items()}
    compile_tree(start)(first)
    compile_tree(tree)(second)
    np.testing.assert_array_equal(second["out"], first["out"])


@pytest.mark.parametrize("name", ["float16", "float64", "int8", "uint16", "int64"])
@pytest.mark.parametrize("plus", ["add", "max"])
def test_other_types(name: str, plus: str) -> None:
    sizes = {"i": 9, "j": 13, "k": 7}
    tree = contraction_tree_of("ik,kj->ij", sizes, DTYPES[name], plus=plus)
    tree = done(tree, "split_4 down swap_down down split_8")
    random = np.random.default_rng(1)
    given_ = {a.name: random.integers(0, 3, shape_of(a)).astype(name) for a in tree.arrays}
    compile_tree(tree)(given_)
    products = given_["A"].astype("int64")[:, :, None] * given_["B"].astype("int64")[None]
    wanted = products.sum(axis=1) if plus == "add" else products.max(axis=1)
    np.testing.assert_array_equal(given_["out"], wanted.astype(name))


def test_the_block_stays_in_registers() -> None:
    """A tile of 4 x 16 under k: one loop with 32 fused operations, nothing goes to the stack."""
    text = llvm_engine.assembly(emit_tree(done(matmul_tree(64, 64, 64), TILES), host()).text)
    if host().isa != "aarch64":
        pytest.skip("reads assembly of aarch64")
    assert not [line for line in text.splitlines() if "[sp" in line and "q" in line]
    inner = [part for part in text.split("b.lo") if "fmla" in part]
    assert len(inner) == 1
    assert inner[0].count("fmla") == 32
    assert inner[0].count("str\tq") + inner[0].count("stp\tq") == 0


@pytest.mark.parametrize("seed", range(6))
def test_random_products_do_not_spill(seed: int) -> None:
    random = Random(seed)
    tree = wandered(matmul_tree(96, 80, 64), random, 10)
    if not can_emit(tree):
        pytest.skip("parallel")
    text = llvm_engine.assembly(emit_tree(tree, load_machine("neoverse-n1")).text)
    spilled = [line for line in text.splitlines() if "q" in line and "[sp" in line]
    assert len(spilled) <= 16, "d8 to d15 are saved once, at the start and the end"


def test_what_has_no_quick_code_is_compiled_all_the_same() -> None:
    tree = act(matmul_tree(16, 16, 16), "parallel")
    assert not can_emit(tree)
    arrays = floats(tree)
    compile_tree(tree, threads=2)(arrays)
    np.testing.assert_allclose(arrays["out"], arrays["A"] @ arrays["B"], rtol=1e-4, atol=1e-5)


def test_writes_that_meet_are_left_to_the_pipeline() -> None:
    """`out[i + j] += A[i] * B[j]`: different points of i and j write one element."""
    f64 = DTYPES["float64"]
    sizes = {"i": 5, "j": 6}
    start = contraction_tree_of("i,j->ij", sizes, f64)
    a, b = start.arrays[:2]
    out = Array("out", f64, (Const(10),), Role.OUT)
    write = Access("out", (Var("i") + Var("j"),), f64)
    nest = nest_of(list(sizes.items()), write, start.nests[0].statement.value, "add")
    tree = LoopTree("polynomials", (a, b, out), (nest,), reassoc=True)
    assert not can_emit(tree)
    arrays = floats(tree)
    compile_tree(tree)(arrays)
    np.testing.assert_allclose(arrays["out"], np.convolve(arrays["A"], arrays["B"]))


def test_arrays_are_checked() -> None:
    kernel = compile_tree(matmul_tree(4, 5, 6))
    arrays = floats(kernel.tree)
    with pytest.raises(UsageError, match="array B must be contiguous float32 of shape"):
        kernel({**arrays, "B": arrays["B"].T})
    with pytest.raises(UsageError, match="the tree takes the arrays A, B, out"):
        kernel({"A": arrays["A"]})


PACKED_INSIDE = """\
contraction, reassociation allowed
in A: float32[3, 7]
in B: float32[7, 2]
out out: float32[3, 2]

  dims i 3, k 7, j 2
  accumulators 2
  for k in 7
>   for i in 1, tail 1 (by 2), vector, pack a
      for i in 2
        for j in 2
          out[i, j] add= A[i, k] * B[k, j]
"""


def test_loops_around_a_packed_operand_are_not_unrolled_over_it() -> None:
    tree = parse_tree(PACKED_INSIDE)
    arrays = floats(tree)
    compile_tree(tree)(arrays)
    np.testing.assert_allclose(arrays["out"], arrays["A"] @ arrays["B"], rtol=1e-5, atol=1e-6)


def test_nothing_is_written_to_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(options.variable("cache_dir"), str(tmp_path))
    options.reload()
    tree = done(matmul_tree(24, 24, 24), "split_3")
    call = compile_tree(tree).call_on(floats(tree))
    assert seconds_of(call) > 0
    assert not list(tmp_path.rglob("*"))
    monkeypatch.undo()
    options.reload()


def test_memory_of_candidates_is_given_back() -> None:
    """80 candidates in the usual run, 2,000 in the hunt; growth from the middle on."""
    random = Random(0)
    count = 2000 if HUNTS else 160 if in_all() else 80
    marks = []
    for number in range(count):
        compile_tree(wandered(matmul_tree(16, 16, 16), random, 2))
        if number in (count // 2, count - 1):
            with open("/proc/self/statm", encoding="ascii") as file:
                marks.append(int(file.read().split()[1]))
    assert marks[1] < 1.15 * marks[0]


JOINED = """\
contraction, reassociation allowed
in A: float32[23, 7]
in B: float32[7, 18]
out out: float32[23, 18]

  dims m 23, k 7, n 18
> for m in 2, tail 3 (by 10)
    for m in 2 (by 5)
      for m in 5
        for k in 7
          for n in 6 (by 3)
            for n in 3
              out[m, n] add= A[m, k] * B[k, n]
"""


def test_neighbouring_loops_of_a_dimension_are_joined() -> None:
    nest = joined_nest(parse_tree(JOINED).nests[0], 4, MOST_OPERATIONS)
    assert [(loop.dim, loop.size, loop.tail) for loop in nest.loops] == [
        ("m", 23, 0),
        ("k", 7, 0),
        ("n", 18, 0),
    ]


def test_loops_of_a_register_tile_stay_apart() -> None:
    """The inner loop of m is straight-line code, which its rows of B are shared in."""
    tree = parse_tree(JOINED.replace("for m in 2 (by 5)", "for m in 2 (by 5), pack a"))
    assert [loop.size for loop in joined_nest(tree.nests[0], 4, MOST_OPERATIONS).loops] == [
        2,
        10,
        7,
        18,
    ]
    small = done(matmul_tree(64, 16, 8), "down swap_up down split_4")  # k, m, m, n
    sizes = [(x.dim, x.size) for x in joined_nest(small.nests[0], 4, MOST_OPERATIONS).loops]
    assert sizes == [("k", 8), ("m", 16), ("m", 4), ("n", 16)]


@pytest.mark.parametrize("words", ["swap_down swap_down", "down swap_down"])
def test_a_loop_that_strides_gets_lanes_from_one_outside(words: str) -> None:
    """`k, n, m` and `m, n, k`: lanes are elements of n, which all accesses meet one by one."""
    tree = done(matmul_tree(20, 24, 12, writes=False), words)
    assert tree.nests[0].loops[-1].dim != "n"
    text = emit_tree(tree, load_machine("neoverse-n1")).text
    assert "<4 x float>" in text
    assert not [line for line in text.splitlines() if "insertelement" in line and "i64 1" in line]
    arrays = floats(tree)
    compile_tree(tree)(arrays)
    np.testing.assert_allclose(arrays["out"], arrays["A"] @ arrays["B"], rtol=1e-4, atol=1e-5)


def test_contiguous_copies_are_one_call() -> None:
    tree = matmul_tree(12, 16, 8)
    text = emit_tree(done(tree, "pack_b"), host()).text
    assert "i64 768, i1 false" in text  # sums to out
    assert "i64 512, i1 false" in text  # B to its buffer
