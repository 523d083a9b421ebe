"""A product of odd sizes, tuned for a few seconds; later calls use what was found.

Run it with `python examples/tune_a_product.py`. Records go to a folder of this run.
"""

import tempfile

import numpy as np

import loopwright as lw
from loopwright import options


def main(seconds: float = 4.0) -> None:
    """Tune one einsum, show the plans before and after, and check the result."""
    a, b = (np.random.default_rng(k).random((53, 53)).astype(np.float32) for k in (0, 1))
    with tempfile.TemporaryDirectory() as place, options.override(data_dir=place):
        before = lw.einsum_plan("ik,kj->ij", a, b, threads=1)
        print(f"the construction: {before}")
        asked = lw.tune("ik,kj->ij", a, b, by="policy", threads=1)  # runs nothing
        print("the policy keeps it" if asked == before else f"the policy proposes: {asked}")
        found = lw.tune("ik,kj->ij", a, b, by="search", budget_ms=1e3 * seconds, threads=1)
        print(f"after the search: {found}")
        print("it stays" if found == before else "another plan was faster beyond the noise")
        result = lw.einsum("ik,kj->ij", a, b, threads=1)
        assert lw.einsum_plan("ik,kj->ij", a, b, threads=1) == found
        print(f"einsum uses it, off by {np.abs(result - a @ b).max():.1e} at most")


if __name__ == "__main__":
    main()
