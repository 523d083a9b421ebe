"""opt_einsum's own tests with `backend="loopwright"`, and random equations of its own making.

The usual run takes two of its thirteen ways to find a path, and of its equations those of few
operands, once; `make test-all` takes all of them.
Its tests of other libraries' arrays do not reach us: it does not matter which are installed.
"""

from pathlib import Path
from typing import Any

import numpy as np
import opt_einsum
import pytest

import loopwright as lw
from outside.suites import RUNS_ALL, disagreements, installed_tests, run_suite

FILES = (
    "test_backends.py", "test_blas.py", "test_contract.py", "test_edge_cases.py", "test_input.py",
    "test_sharing.py",
)  # fmt: skip
LISTED = {
    "test_auto_backend_custom_array_no_tensordot": "asks which backend is taken for other arrays: "
    "the plugin answers loopwright where opt_einsum would answer numpy",
    "test_contract_expression_checks": "wants its own words in our error, by a change of its args",
}
OTHERS = "tensorflow or theano or cupy or jax or autograd or dask or test_sparse or torch"
PATHS = "branch or random or eager or opportunistic or dynamic or dp or hq or None or optimal"
PATHS += " or (compare and greedy) or False-4 or hi or hg or greek or contract_expressions"
# Of equations those of the first letters; `test_random_equations` draws some as theirs does.
PATHS += " or rand_equation or auto-acdf or auto-b or auto-d or auto-e or auto-f"
PATHS += " or auto-a or constants or (drop_in and (acdf or baa or dcc or ed or fe or ea"
PATHS += " or eb or aef or efdc or aab or bca or dd or bbd or fff))"
LEAST_CALLS = (
    {"einsum": 2000, "tensordot": 500, "transpose": 100}
    if RUNS_ALL
    else {"einsum": 200, "tensordot": 100, "transpose": 5}
)


def test_opt_einsum(tmp_path: Path) -> None:
    left_out = OTHERS if RUNS_ALL else f"{OTHERS} or {PATHS}"
    files = installed_tests("opt_einsum.tests", *FILES)
    outcome = run_suite(files, "outside_opt_einsum", tmp_path, "-k", f"not ({left_out})")
    assert disagreements(outcome, LISTED) == []
    few = {
        n: outcome.calls.get(n, 0) for n, c in LEAST_CALLS.items() if outcome.calls.get(n, 0) < c
    }
    assert few == {}


@pytest.mark.parametrize(
    ("axes", "told"),
    [
        (([0, 1], [0]), "tensordot pairs as many axes of a as of b\nnote: found 2 and 1"),
        (([0], [2]), "b has 2 axes\nnote: found axis 2 in axes of tensordot"),
        (
            ([0, 0], [0, 1]),
            "tensordot pairs an axis of a twice\nnote: found axes = ([0, 0], [0, 1])",
        ),
    ],
)
def test_wrong_axes_are_refused(axes: object, told: str) -> None:
    with pytest.raises(lw.UsageError) as caught:
        lw.tensordot(np.ones((2, 2)), np.ones((2, 2)), axes)
    assert str(caught.value) == told


@pytest.mark.parametrize(
    "optimize",
    [
        [(1, 2), (0, 2), (0, 1)],
        opt_einsum.DynamicProgramming(),
        opt_einsum.RandomGreedy(max_repeats=2),
        lambda inputs, output, sizes, memory: [(0, 1, 2, 3)],
    ],
)
def test_einsum_takes_paths_and_optimizers_of_opt_einsum(optimize: Any) -> None:
    arrays = [np.arange(x * y).reshape(x, y) for x, y in ((4, 1), (6, 5), (5, 3), (3, 4))]
    found = lw.einsum("ij,jk,kl,li->", *arrays, optimize=optimize)
    assert found == np.einsum("ij,jk,kl,li->", *arrays)
