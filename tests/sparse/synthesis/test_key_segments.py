"""What a sort by runs tells: pointers and repetitions are not looked for again."""

import numpy as np
import pytest

from loopwright.sparse.convert_tensor import convert_tensor
from loopwright.sparse.formats import find
from loopwright.sparse.synthesis.coalesce import coalesced
from loopwright.sparse.synthesis.counting_sort import sort_entries
from loopwright.sparse.tensor import SparseTensor, sparse_tensor
from sparse.synthesis.iterators import Bench, sizes_of, terms

SHAPE = (3000, 2000)
COUNT = 6000  # short rows


def shuffled(seed: int, repeated: int) -> SparseTensor:
    """Entries in any order, some of them once more with another value."""
    rng = np.random.default_rng(seed)
    places = rng.choice(SHAPE[0] * SHAPE[1], COUNT, replace=False)
    places = rng.permutation(np.concatenate([places, places[:repeated]]))
    row, col = (part.astype(np.int32) for part in np.divmod(places, SHAPE[1]))
    values = rng.integers(-9, 9, len(places)).astype(np.float64)
    return sparse_tensor("coo", SHAPE, {"row": row, "col": col}, values)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("repeated", [0, 1, 500])
@pytest.mark.parametrize(("target", "lead"), [("csr", 0), ("csc", 1), ("dcsr", 0), ("scoo", 0)])
def test_entries_in_short_runs(target: str, lead: int, repeated: int) -> None:
    tensor = shuffled(repeated, repeated)
    given = [tensor.arrays[name] for name in ("row", "col")]
    first, second = given[lead], given[1 - lead]
    order = np.lexsort((second, first))
    size = SHAPE[1 - lead]
    key = first[order].astype(np.int64) * size + second[order]
    heads = np.flatnonzero(np.diff(key, prepend=-1))
    if target == "scoo":  # lists may repeat entries, in the order in which they came
        heads = np.arange(len(key))
    kept = [array.copy() for array in (*given, tensor.values)]
    for threads in (1, 2):
        result = convert_tensor(tensor, find(target), threads=threads)
        assert np.array_equal(result.values, np.add.reduceat(tensor.values[order], heads))
        own = "row" if target == "csc" else "col"
        assert np.array_equal(result.arrays[own], key[heads] % size)
        starts = np.searchsorted(key[heads] // size, np.arange(SHAPE[lead] + 1))
        if target in ("csr", "csc"):
            assert np.array_equal(result.arrays["rowptr" if lead == 0 else "colptr"], starts)
        if target == "scoo":
            assert np.array_equal(result.arrays["row"], key[heads] // size)
    for mine, before in zip((*given, tensor.values), kept, strict=True):
        assert np.array_equal(mine, before)


@pytest.mark.parametrize("is_repeated", [False, True])
def test_pointers_hold_only_where_nothing_is_repeated(is_repeated: bool) -> None:
    columns = [np.array([9, 1, 9, 4]), np.array([7, 3, 7 if is_repeated else 8, 5])]
    bench = Bench(columns, np.arange(4), parts=3)
    ordered = sort_entries(bench.iterator, terms("i", "j"), bench.builder, sizes_of(SHAPE))
    found = coalesced(ordered, bench.builder)
    assert found.statistics is not None
    assert ordered.statistics is not None
    held, known = bench.run()
    left, right = (known[str(term)] for term in (found.statistics.left, found.statistics.right))
    assert (left == right) is not is_repeated
    assert held[found.statistics.pointers][10] == 4  # every entry counts
    assert known[ordered.statistics.repeats] == is_repeated
