"""Private and shared elements: the examples of the paper, and where the exact test goes further.

N. A. Likhoded, M. A. Paliashchuk, Conditions for privatizing the elements of arrays by computing
threads (2018). The accesses of D[i, j] = min(D[i, j], D[i, k] + D[k, j]) have the numbers 1 to 4.
"""

import islpy as isl
import pytest

from loopwright.analysis.sharing import Sharing, find_sharing, shared_element
from loopwright.analysis.thread_mapping import LoopTile, ThreadMapping, tiled_mapping
from loopwright.ir.program import Program
from programs import (
    Do,
    For,
    floyd_warshall,
    matmul,
    program,
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


# -- example 2 ------------------------------------------------------------------------------------


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


# -- witnesses ------------------------------------------------------------------------------------


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
