"""Declare a sparse format, prove it sound, convert to it, and see a mistake being found.

Run it with `python examples/own_format.py`.
"""

import numpy as np

import loopwright as lw
from loopwright.sparse import declare, index


def rows(monotone: str = "increasing") -> lw.sparse.Format:
    """Compressed rows that keep columns in 64 bits, as some solvers want them."""
    return declare(
        "rows",
        "{[ii,k,jj] -> [i,j] : i=ii && j=jj && 0<=ii<NR && start(ii)<=k<start(ii+1)"
        " && jj=column(k)}",
        "{[ii,k,jj] -> [k]}",
        index("start", "{[x] : 0<=x<=NR}", "{[y] : 0<=y<=NNZ}", monotone=monotone),
        index("column", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NC}", dtype="int64"),
        places="NNZ",
        order=("i", "j"),
        invariants=(
            "start(0) = 0",
            "start(NR) = NNZ",
            "forall x,k: 0<=x<NR && start(x)<=k<start(x+1)-1 => column(k)<column(k+1)",
        ),
    )


def main() -> None:
    """Verify, convert, explain; then the same with a promise left out."""
    print(lw.sparse.verify(rows(), side=2))
    stored = lw.sparse.convert(np.tril(np.arange(1.0, 17.0).reshape(4, 4)), rows())
    print(stored, dict(stored.arrays))
    print(lw.sparse.explain("csc", rows()))
    print(lw.sparse.verify(rows(monotone=""), side=2))


if __name__ == "__main__":
    main()
