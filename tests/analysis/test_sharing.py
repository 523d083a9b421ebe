"""Private and shared elements: the examples of the paper, and where the exact test goes further.

N. A. Likhoded, M. A. Paliashchuk, Conditions for privatizing the elements of arrays by computing
threads (2018). The accesses of D[i, j] = min(D[i, j], D[i, k] + D[k, j]) have the numbers 1 to 4.
"""

import islpy as isl
import pytest

from loopwright.analysis.sharing import Sharing, find_sharing, shared_element
from loopwright.analysis.sharing_conditions import satisfies_rank_condition
from loopwright.analysis.thread_mapping import LoopTile, ThreadMapping, tiled_mapping
from loopwright.ir.program import Program
from programs import (
    Do,
    For,
    floyd_warshall,
    jacobi,
    matmul,
    matmul_in_nest,
    nest,
    program,
    triangular_solve,
)
from thread_oracle import threads_by_element, uses

INTERIOR = "i_b != k_b and j_b != k_b"
ROW_PANEL = "i_b = k_b and j_b != k_b"
COLUMN_PANEL = "i_b != k_b and j_b = k_b"
DIAGONAL = "i_b = k_b and j_b = k_b"

P, R, C, ALL = Sharing.PRIVATE, Sharing.ROW, Sharing.COLUMN, Sharing.ALL


def blocks_where(condition: str) -> isl.Set:
    return isl.Set(f"[k_b, i_b, j_b] -> {{ : {condition} }}")


def shortest_paths(
    axes: dict[str, str], sizes: tuple[int, int, int] = (8, 8, 8), thread: int = 2
) -> ThreadMapping:
    """Floyd-Warshall in blocks of some sizes of k, i, j; threads divide the loops in `axes`."""
    tiles = [
        LoopTile(loop, size, thread if loop in axes else None, axes.get(loop, ""))
        for loop, size in zip("kij", sizes, strict=True)
    ]
    return tiled_mapping(floyd_warshall(), tiles)


def classes(known: Program, mapping: ThreadMapping, where: isl.Set | None = None) -> list[Sharing]:
    """The class of every access; the conditions and the exact test must give the same."""
    quick = [found.kind for found in find_sharing(known, mapping, where)]
    exact = [found.kind for found in find_sharing(known, mapping, where, exact_only=True)]
    assert quick == exact
    return quick


# -- example 1 ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("axes", "where", "expected"),
    [
        # Threads over i and j: j along x.
        ({"i": "y", "j": "x"}, INTERIOR, [P, P, R, C]),
        ({"i": "y", "j": "x"}, ROW_PANEL, [C, C, R, C]),
        ({"i": "y", "j": "x"}, COLUMN_PANEL, [R, R, R, C]),
        ({"i": "y", "j": "x"}, DIAGONAL, [ALL, ALL, ALL, ALL]),
        ({"i": "x"}, INTERIOR, [P, P, P, R]),
        ({"i": "x"}, ROW_PANEL, [R, R, P, R]),
        ({"i": "x"}, COLUMN_PANEL, [P, P, P, R]),
        ({"i": "x"}, DIAGONAL, [R, R, R, R]),
        ({"j": "x"}, INTERIOR, [P, P, R, P]),
        # The accesses 1, 2 and 4 of a row panel have different matrices and overlap: Theorem 2
        # cannot tell, yet all of D[i, j] and D[k, j] stays in the registers of one thread.
        ({"j": "x"}, ROW_PANEL, [P, P, R, P]),
        ({"j": "x"}, COLUMN_PANEL, [R, R, R, P]),
        ({"j": "x"}, DIAGONAL, [R, R, R, R]),
        # With a row e_k in T_s condition (2) fails for the accesses 1 and 2.
        ({"k": "x"}, INTERIOR, [R, R, P, P]),
        ({"k": "y", "j": "x"}, INTERIOR, [C, C, R, P]),
    ],
)
def test_shortest_paths(axes: dict[str, str], where: str, expected: list[Sharing]) -> None:
    found = classes(floyd_warshall(), shortest_paths(axes), blocks_where(where))
    assert found == expected


def test_interior_blocks_are_private_by_theorem_2() -> None:
    mapping = shortest_paths({"i": "y", "j": "x"})
    first, second, *_ = find_sharing(floyd_warshall(), mapping, blocks_where(INTERIOR))
    assert (first.rule, second.rule) == ("Theorem 2", "Theorem 2")


def test_whole_tiles_of_panels_and_the_diagonal_are_shared() -> None:
    mapping = shortest_paths({"i": "y", "j": "x"})
    for where in (ROW_PANEL, COLUMN_PANEL, DIAGONAL):
        full = blocks_where(where).intersect(isl.Set("[n, i_b, j_b, k_b] -> { : n = 80 and"
                                                     " 0 <= i_b, j_b, k_b < 10 }"))  # fmt: skip
        first = find_sharing(floyd_warshall(), mapping, full)[0]
        assert first.shared.is_equal(first.access.elements.range())
        assert first.guard.is_empty()


@pytest.mark.parametrize("axes", [{"i": "y", "j": "x"}, {"i": "x"}, {"j": "x"}])
def test_guard_of_blocks_that_are_full(axes: dict[str, str]) -> None:
    """Where n is a multiple of the block size, the guard tells the kinds of blocks apart."""
    known = floyd_warshall()
    full = isl.Set("[n] -> { : n mod 8 = 0 }")
    first = find_sharing(known, shortest_paths(axes), full)[0]
    private = {
        ("i", "j"): INTERIOR,
        ("i",): f"({INTERIOR}) or ({COLUMN_PANEL})",
        ("j",): f"({INTERIOR}) or ({ROW_PANEL})",
    }[tuple(axes)]
    existing = first.access.elements.domain().params()
    assert first.guard.is_equal(existing.intersect(blocks_where(private)))
    assert not first.is_private


@pytest.mark.drawn(2)
@pytest.mark.parametrize("sizes", [(4, 8, 8), (16, 8, 8), (8, 4, 8), (8, 8, 4), (3, 5, 7)])
def test_equal_block_sizes_are_essential(sizes: tuple[int, int, int]) -> None:
    """With unequal sizes, block coordinates that differ do not keep the images apart."""
    known, mapping = floyd_warshall(), shortest_paths({"i": "y", "j": "x"}, sizes)
    assert classes(known, mapping, blocks_where(INTERIOR))[0] is not Sharing.PRIVATE
    r_k, r_i, r_j = sizes
    apart = " and ".join(
        f"({r} * {b} + {r} <= {r_k} * k_b or {r_k} * k_b + {r_k} <= {r} * {b})"
        for r, b in ((r_i, "i_b"), (r_j, "j_b"))
    )
    assert classes(known, mapping, blocks_where(apart)) == [P, P, R, C]


def test_example_1_as_printed_has_loops_from_one() -> None:
    arrays = {"a": "inout float64 [n + 1, n + 1]"}
    update = Do("a[i, j]", "min(a[i, j], a[i, k] + a[k, j])")
    body = For("k", 1, "n + 1", For("i", 1, "n + 1", For("j", 1, "n + 1", update)))
    known = program("shortest_paths", arrays, body)
    tiles = [
        LoopTile("k", 8, origin=1),
        LoopTile("i", 8, 2, "y", origin=1),
        LoopTile("j", 8, 2, "x", origin=1),
    ]
    mapping = tiled_mapping(known, tiles)
    assert classes(known, mapping, blocks_where(INTERIOR)) == [P, P, R, C]
    assert classes(known, mapping, blocks_where(DIAGONAL)) == [ALL] * 4


# -- example 2 ------------------------------------------------------------------------------------


def relaxation() -> Program:
    """Successive over-relaxation, skewed so that it can be tiled."""
    arrays = {"y": "inout float64 [n + 1, m + 1]"}
    value = " + ".join(
        f"y[i - t{di}, j - t{dj}]"
        for di, dj in ((" - 1", ""), ("", " - 1"), ("", ""), (" + 1", ""), ("", " + 1"))
    )
    inner = For("i", "t + 1", "t + n", For("j", "t + 1", "t + m", Do("y[i - t, j - t]", value)))
    return program("sor", arrays, For("t", 1, "q + 1", inner), params="n m q")


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    "axes",
    [{"t": "x"}, {"i": "x"}, {"j": "x"}, {"i": "y", "j": "x"}, {"t": "z", "i": "y", "j": "x"}],
)
def test_relaxation_is_never_private(axes: dict[str, str]) -> None:
    known = relaxation()
    tiles = [LoopTile(x, 8, 2 if x in axes else None, axes.get(x, "")) for x in "tij"]
    for found in find_sharing(known, tiled_mapping(known, tiles)):
        assert found.alone, "rank F is 2, with any row of T_s it is 3"
        assert not found.is_private


# -- the remarks, and what the theorems leave open ------------------------------------------------


def test_remark_2() -> None:
    """a(i, j) = a(i, j - 1) + ... with threads over i; with threads over j nothing is private."""
    arrays = {"a": "inout float64 [n, n]", "b": "in float64 [n]"}
    loops = For(
        "k", 0, "n", For("i", 0, "n", For("j", 1, "n", Do("a[i, j]", "a[i, j - 1] + b[k]")))
    )
    known = program("rows", arrays, loops)
    tiles = [LoopTile("k", 4), LoopTile("i", 8, 2, "x"), LoopTile("j", 8)]
    first, second, third = find_sharing(known, tiled_mapping(known, tiles))
    assert (first.kind, first.rule) == (P, "Remark 2")
    assert (second.kind, second.rule) == (P, "Remark 2")
    assert third.kind is R
    tiles = [LoopTile("k", 4), LoopTile("i", 8), LoopTile("j", 8, 2, "x")]
    found = find_sharing(known, tiled_mapping(known, tiles))
    assert [x.kind for x in found] == [R, R, R]
    assert [x.kind_alone for x in found] == [P, P, R]


def one_statement(target: str, loops: dict[str, str | int], value: str = "0") -> Program:
    arrays = {"a": "inout float64 [9 * n, 9 * n]", "v": "inout float64 [99 * n]"}
    return program("one", arrays, nest(list(loops.items()), Do(target, value)))


def test_rows_laid_out_one_after_the_other() -> None:
    """v[8 i + j] with j < 8: the rank is 1, with threads over i 2, and yet it is private."""
    known = one_statement("v[8 * i + j]", {"i": "n", "j": 8})
    mapping = tiled_mapping(known, [LoopTile("i", 16, 2, "x")])
    (found,) = find_sharing(known, mapping)
    assert (found.kind, found.rule) == (P, "exact")
    longer = one_statement("v[8 * i + j]", {"i": "n", "j": 9})
    assert classes(longer, tiled_mapping(longer, [LoopTile("i", 16, 2, "x")])) == [R]


@pytest.mark.parametrize(("rows", "expected"), [(1, R), (2, P), (3, R), (4, P)])
def test_several_rows_per_thread(rows: int, expected: Sharing) -> None:
    """a[i / 2, j] is private where a thread has both rows of each pair."""
    known = one_statement("a[i // 2, j]", {"i": "n", "j": "n"})
    mapping = tiled_mapping(known, [LoopTile("i", 12, rows, "x")])
    assert classes(known, mapping) == [expected]


def test_degenerate_loops() -> None:
    """A loop with one iteration divides nothing: the ranks differ, and yet it is private."""
    known = one_statement("a[i, 0]", {"i": "n", "j": 1})
    mapping = tiled_mapping(known, [LoopTile("i", 8, 2, "y"), LoopTile("j", 8, 2, "x")])
    (found,) = find_sharing(known, mapping, exact_only=True)
    assert found.kind is P
    assert not satisfies_rank_condition(((1, 0), (0, 0)), ((1, 0), (0, 1)))
    longer = one_statement("a[i, 0]", {"i": "n", "j": 3})
    mapping = tiled_mapping(longer, [LoopTile("i", 8, 2, "y"), LoopTile("j", 8, 2, "x")])
    assert classes(longer, mapping) == [R]


@pytest.mark.parametrize(("thread", "expected"), [(8, P), (7, R), (4, R)])
def test_necessity_ends_where_a_thread_has_the_whole_block(thread: int, expected: Sharing) -> None:
    """A[i, k] with threads over j: shared as soon as r_{j,2} < r_j."""
    mapping = tiled_mapping(matmul(), [LoopTile("i", 8), LoopTile("j", 8, thread, "x")])
    assert classes(matmul(), mapping)[2] is expected


def test_two_statements_of_one_block() -> None:
    """The first value of C and its updates: the same threads, at different depths."""
    tiles = [LoopTile("i", 8, 2, "y"), LoopTile("j", 8, 2, "x")]
    known = matmul_in_nest(after=Do("C[i, j]", "C[i, j] + A[i, 0]"))
    mapping = tiled_mapping(known, tiles)
    assert classes(known, mapping) == [P, P, P, R, C, P, P, R]


def test_sets_of_statements_with_blocks_of_their_own() -> None:
    """B = f(A) and A = B as two kernels: each element of B and A is private in the second."""
    known = jacobi()
    first = tiled_mapping(known, [LoopTile("i", 32, 4, "x")], statements=["S0"], kernel="f")
    second = tiled_mapping(known, [LoopTile("j", 16, 1, "x")], statements=["S1"], kernel="g")
    assert classes(known, first) == [P, R, R, R]
    assert classes(known, second) == [P, P]
    # In one kernel with all time steps, A is shared with the neighbours.
    tiles = [LoopTile("t", 1), LoopTile("i", 32, 4, "x")]
    alone = tiled_mapping(known, tiles, statements=["S0"])
    assert classes(known, alone) == [P, R, R, R]


def test_scalars_are_shared_by_all_threads() -> None:
    arrays = {"x": "in float64 [n]", "s": "inout float64 []"}
    known = program("total", arrays, For("i", 0, "n", Do("s", "s + x[i]")))
    mapping = tiled_mapping(known, [LoopTile("i", 32, 4, "x")])
    assert classes(known, mapping) == [R, R, P]


def test_product() -> None:
    """The mapping of SUMMA: C is private, A is shared along rows, B along columns of threads."""
    for order in ("ijk", "kij"):
        known = matmul(order)
        tiles = [LoopTile("i", 32, 4, "y"), LoopTile("j", 32, 1, "x")]
        assert classes(known, tiled_mapping(known, tiles)) == [P, P, R, C]
        with_k = tiled_mapping(known, [*tiles, LoopTile("k", 8)])
        assert classes(known, with_k) == [P, P, R, C]
        by_layers = tiled_mapping(known, [*tiles, LoopTile("k", 8, 1, "z")])
        assert classes(known, by_layers) == [Sharing.LAYER, Sharing.LAYER, R, C]


def test_triangular_domain_with_diagonal_reads() -> None:
    known = triangular_solve()
    tiles = [LoopTile("i", 8, 1, "x")]
    found = find_sharing(known, tiled_mapping(known, tiles))
    by_access = {(x.access.statement.name, x.access.access.index): x.kind for x in found
                 if x.access.array == "x"}  # fmt: skip
    assert set(by_access.values()) == {R}
    assert [x.kind for x in found if x.access.array == "L"] == [P, P]


# -- witnesses ------------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [floyd_warshall(), relaxation()])
def test_witnesses_exist(known: Program) -> None:
    loops = known.statements[0].iterators
    tiles = [LoopTile(loops[0], 3), LoopTile(loops[1], 3, 2, "y"), LoopTile(loops[2], 3, 2, "x")]
    found = find_sharing(known, tiled_mapping(known, tiles))
    for sharing in found:
        witness = shared_element(sharing, [x.access for x in found])
        assert witness is not None
        assert witness.first_thread != witness.second_thread
        assert witness.first.statement == sharing.access.statement.name
        values = dict(witness.values)
        block = tuple(values[f"{tile.loop}_b"] for tile in tiles)
        element = witness.array, witness.index
        listed = {
            (use.statement, use.point, use.thread)
            for use in uses(known, tiles, {name: values[name] for name in known.params})
            if (use.block, use.element) == (block, element)
        }
        first, second = witness.first, witness.second
        assert (first.statement, first.point, witness.first_thread) in listed
        assert (second.statement, second.point, witness.second_thread) in listed


def test_text_of_a_witness() -> None:
    mapping = tiled_mapping(matmul(), [LoopTile("i", 8, 4, "y"), LoopTile("j", 8, 2, "x")])
    found = find_sharing(matmul(), mapping)
    accesses = [x.access for x in found]
    assert shared_element(found[0], accesses) is None
    assert str(shared_element(found[2], accesses)) == (
        "A[0, 0]: S0[0, 0, 0] in thread (0, 0) and S0[0, 2, 0] in thread (1, 0),"
        " for n = 1, m = 3, q = 1, i_b = 0, j_b = 0"
    )


@pytest.mark.parametrize("n", [1, 3, 5])
def test_shared_elements_are_those_of_an_enumeration(n: int) -> None:
    known = floyd_warshall()
    tiles = [LoopTile("k", 2), LoopTile("i", 3, 1, "y"), LoopTile("j", 2, 1, "x")]
    threads = threads_by_element(uses(known, tiles, {"n": n}))
    found = find_sharing(known, tiled_mapping(known, tiles), isl.Set(f"[n] -> {{ : n = {n} }}"))
    expected = {key for key, users in threads.items() if len(users) > 1}
    told = set()
    for sharing in found:
        at = sharing.shared.move_dims(isl.dim_type.set, 0, isl.dim_type.param, 0, 4)
        names = [sharing.shared.get_dim_name(isl.dim_type.param, k) for k in range(4)]
        points: list[isl.Point] = []
        at.foreach_point(points.append)
        for point in points:
            values = [point.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(6)]
            place = dict(zip(names, values, strict=False))
            block = (place["k_b"], place["i_b"], place["j_b"])
            told.add((block, ("D", tuple(values[4:]))))
    assert told == expected
