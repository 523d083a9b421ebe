"""NumPy's own tests of einsum, with `np.einsum` replaced by ours."""

from pathlib import Path

from outside.suites import disagreements, installed_tests, run_suite

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
LEAST_CALLS = 10_000


def test_numpy_einsum(tmp_path: Path) -> None:
    files = installed_tests("numpy._core.tests", "test_einsum.py")
    outcome = run_suite(files, "outside_numpy", tmp_path)
    assert disagreements(outcome, LISTED) == []
    assert outcome.calls["einsum"] >= LEAST_CALLS
