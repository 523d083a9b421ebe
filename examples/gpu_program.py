"""A C file for a GPU: its kernels, which threads share elements, and a run where there is one.

Run it with `python examples/gpu_program.py`. No GPU is needed to look at the kernels.
"""

import numpy as np

import loopwright as lw

SOURCE = b"""
void sharpen(int n, float a[n][n], float b[n][n]) {
#pragma scop
  for (int i = 1; i < n - 1; i++)
    for (int j = 1; j < n - 1; j++)
      b[i][j] = 0.25f * (a[i - 1][j] + a[i + 1][j] + a[i][j - 1] + a[i][j + 1]);
  for (int i = 1; i < n - 1; i++)
    for (int j = 1; j < n - 1; j++)
      a[i][j] = 2.0f * a[i][j] - b[i][j];
#pragma endscop
}
"""


def main() -> None:
    """Print the kernels and the table of accesses; run them if a GPU is here."""
    sharpen = lw.compile(SOURCE, "cuda", machine="sm_90")["sharpen"]
    print(sharpen.explain())

    a = np.zeros((66, 66), dtype=np.float32)
    a[0] = 1.0
    print("\nthe kernels as CUDA C++")
    print(sharpen.inspect_c(66, a, a.copy()))

    expected = a.copy()
    lw.compile(SOURCE)["sharpen"](66, expected, a.copy())
    try:
        found = a.copy()
        sharpen(66, found, a.copy())  # arrays of CuPy or PyTorch would stay where they are
    except lw.LoopwrightError as error:
        print(f"not run here: {error}")
        return
    print(f"off by {np.abs(found - expected).max():.1e} at most from the processor's result")


if __name__ == "__main__":
    main()
