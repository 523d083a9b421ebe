"""A peer in C++: coordinates sorted along Morton's curve by std::sort and a comparator.

Two of them: `function` has its comparator behind std::function and interleaves the bits of both
coordinates in every comparison, as synthesised code with a user-defined order has been published;
`keys` interleaves once, and compares ready keys inline. Both gather coordinates and values after.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["KINDS", "missing_compiler", "morton_sorter"]

KINDS = ("function", "keys")
_COMPILERS = ("c++", "g++", "clang++")
_SOURCE = r"""
#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

static inline uint64_t spread(uint64_t x) {  // two zeros between any two bits
  x &= 0x1fffff;
  x = (x | x << 32) & 0x001f00000000ffffull;
  x = (x | x << 16) & 0x001f0000ff0000ffull;
  x = (x | x << 8) & 0x100f00f00f00f00full;
  x = (x | x << 4) & 0x10c30c30c30c30c3ull;
  return (x | x << 2) & 0x1249249249249249ull;
}

static inline uint64_t morton(int32_t i, int32_t j, int32_t k) {
  return spread(i) << 2 | spread(j) << 1 | spread(k);
}

struct Keyed { uint64_t key; int32_t at; };

extern "C" void sort_coordinates(int64_t by_function, int64_t n, const int32_t *const *from,
                                 const double *values, int32_t **to, double *out) {
  const int32_t *i = from[0], *j = from[1], *k = from[2];
  std::vector<int32_t> order(n);
  if (by_function) {
    std::iota(order.begin(), order.end(), 0);
    std::function<bool(int32_t, int32_t)> less = [=](int32_t a, int32_t b) {
      return morton(i[a], j[a], k[a]) < morton(i[b], j[b], k[b]);
    };
    std::sort(order.begin(), order.end(), less);
  } else {
    std::vector<Keyed> keys(n);
    for (int64_t e = 0; e < n; ++e) keys[e] = {morton(i[e], j[e], k[e]), (int32_t)e};
    auto less = [](const Keyed &a, const Keyed &b) { return a.key < b.key; };
    std::sort(keys.begin(), keys.end(), less);
    for (int64_t e = 0; e < n; ++e) order[e] = keys[e].at;
  }
  for (int64_t e = 0; e < n; ++e) {
    to[0][e] = i[order[e]];
    to[1][e] = j[order[e]];
    to[2][e] = k[order[e]];
    out[e] = values[order[e]];
  }
}
"""


def missing_compiler() -> str:
    """Why there is no peer; empty where there is one."""
    return "" if _library() is not None else f"none of {', '.join(_COMPILERS)} works"


@cache
def _library() -> ctypes.CDLL | None:
    for name in _COMPILERS:
        path = shutil.which(name)
        if path is None:
            continue
        with tempfile.TemporaryDirectory() as folder:
            source, built = Path(folder) / "sort.cpp", Path(folder) / "sort.so"
            source.write_text(_SOURCE, encoding="utf-8")
            command = [path, "-O3", "-std=c++17", "-shared", "-fPIC", str(source), "-o", str(built)]
            if subprocess.run(command, capture_output=True, check=False).returncode == 0:
                return ctypes.CDLL(str(built))  # stays mapped when the file is gone
    return None


def morton_sorter(
    kind: str, columns: list[Any], values: Any
) -> Callable[[], tuple[list[Any], Any]] | None:
    """A call that sorts three arrays of int32 and their float64 values; None without a compiler."""
    library = _library()
    if library is None:
        return None
    count = len(values)

    def run() -> tuple[list[Any], Any]:
        made = [np.empty(count, np.int32) for _ in columns]
        out = np.empty(count)
        pointers = ctypes.c_void_p * 3
        library.sort_coordinates(
            ctypes.c_int64(kind == "function"),
            ctypes.c_int64(count),
            pointers(*(column.ctypes.data for column in columns)),
            ctypes.c_void_p(values.ctypes.data),
            pointers(*(column.ctypes.data for column in made)),
            ctypes.c_void_p(out.ctypes.data),
        )
        return made, out

    return run
