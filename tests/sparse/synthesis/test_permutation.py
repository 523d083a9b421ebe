"""Places sorted by keys, against a stable sort by hand."""

import numpy as np
import pytest

from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import INT32
from loopwright.sparse.formats import find
from loopwright.sparse.synthesis.counting_sort import sort_places
from loopwright.sparse.synthesis.definitions import PermutationArray, SortKey
from loopwright.sparse.synthesis.stages import Builder
from loopwright.sparse.uf import Sym, Term, parse_linear
from sparse.synthesis.iterators import run_stage, sizes_of

COUNT = Term.of(Sym("NR"))
WIDTHS = {"perm": INT32, "rlen": INT32}


def keyed(*keys: tuple[str, bool]) -> PermutationArray:
    found = tuple(SortKey(parse_linear(text, ("place",)), falls) for text, falls in keys)
    return PermutationArray("perm", "pos", COUNT, "place", found)


def permuted(made: PermutationArray, lengths: list[int]) -> tuple[list[int], list[int]]:
    """The permutation of places and its inverse."""
    builder = Builder(INT32)
    builder.given("rlen", INT32, (COUNT,))
    sort_places(made, find("sell(2,4)"), builder, sizes_of((1, 1)), WIDTHS)
    held = {"rlen": np.array(lengths, np.int32)}
    known = {"NR": len(lengths), "NC": max(lengths, default=0)}
    for stage in builder.stages:
        run_stage(stage, held, known)
    return held["perm"].tolist(), held["pos"].tolist()


@pytest.mark.drawn(2)
@pytest.mark.parametrize("count", [0, 1, 5, 100])
@pytest.mark.parametrize("falls", [False, True])
def test_windows_of_lengths(count: int, falls: bool) -> None:
    lengths = np.random.default_rng(count).integers(0, 6, count).tolist()
    made = keyed(("floor(place/8)", False), ("rlen(place)", falls), ("place", False))
    sign = -1 if falls else 1
    expected = sorted(range(count), key=lambda x: (x // 8, sign * lengths[x]))
    perm, pos = permuted(made, lengths)
    assert perm == expected
    assert [perm[p] for p in pos] == list(range(count))


def test_places_backwards() -> None:
    assert permuted(keyed(("place", True)), [0, 0, 0, 0])[0] == [3, 2, 1, 0]


def test_a_key_without_bounds_is_refused() -> None:
    with pytest.raises(UsageError, match=r"the key MORTON\(place,place\) of 'perm' has no bounds"):
        permuted(keyed(("MORTON(place,place)", False)), [1, 2])
