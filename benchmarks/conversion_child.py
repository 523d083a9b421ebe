"""What a fresh process does for the benchmark of conversions: the first one of a kind, timed.

Prints one JSON object: milliseconds of synthesis, of the first call beyond that and beyond a later
call, and of a later call. A conversion of another kind comes before, so that everything is loaded.
"""

import json
import sys
import time

import numpy as np

from loopwright.sparse.convert_tensor import conversion, convert_tensor
from loopwright.sparse.formats import find
from loopwright.sparse.tensor import SparseTensor, sparse_tensor

SIZE, ENTRIES = 1000, 5000


def shuffled() -> SparseTensor:
    rng = np.random.default_rng(0)
    places = rng.permutation(SIZE * SIZE)[:ENTRIES]
    row, col = (x.astype(np.int32) for x in np.divmod(places, SIZE))
    return sparse_tensor("coo", (SIZE, SIZE), {"row": row, "col": col}, rng.random(ENTRIES))


def milliseconds(start: float) -> float:
    return 1000 * (time.perf_counter() - start)


def main(source: str, target: str) -> None:
    """Time the first conversion from one format to another."""
    plain = shuffled()
    for other in ("lil", "alto"):  # loads LLVM and what checks and sorts all lists need
        convert_tensor(plain, find(other), threads=1)
    tensor = plain
    if source == "scoo":
        order = np.lexsort((plain.arrays["col"], plain.arrays["row"]))
        arrays = {name: array[order] for name, array in plain.arrays.items()}
        tensor = sparse_tensor("scoo", plain.shape, arrays, plain.values[order])
    elif source != "coo":
        tensor = convert_tensor(plain, find(source), threads=1)
    wanted = find(target)
    start = time.perf_counter()
    conversion(tensor, wanted)
    synthesis = milliseconds(start)
    start = time.perf_counter()
    convert_tensor(tensor, wanted, threads=1)
    first = milliseconds(start)
    start = time.perf_counter()
    convert_tensor(tensor, wanted, threads=1)
    later = milliseconds(start)
    print(json.dumps({"synthesis": synthesis, "compile": first - later, "call": later}))


if __name__ == "__main__":
    main(*sys.argv[1:])
