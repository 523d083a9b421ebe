"""NumPy's own tests of einsum, with `np.einsum` replaced by ours.

Most of them go through the same hundreds of sums in one dtype after the other: the usual run takes
some of every other kind, `make test-all` takes them all.
"""

from pathlib import Path

import pytest

from outside.suites import RUNS_ALL, disagreements, installed_tests, run_suite

OBJECT = "objects are not numbers"
WIDE = "long double is not among our dtypes"
ORDER = "wants 15 decimals of a sum of a million terms: NumPy adds up chunks of 8192, we do not"
CAST = "casts a float sum into an integer out, which casting='safe' forbids and we refuse"
LAYOUT = "a result is in C order unless order= says otherwise; NumPy's order='K' may give neither"
LISTED = {
    "TestEinsum::test_einsum_sums_object": OBJECT,
    "TestEinsum::test_einsum_object_errors": OBJECT,
    "TestEinsum::test_object_loop": OBJECT,
    "TestEinsum::test_einsum_sums_longdouble": WIDE,
    "TestEinsum::test_einsum_sums_clongdouble": WIDE,
    "TestEinsum::test_different_paths[g]": WIDE,
    "TestEinsum::test_different_paths[G]": WIDE,
    "TestEinsum::test_einsum_0d_out": CAST,
    "TestEinsum::test_output_order": LAYOUT,
    "test_einsum_chunking_precision": ORDER,
}
SUMMED = ("uint16", "longdouble", "clongdouble", "object")
SUMMED += ("cfloat64", "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64")
SUMMED += ("float16", "float32", "float64", "cfloat128")
# Children: the tests each runs, the calls that it must have had at the least.
# Of a usual run, letters of dtypes as either case: longdouble.
_PATHS = "different_paths and not paths[g]"
_MANY = "complex or random_cases or index_transformations or expand"  # hundreds of equations each
GROUPS = {
    "sums": (" or ".join(f"sums_{dtype}" for dtype in SUMMED), 2000),
    "all but sums": ("not einsum_sums", 450)
    if RUNS_ALL
    else (f"not (einsum_sums or {_MANY} or edge_cases or fixedstride or ({_PATHS}))", 100),
}


@pytest.mark.parametrize("group", GROUPS if RUNS_ALL else ["all but sums"])
def test_numpy_einsum(group: str, tmp_path: Path) -> None:
    files = installed_tests("numpy._core.tests", "test_einsum.py")
    chosen, least_calls = GROUPS[group]
    outcome = run_suite(files, "outside_numpy", tmp_path, "-k", chosen)
    home = {True: "sums", False: "all but sums"}
    listed = {test: why for test, why in LISTED.items() if home["einsum_sums" in test] == group}
    assert disagreements(outcome, listed) == []
    assert outcome.calls["einsum"] >= least_calls, outcome.calls
