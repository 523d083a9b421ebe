"""No code is made that would leave the arrays of a descriptor someone got wrong."""

from dataclasses import replace

import numpy as np
import pytest

from loopwright.diagnostics import UsageError
from loopwright.sparse.bounds_proof import find_overrun
from loopwright.sparse.convert_tensor import convert
from loopwright.sparse.format import Format, declare, index
from loopwright.sparse.formats import BUILT_IN, find

COLUMNS = index("col", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NC}")


def listed(rows: str, place: str, places: str = "NNZ") -> Format:
    return declare(
        "listed",
        "{[n,ii,jj] -> [i,j] : 0<=n<NNZ && ii=row(n) && jj=col(n) && i=ii && j=jj"
        " && 0<=i<NR && 0<=j<NC}",
        f"{{[n,ii,jj] -> [p] : p={place}}}",
        index("row", rows, "{[y] : 0<=y<NR}"),
        COLUMNS,
        places=places,
        is_unique=False,
    )


@pytest.mark.parametrize("name", [family.example for family in BUILT_IN.values()])
def test_formats_with_room(name: str) -> None:
    assert find_overrun(find(name, 3 if name == "mcoo3" else 2)) is None


def test_room_to_spare() -> None:
    format = listed("{[x] : 0<=x<NNZ+2}", "n+1", "NNZ+1")
    assert find_overrun(format) is None


@pytest.mark.parametrize(
    ("format", "told"),
    [
        (listed("{[x] : 0<=x<NNZ-1}", "n"), r"row\(n\) outside the domain"),
        (listed("{[x] : 0<=x<NNZ}", "n+1"), r"the place n\+1 among NNZ values"),
        (listed("{[x] : 0<=x<NNZ}", "n-1"), r"the place n-1 among NNZ values"),
        (listed("{[x] : 0<=x<NNZ}", "2*n"), r"the place 2\*n among NNZ values"),
        (
            replace(
                find("csr"),
                name="short_rows",
                indices=(
                    find("csr").index("rowptr"),
                    index("col", "{[x] : 0<=x<NNZ-1}", "{[y] : 0<=y<NC}"),
                ),
            ),
            r"col\(k\) outside the domain",
        ),
    ],
    ids=["index", "behind", "before", "twice", "pointers"],
)
def test_too_short(format: Format, told: str) -> None:
    with pytest.raises(UsageError, match=rf"an array is too short .*\n.*an entry needs {told}"):
        convert(np.eye(3), format)
