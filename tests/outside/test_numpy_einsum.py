"""NumPy's own tests of einsum, with `np.einsum` replaced by ours."""

from pathlib import Path

from outside.suites import disagreements, installed_tests, run_suite

OBJECT = "objects are not numbers"
WIDE = "long double is not among our dtypes"
ORDER = "wants 15 decimals of a sum of a million terms: NumPy adds up chunks of 8192, we do not"
# Until einsum takes what numpy.einsum takes:
OPTIMIZE = "optimize=, casting=, order= or dtype= is not taken yet"
OVERLAP = "out that shares memory with an operand is refused"
LISTED = {
    "TestEinsum::test_einsum_sums_object": OBJECT,
    "TestEinsum::test_einsum_object_errors": OBJECT,
    "TestEinsum::test_object_loop": OBJECT,
    "TestEinsum::test_einsum_sums_longdouble": WIDE,
    "TestEinsum::test_einsum_sums_clongdouble": WIDE,
    "TestEinsum::test_different_paths[g]": WIDE,
    "TestEinsum::test_different_paths[G]": WIDE,
    "test_einsum_chunking_precision": ORDER,
    "TestEinsum::test_out_is_res": OVERLAP,
    "test_overlap": OVERLAP,
    **dict.fromkeys(
        [
            "TestEinsum::test_einsum_errors",
            "TestEinsum::test_einsum_specific_errors",
            "TestEinsum::test_einsum_views",
            "TestEinsum::test_einsum_sums_*int*",
            "TestEinsum::test_einsum_sums_float*",
            "TestEinsum::test_einsum_sums_cfloat*",
            "TestEinsum::test_einsum_misc",
            "TestEinsum::test_einsum_0d_out",
            "TestEinsum::test_subscript_range",
            "TestEinsum::test_einsum_broadcast",
            "TestEinsum::test_hadamard_like_products",
            "TestEinsum::test_index_transformations",
            "TestEinsum::test_complex",
            "TestEinsum::test_collapse",
            "TestEinsum::test_expand",
            "TestEinsum::test_edge_cases",
            "TestEinsum::test_inner_product",
            "TestEinsum::test_random_cases",
            "TestEinsum::test_broadcasting_dot_cases",
            "TestEinsum::test_output_order",
            "TestEinsum::test_singleton_broadcasting",
            "TestEinsumPath::test_path_type_input",
            "TestEinsumPath::test_path_type_input_internal_trace",
            "TestEinsumPath::test_path_type_input_invalid",
        ],
        OPTIMIZE,
    ),
}
LEAST_CALLS = 300


def test_numpy_einsum(tmp_path: Path) -> None:
    files = installed_tests("numpy._core.tests", "test_einsum.py")
    outcome = run_suite(files, "outside_numpy", tmp_path)
    assert disagreements(outcome, LISTED) == []
    assert outcome.calls["einsum"] >= LEAST_CALLS
