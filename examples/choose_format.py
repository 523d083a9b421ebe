"""Which format suits a matrix: a grid's five diagonals, and the same rows in disorder.

Run it with `python examples/choose_format.py`.
"""

import numpy as np

import loopwright as lw


def grid(side: int) -> lw.sparse.SparseTensor:
    """The matrix of a square grid in which each point is connected with its four neighbours."""
    count = side * side
    at = np.arange(count)
    rows, columns = [at], [at]
    for step, fits in ((1, at % side < side - 1), (side, at < count - side)):
        rows += [at[fits], at[fits] + step]
        columns += [at[fits] + step, at[fits]]
    row, col = (np.concatenate(parts).astype(np.int32) for parts in (rows, columns))
    values = np.ones(len(row))
    return lw.sparse.sparse_tensor("coo", (count, count), {"row": row, "col": col}, values)


def shuffled(matrix: lw.sparse.SparseTensor) -> lw.sparse.SparseTensor:
    """The same matrix with rows and columns in another order."""
    order = np.random.default_rng(0).permutation(matrix.shape[0]).astype(np.int32)
    arrays = {name: order[array] for name, array in matrix.arrays.items()}
    return lw.sparse.sparse_tensor("coo", matrix.shape, arrays, matrix.values)


def main() -> None:
    """Print what is predicted for both."""
    matrix = grid(60)
    for found in (matrix, shuffled(matrix)):
        print(lw.sparse.recommend(lw.sparse.convert(found, "csr"), uses=1000))
        print()


if __name__ == "__main__":
    main()
