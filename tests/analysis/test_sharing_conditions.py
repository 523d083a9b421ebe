"""Theorems 1 and 2 and Remark 2 as tests on matrices; they agree with the exact decision."""

from dataclasses import replace
from itertools import product

import islpy as isl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.analysis.sharing import find_sharing
from loopwright.analysis.sharing_conditions import (
    Answer,
    Verdict,
    block_accesses,
    has_one_thread,
    is_private,
    kernel_basis,
    rank,
    satisfies_rank_condition,
    shared_axes,
)
from loopwright.analysis.thread_mapping import LoopTile, tiled_mapping
from loopwright.ir.islkit import holds
from loopwright.ir.program import Program
from programs import Do, For, floyd_warshall, nest, program
from thread_oracle import threads_by_element, uses

YES, NO, UNKNOWN = Answer.YES, Answer.NO, Answer.UNKNOWN

IJ, IK, KJ = ((0, 1, 0), (0, 0, 1)), ((0, 1, 0), (1, 0, 0)), ((1, 0, 0), (0, 0, 1))
SKEWED = ((-1, 1, 0), (-1, 0, 1))
UNITS = ((1, 0, 0), (0, 1, 0), (0, 0, 1))


@pytest.mark.parametrize(
    ("matrix", "threads", "expected"),
    [
        (IJ, UNITS[1:], True),  # example 1: no row e_k
        (IJ, UNITS[1:2], True),
        (IJ, UNITS[2:], True),
        (IJ, UNITS[:1], False),
        (IK, UNITS[1:], False),
        (IK, UNITS[1:2], True),
        (KJ, UNITS[1:], False),
        (KJ, UNITS[2:], True),
        *((SKEWED, (row,), False) for row in UNITS),  # example 2
        ((), UNITS[:1], False),  # a scalar
        ((), (), True),
        (((2, 0), (0, 3)), ((1, 0), (0, 1)), True),
        (((8, 1),), ((1, 0),), False),
    ],
)
def test_condition_2(matrix: tuple, threads: tuple, expected: bool) -> None:
    assert satisfies_rank_condition(matrix, threads) is expected


small = st.integers(-3, 3)
matrices = st.integers(1, 4).flatmap(
    lambda columns: st.lists(st.tuples(*[small] * columns), min_size=1, max_size=4)
)


@given(matrices)
def test_kernel_and_rank_add_up(matrix: list[tuple[int, ...]]) -> None:
    columns = len(matrix[0])
    basis = kernel_basis(matrix, columns)
    assert rank(matrix) + len(basis) == columns
    assert rank(basis) == len(basis)
    assert all(
        sum(a * b for a, b in zip(row, u, strict=True)) == 0 for row in matrix for u in basis
    )


def verdicts(known: Program, tiles: list[LoopTile], where: str = "") -> list[Verdict]:
    chosen = isl.Set(where) if where else None
    accesses = block_accesses(known, tiled_mapping(known, tiles), chosen)
    return [is_private(access, accesses) for access in accesses]


def test_verdicts_name_their_rule() -> None:
    tiles = [LoopTile("k", 8), LoopTile("i", 8, 2, "y"), LoopTile("j", 8, 2, "x")]
    interior = "[i_b, j_b, k_b] -> { : i_b != k_b and j_b != k_b }"
    assert verdicts(floyd_warshall(), tiles, interior) == [
        Verdict(YES, "Theorem 2"),
        Verdict(YES, "Theorem 2"),
        Verdict(NO, "Theorem 1"),
        Verdict(NO, "Theorem 1"),
    ]
    assert verdicts(floyd_warshall(), tiles)[0] == Verdict(
        UNKNOWN, "another access of 'D' may interfere"
    )


def test_ranks_that_differ_leave_small_blocks_open() -> None:
    """v[8 i + j]: the basis vector (-1, 8) of the kernel leaves a block with 8 values of j."""
    arrays = {"v": "inout float64 [9 * n]"}
    tiles = [LoopTile("i", 16, 2, "x")]
    for width, expected in (
        (8, Verdict(UNKNOWN, "the ranks differ")),
        (9, Verdict(NO, "Theorem 1")),
    ):
        known = program("v", arrays, nest((("i", "n"), ("j", width)), Do("v[8 * i + j]", "0")))
        assert verdicts(known, tiles) == [expected]


def test_divisions_are_left_to_the_exact_test() -> None:
    arrays = {"v": "inout float64 [n]"}
    known = program("v", arrays, For("i", 0, "n", Do("v[i // 2]", "0")))
    expected = Verdict(UNKNOWN, "subscripts or threads are piecewise")
    assert verdicts(known, [LoopTile("i", 16, 2, "x")]) == [expected]


def test_threads_in_pieces_are_left_to_the_exact_test() -> None:
    """One row of each pair in thread 0, the others in threads of their own: a[j] is shared."""
    arrays = {"a": "inout float64 [n]"}
    known = program("pieces", arrays, nest((("i", "n"), ("j", "n")), Do("a[j]", "a[j] + 1")))
    whole = tiled_mapping(known, [LoopTile("i", 8, 1, "x")])
    pieces = isl.UnionMap("{ S0[i, j] -> [0] : j < 2; S0[i, j] -> [i mod 8] : j >= 2 }")
    mapping = replace(whole, threads=pieces)
    accesses = block_accesses(known, mapping)
    expected = Verdict(UNKNOWN, "subscripts or threads are piecewise")
    assert is_private(accesses[0], accesses) == expected
    first, _ = find_sharing(known, mapping)
    assert (first.axes, first.rule) == (("x",), "exact")
    elements = isl.Set("[n, i_b] -> { a[j] : 2 <= j < n and 0 <= 8 i_b <= n - 2 }")
    assert first.shared.is_equal(elements)


def test_equal_subscripts_of_statements_with_other_threads() -> None:
    """Two statements with the same F and f, whose threads are other functions of the loops."""
    arrays = {"v": "inout float64 [n]"}
    body = For("i", 0, "n", Do("v[i]", "0")), For("j", 0, "n", Do("v[j]", "v[j] + 1"))
    known = program("v", arrays, *body)
    first = tiled_mapping(known, [LoopTile("i", 8, 2, "x")], statements=["S0"])
    second = tiled_mapping(known, [LoopTile("j", 8, 4, "x")], statements=["S1"])
    mixed = [*block_accesses(known, first), *block_accesses(known, second)]
    # Taken as one block: the conditions must not call it private.
    assert is_private(mixed[0], mixed).answer is UNKNOWN
    same = tiled_mapping(known, [LoopTile("j", 8, 2, "x")], statements=["S1"])
    alike = [*block_accesses(known, first), *block_accesses(known, same)]
    assert is_private(alike[0], alike).answer is YES


# -- random programs and mappings -----------------------------------------------------------------


@st.composite
def subscripts(draw: st.DrawFn, loops: str) -> str:
    terms = [f"{draw(st.integers(-1, 2))} * {loop}" for loop in loops]
    text = f"{' + '.join(terms)} + {draw(st.integers(-1, 1))}"
    return draw(st.sampled_from([text, text, text, f"({text}) // 2"]))


@st.composite
def elements(draw: st.DrawFn, loops: str) -> str:
    if draw(st.booleans()):  # plain subscripts, of which many accesses are private
        return f"A[{draw(st.sampled_from(loops))}, {draw(st.sampled_from(loops))}]"
    return f"A[{draw(subscripts(loops))}, {draw(subscripts(loops))}]"


@st.composite
def programs(draw: st.DrawFn) -> Program:
    loops = draw(st.sampled_from(["ij", "kij"]))
    body = [
        Do(draw(elements(loops)), f"{draw(elements(loops))} + B[{draw(subscripts(loops))}]")
        for _ in range(draw(st.integers(1, 2)))
    ]
    stops = [(loop, draw(st.sampled_from(["n", "n", 3, 1]))) for loop in loops[:-1]]
    stops.append((loops[-1], draw(st.sampled_from(["n", "n", f"{loops[0]} + 1"]))))
    arrays = {"A": "inout float64 [n, n]", "B": "in float64 [n]"}
    return program("drawn", arrays, nest(stops, *body), known="n <= 5")  # all sizes are listed


@st.composite
def tilings(draw: st.DrawFn, known: Program) -> list[LoopTile]:
    loops = known.statements[0].iterators
    axes = dict(zip(draw(st.permutations(loops)), draw(st.sampled_from(["x", "xy", "yx"])),
                    strict=False))  # fmt: skip
    found = []
    for loop in loops:
        block = draw(st.sampled_from([None, 2, 3, 4]))
        thread = draw(st.integers(1, 3)) if loop in axes else None
        found.append(LoopTile(loop, block, thread, axes.get(loop, "")))
    return found


@st.composite
def cases(draw: st.DrawFn) -> tuple[Program, list[LoopTile]]:
    known = draw(programs())
    return known, draw(tilings(known))


@given(cases())
def test_conditions_agree_with_the_exact_decision_and_that_with_an_enumeration(
    case: tuple[Program, list[LoopTile]],
) -> None:
    known, tiles = case
    mapping = tiled_mapping(known, tiles)
    found = find_sharing(known, mapping, exact_only=True)
    accesses = block_accesses(known, mapping)
    for sharing, access in zip(found, accesses, strict=True):
        verdict, alone = is_private(access, accesses), has_one_thread(access)
        assert verdict.answer is UNKNOWN or (verdict.answer is YES) == sharing.is_private
        assert alone.answer is UNKNOWN or (alone.answer is YES) == (not sharing.alone)
        assert verdict.answer is not YES or alone.answer is YES
        axes = shared_axes(access, mapping.axes)
        assert axes is None or set(sharing.alone) <= set(axes)
    seen: dict[int, set[str]] = {at: set() for at in range(len(found))}
    for n in (1, 2, 3, 4, 5):
        listed = uses(known, tiles, {"n": n})
        threads = threads_by_element(listed)
        for at, sharing in enumerate(found):
            guard = sharing.guard
            own = [
                use for use in listed
                if use.statement == sharing.access.statement.name
                and use.access == sharing.access.access
            ]  # fmt: skip
            by_block: dict[tuple[int, ...], set[str]] = {}
            for use in own:
                axes = by_block.setdefault(use.block, set())
                for one, two in product(threads[use.block, use.element], repeat=2):
                    pairs = zip(mapping.axes, one, two, strict=True)
                    axes |= {axis for axis, a, b in pairs if a != b}
            for block, axes in by_block.items():
                place = dict(zip(mapping.coordinates, block, strict=True))
                assert holds(guard, {"n": n, **place}) == (not axes)
                seen[at] |= axes
    assert [set(sharing.axes) for sharing in found] == list(seen.values())
