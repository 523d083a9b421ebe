"""scipy.sparse's own tests, with its conversions and products replaced by ours.

`plugins/outside_scipy.py` says what is replaced and what scipy still answers itself. The usual run
takes tests of conversions and products of two formats; `make test-all` takes every test of
scipy.sparse that builds a matrix, also of `lil` and `dok`, of matrices beside arrays, of storage
that is not canonical, and with 64-bit indices.
"""

from pathlib import Path

import pytest

from outside.suites import RUNS_ALL, disagreements, installed_tests, run_suite

METHODS = ("tocsr", "tocsc", "tocoo", "todia", "tobsr", "@")
FLAG = "has_canonical_format of scipy's coo is a note, not looked for; ours leaves it unset"
LISTED = {"TestDIA*::test_tocoo_gh10050": FLAG}

USUAL = (
    "(conversion or tocs or tocoo or todia or matmul or matvec or rmatvec or dup"
    " or unsorted or dot or zeros)"
    " and not (Matrix or NonCanonical or setdiag or empty_arithmetic or broadcast or maximum)"
)
if not RUNS_ALL:
    USUAL += " and not size_zero and not (TestDIA and sparse_format) and not rmatvec"
    USUAL += " and not (TestCSR and matmul)"
# Children: the classes each runs, the calls that every method must have had at the least.
ENTRIES = "TestCSR or TestCSC or TestCOO or TestDIA" if RUNS_ALL else "TestCSR or TestDIA"
GROUPS = {"entries": ENTRIES, "blocks": "TestBSR"}
LEAST_CALLS = (
    {"tocsr": 150, "tocsc": 30, "tocoo": 100, "todia": 30, "tobsr": 30, "@": 30}
    if RUNS_ALL
    else {"tocsr": 30, "tocsc": 3, "tocoo": 30, "todia": 10, "tobsr": 10, "@": 5}
)
LEAST_OF_BLOCKS = {"tocsr": 80, "tocsc": 5, "@": 15}  # one class has fewer calls than four
MORE = (
    "test_coo.py", "test_csr.py", "test_csc.py", "test_dok.py", "test_construct.py",
    "test_extract.py", "test_spfuncs.py", "test_matrix_io.py",
)  # fmt: skip


@pytest.mark.parametrize("group", GROUPS if RUNS_ALL else ["entries"])
def test_scipy_conversions_and_products(group: str, tmp_path: Path) -> None:
    files = installed_tests("scipy.sparse.tests", "test_base.py")
    chosen = f"({GROUPS[group]}) and {USUAL}"
    outcome = run_suite(files, "outside_scipy", tmp_path, "-k", chosen)
    assert disagreements(outcome, LISTED if group == "entries" else {}) == []
    least = LEAST_CALLS | (LEAST_OF_BLOCKS if group == "blocks" else {})
    found = {name: outcome.calls.get(name, 0) for name in METHODS}
    assert {name: n for name, n in found.items() if n < least[name]} == {}


# Parts of the long files, so that workers share them.
_KINDS = ("TestCSR", "TestCSC", "TestCOO", "TestDIA", "TestBSR", "TestLIL", "TestDOK")
_WIDTHS = ("limit_10", "random", "all_32", "all_64")
PARTS = [
    *(("test_base.py", part) for part in (*_KINDS, f"not ({' or '.join(_KINDS)})")),
    *(("test_64bit.py", part) for part in (*_WIDTHS, f"not ({' or '.join(_WIDTHS)})")),
    *((file, "") for file in MORE),
]


LISTED_PARTS = {
    ("test_base.py", "TestDIA"): LISTED,
    **{
        (file, part): {"Test64Bit*::*[TestDIA*-test_tocoo_gh10050]": FLAG}
        for file, part in PARTS
        if file == "test_64bit.py"
    },
}


@pytest.mark.only_in_all("the whole suite of scipy.sparse")
@pytest.mark.parametrize(("file", "part"), PARTS)
def test_all_of_scipy_sparse(file: str, part: str, tmp_path: Path) -> None:
    chosen = ("-k", part) if part else ()
    files = installed_tests("scipy.sparse.tests", file)
    outcome = run_suite(files, "outside_scipy", tmp_path, *chosen)
    assert disagreements(outcome, LISTED_PARTS.get((file, part), {})) == []
