"""A plan saved as JSON, changed by hand, and plans for machines one does not own.

Run it with `python examples/save_a_plan.py`.
"""

import json

import numpy as np

import loopwright as lw

SOURCE = b"""
void product(int n, double C[n][n], double A[n][n], double B[n][n]) {
#pragma scop
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      for (int k = 0; k < n; k++)
        C[i][j] += A[i][k] * B[k][j];
#pragma endscop
}
"""


def main() -> None:
    """Save the plan of an einsum, take it up again, try other register tiles."""
    a, b = np.random.default_rng(0).random((2, 300, 300))
    text = lw.einsum_plan("ik,kj->ij", a, b, threads=1).dumps()
    print("the model's plan")
    print(text)

    plan = lw.Plan.loads(text)  # in another process, another day
    results = [lw.einsum("ik,kj->ij", a, b, plan=x, threads=1) for x in (plan, None)]
    assert np.array_equal(*results)
    print("loaded again, it gives the same numbers")

    print("register tiles of other sizes")
    for rows, vectors in ((2, 2), (4, 2), (4, 4)):
        data = json.loads(text)
        data["steps"][0]["variants"][0] |= {"rows": rows, "vectors": vectors, "unroll": 4}
        changed = lw.Plan.from_json(data)
        result = lw.einsum("ik,kj->ij", a, b, plan=changed, threads=1)
        print(f"  {rows} x {vectors} vectors: off by {np.abs(result - a @ b).max():.1e} at most")

    for machine in ("zen4", "neoverse-n1"):
        compiled = lw.compile(SOURCE, "openmp", machine=machine, threads=2)
        (made,) = compiled["product"].plans(300, np.zeros((300, 300)), a, b)
        print(f"for {machine}: {made}")


if __name__ == "__main__":
    main()
