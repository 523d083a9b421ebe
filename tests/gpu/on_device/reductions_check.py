"""Reductions of free order on a real GPU, in two launches and with atomics: right, and how fast.

    PYTHONPATH=src python3 tests/gpu/on_device/reductions_check.py [--size 67108864]

Needs CuPy and islpy. The status is the number of wrong results.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import cupy

from loopwright.calls.compile import compile as compile_file

# name -> C type, loops, the same by CuPy
REDUCTIONS: dict[str, tuple[str, str, Callable[[cupy.ndarray], cupy.ndarray]]] = {
    "sum": ("float", "s[0] += x[i];", cupy.sum),
    "sum of squares": ("double", "s[0] += x[i] * x[i];", lambda x: (x * x).sum()),
    "integers": ("int", "s[0] += x[i];", cupy.sum),
    "greatest": ("int", "s[0] = s[0] < x[i] ? x[i] : s[0];", cupy.max),
}
TYPES = {"float": cupy.float32, "double": cupy.float64, "int": cupy.int32}


def seconds(call: Callable[[], object], repeats: int = 9) -> float:
    """The median time of a call on the device."""
    call()
    times = []
    for _ in range(repeats):
        first, last = cupy.cuda.Event(), cupy.cuda.Event()
        first.record()
        call()
        last.record()
        last.synchronize()
        times.append(cupy.cuda.get_elapsed_time(first, last) * 1e-3)
    return sorted(times)[repeats // 2]


def check(name: str, n: int, *, atomics: bool) -> bool:
    """Whether a reduction is right; its rate is printed, and whether a second call differs."""
    kind, loop, wanted_of = REDUCTIONS[name]
    source = f"""void f(int n, {kind} x[n], {kind} s[1]) {{
#pragma scop
for (int i = 0; i < n; i++) {loop}
#pragma endscop
}}
"""
    function = compile_file(source.encode(), "cuda", reassoc=True, atomics=atomics)
    dtype = TYPES[kind]
    x = (cupy.random.random(n) * 100).astype(dtype)
    found = []
    for _ in range(2):
        s = cupy.zeros(1, dtype)
        function(n, x, s)
        found.append(s.get()[0])
    wide = x.astype(cupy.int64 if kind == "int" else cupy.float64)
    wanted = wanted_of(wide).get().item()
    if kind == "int":  # sums wrap around
        apart = float((int(found[0]) - wanted) % (1 << 32) != 0)
    else:
        apart = abs(float(found[0]) - wanted) / abs(wanted)
    took = seconds(lambda: function(n, x, s))
    beside = seconds(lambda: wanted_of(x))
    way = "atomics" if atomics else "two launches"
    same = "the same bits again" if found[0] == found[1] else "other bits again"
    rate = n * dtype().itemsize / took * 1e-12
    told = f"{1e6 * took:.1f} us, {rate:.2f} TB/s, CuPy {1e6 * beside:.1f} us"
    print(f"{name} of {n}, {way}: {told}, apart {apart:.1e}, {same}", flush=True)
    return apart < 1e-3


def main() -> int:
    """Print a line for each; the number that are wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=1 << 26)
    args = parser.parse_args()
    right = [
        check(name, n, atomics=atomics)
        for name in REDUCTIONS
        for n in (args.size, 1 << 16)
        for atomics in (False, True)
    ]
    print(f"{right.count(False)} wrong")
    return right.count(False)


if __name__ == "__main__":
    sys.exit(main())
