"""Checks element types, `jit`, bundles and large grids on a real device, and times some of them.

    PYTHONPATH=src:DIRECTORY_OF_ISLPY python3 tests/gpu/on_device/types_check.py

A plain script: it needs PyTorch, cuda-bindings, NVRTC, NumPy, islpy, and llvmlite for `jit` and
`lw.compile`. The exit status is the number of checks that failed.
"""

from __future__ import annotations

import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "src"))

import numpy as np
import torch

import loopwright as lw

failures: list[str] = []
MOST, LEAST = 2**31 - 1, -(2**31)


def check(name: str, what: Callable[[], str | None]) -> None:
    """Run a check that gives a figure or None, and raises where something is wrong."""
    try:
        told = what()
    except Exception as error:  # noqa: BLE001, the other cases go on
        failures.append(name)
        traceback.print_exc(limit=-3)
        print("FAIL", name, str(error)[:400], flush=True)
        return
    print("ok  ", name, told or "", flush=True)


def seconds(run: Callable[[], Any], repeats: int = 7) -> float:
    """The median time of a call on the device."""
    run()
    times = []
    for _ in range(repeats):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) / 1e3)
    return sorted(times)[repeats // 2]


def near(found: torch.Tensor, wanted: torch.Tensor, slack: float) -> None:
    error = (found.to(wanted.dtype) - wanted).abs().max() / wanted.abs().max()
    assert float(error) <= slack, f"error {float(error):.3g} of {slack:.3g}"


# -- types ----------------------------------------------------------------------------------------

CASES = ("ij,jk->ik", "ij,kj->ik", "bij,bjk->ibk", "acd,dbc->ab", "ij,j->i", "ij->j", "i,j->ij")


def products(dtype: torch.dtype, slack: float) -> None:
    wide = torch.complex128 if dtype.is_complex else torch.float64
    for number, text in enumerate(CASES):
        for size in (33, 64, 150):
            torch.manual_seed(number)
            terms = text.split("->")[0].split(",")
            sizes = {c: size + 4 * at for at, c in enumerate(sorted(set(text) - set(",->")))}
            given = [
                torch.randn([sizes[c] for c in term], dtype=wide, device="cuda").to(dtype)
                for term in terms
            ]
            found = lw.einsum(text, *given)
            assert found.dtype == dtype, str(found.dtype)
            near(found, torch.einsum(text, *(x.to(wide) for x in given)), slack)


def factors(dtype: torch.dtype, slack: float) -> None:
    a, b = (torch.randn(70, 70, dtype=dtype, device="cuda") for _ in range(2))
    out = torch.randn(70, 70, dtype=dtype, device="cuda")
    wanted = (2 - 1j) * out + 3j * (a @ b)
    lw.einsum("ij,jk->ik", a, b, out=out, alpha=3j, beta=2 - 1j)
    near(out, wanted, slack)


def speed(dtype: torch.dtype, n: int, per_pair: float) -> str:
    a, b = (torch.randn(n, n, device="cuda", dtype=dtype) for _ in range(2))
    ours, theirs = seconds(lambda: lw.einsum("ij,jk->ik", a, b)), seconds(lambda: a @ b)
    rate = per_pair * n**3 / 1e12
    return f"{rate / ours:.1f} Tflop/s, torch {rate / theirs:.1f}"


def saturating(ring: str) -> str:
    plus, end = (np.minimum, MOST) if ring == "min_plus" else (np.maximum, LEAST)
    rng = np.random.default_rng(5)
    ends = np.array(
        [LEAST, LEAST + 1, LEAST + 9, -(2**30), -1, 0, 1, 2**30, MOST - 9, MOST - 1, MOST]
    )
    a, b = (rng.choice(ends, shape) for shape in ((130, 70), (70, 140)))
    sums = np.clip(a[:, :, None] + b[None], LEAST, MOST)
    sums = np.where((a[:, :, None] == end) | (b[None] == end), end, sums)
    given = [torch.from_numpy(x.astype(np.int32)).cuda() for x in (a, b)]
    found = lw.einsum("ij,jk->ik", *given, semiring=ring).cpu().numpy()
    assert np.array_equal(found, plus.reduce(sums, axis=1)), "other bits"
    n = 4096
    large = [torch.randint(0, 1000, (n, n), dtype=torch.int32, device="cuda") for _ in range(2)]
    time = seconds(lambda: lw.einsum("ij,jk->ik", *large, semiring=ring))
    return f"{2 * n**3 / time / 1e12:.2f} Tops/s at {n}"


# -- jit, bundles, grids --------------------------------------------------------------------------


def jitted() -> str:
    @lw.jit
    def scaled(a, c):
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                a[i, j] = c * a[i, j] + i

    @lw.jit
    def product(a, b):
        c = np.zeros((a.shape[0], b.shape[1]))
        for i in range(a.shape[0]):
            for j in range(b.shape[1]):
                for k in range(a.shape[1]):
                    c[i, j] += a[i, k] * b[k, j]
        return c

    a = torch.randn(500, 300, dtype=torch.float64, device="cuda")
    wanted = 3.0 * a + torch.arange(500.0, device="cuda", dtype=torch.float64)[:, None]
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        scaled(a, 3.0)
        torch.cuda.current_stream().synchronize()
    near(a, wanted, 1e-15)
    b = torch.randn(300, 400, dtype=torch.float64, device="cuda")
    found = product(a, b)
    assert isinstance(found, torch.Tensor)
    near(found, a @ b, 1e-12)
    told = ""
    try:
        product(a, b.cpu().numpy())
    except lw.UsageError as error:
        told = str(error)
    assert "lies in the host's memory" in told, "host and device were mixed"
    turned = torch.randn(64, 64, dtype=torch.complex128, device="cuda")
    rows = torch.arange(64.0, device="cuda", dtype=torch.float64)[:, None]
    wanted = 2j * turned + rows
    scaled(turned, 2j)
    near(turned, wanted, 1e-14)
    large = [torch.randn(2048, 2048, dtype=torch.float64, device="cuda") for _ in range(2)]
    time = seconds(lambda: product(*large))
    return f"product of 2048 by three loops {2 * 2048**3 / time / 1e12:.1f} Tflop/s"


SCALE = b"""
void scale(int n, int m, int l, float A[n][m][l]) {
#pragma scop
  for (int i = 0; i < n; i++)
    for (int j = 0; j < m; j++)
      for (int k = 0; k < l; k++)
        A[i][j][k] = 2 * A[i][j][k] + j;
#pragma endscop
}
"""
ROWS = SCALE.replace(b"int l, ", b"").replace(b"[l]", b"").replace(b"[k]", b"")
ROWS = ROWS.replace(b"      for (int k = 0; k < l; k++)\n", b"")


def folded(source: bytes, *shape: int) -> None:
    compiled = lw.compile(source, "cuda")
    a = torch.randint(0, 9, shape, device="cuda").to(torch.float32)
    extra = [1] * (len(shape) - 2)
    along = torch.arange(shape[1], device="cuda", dtype=torch.float32).reshape(-1, *extra)
    wanted = 2 * a + along
    compiled["scale"](*shape, a)
    assert torch.equal(a, wanted), "other numbers"


def bundle() -> None:
    with tempfile.TemporaryDirectory() as folder:
        lw.compile(ROWS, "cuda").save(folder)
        run = lw.load(folder)
        a = torch.randint(0, 9, (300, 200), device="cuda").to(torch.float32)
        wanted = 2 * a + torch.arange(200.0, device="cuda")
        run(a)
        assert torch.equal(a, wanted), "other numbers on the device"
        host = np.ones((30, 20), np.float32)
        run(host)
        assert np.array_equal(host, 2 + np.tile(np.arange(20, dtype=np.float32), (30, 1)))


def main() -> int:
    print(torch.cuda.get_device_name(), flush=True)
    check("bfloat16", lambda: products(torch.bfloat16, 2**-8))
    check("complex64", lambda: products(torch.complex64, 1e-5))
    check("complex128", lambda: products(torch.complex128, 1e-13))
    check("factors of complex64", lambda: factors(torch.complex64, 1e-5))
    check("factors of complex128", lambda: factors(torch.complex128, 1e-13))
    check("bfloat16, speed", lambda: speed(torch.bfloat16, 4096, 2))
    check("complex64, speed", lambda: speed(torch.complex64, 4096, 8))
    check("complex128, speed", lambda: speed(torch.complex128, 2048, 8))
    check("int32 over (min, +)", lambda: saturating("min_plus"))
    check("int32 over (max, +)", lambda: saturating("max_plus"))
    check("jit", jitted)
    check("bundle", bundle)
    check("700,000 rows", lambda: folded(ROWS, 700_000, 33))
    check("700,000 columns", lambda: folded(ROWS, 33, 700_000))
    check("70,000 planes", lambda: folded(SCALE, 3, 70_000, 40))
    check("600,000 rows of planes", lambda: folded(SCALE, 600_000, 3, 40))
    print(f"{len(failures)} failed", flush=True)
    return len(failures)


if __name__ == "__main__":
    sys.exit(main())
