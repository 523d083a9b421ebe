"""One process that makes many distinct kernels of one kind, each used once and then dropped.

    python tests/outside/many_kernels_child.py --kind jit --marks 250,500,750,1000

Prints a line of JSON at each mark: bytes of code, mappings, open files, bytes and files on disk,
bytes in memory.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

import loopwright as lw
from loopwright import options, sparse
from loopwright.runtime.code_memory import code_state
from loopwright.runtime.disk_cache import DiskCache
from loopwright.runtime.toolchain import build_library, load_library

X = np.arange(12.0)
SQUARE = np.arange(16.0).reshape(4, 4)


def einsum(number: int, folder: Path) -> None:
    """A product in a semiring of its own: the number is a constant in its code."""
    ring = lw.semirings.make_semiring(
        f"scaled by {number + 2}",
        lambda x, y: x + y,
        lambda x, y: x * y * (number + 2.0),
        zero=0.0,
        one=1 / (number + 2),
        check=False,
    )
    found = lw.einsum("ij,jk->ik", SQUARE, SQUARE, semiring=ring)
    assert np.allclose(found, (number + 2) * SQUARE @ SQUARE)


def jit(number: int, folder: Path) -> None:
    """A function of Python in a file of its own."""
    file = folder / f"many{number}.py"
    file.write_text(
        "def f(a, out):\n    for i in range(a.shape[0]):\n"
        f"        out[i] = a[i] * {number}.0 + {number + 1}.0\n",
        encoding="utf-8",
    )
    spec = importlib.util.spec_from_file_location(f"many{number}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    out = np.zeros(12)
    lw.jit(module.f)(X, out)
    assert np.array_equal(out, X * number + number + 1)


def library(number: int, folder: Path) -> None:
    """A shared library made from C text."""
    text = f"int value(void) {{ return {number}; }}\n"
    assert load_library(build_library(text, ("-O1",)), shared=True)["value"]() == number


def conversion(number: int, folder: Path) -> None:
    """A sparse matrix in blocks that no earlier one had; several kernels."""
    rows, columns = 1 + number % 20, 1 + number // 20
    found = sparse.convert(SQUARE, f"bcsr({rows},{columns})")
    assert np.array_equal(found.to_dense(), SQUARE)


KINDS = {f.__name__: f for f in (einsum, jit, library, conversion)}


def report(made: int) -> None:
    gc.collect()
    code, disk = code_state(), DiskCache(options.cache_dir()).state()
    mappings = Path("/proc/self/maps").read_text(encoding="utf-8").count("\n")
    resident = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    facts = {
        "made": made,
        "kernels": code.kernels,
        "code": code.bytes,
        "mappings": mappings,
        "open": len(os.listdir("/proc/self/fd")),
        "entries": disk.entries,
        "disk": disk.bytes,
        "damaged": disk.damaged,
        "resident": resident * os.sysconf("SC_PAGE_SIZE"),
    }
    print(json.dumps(facts), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--marks", required=True)
    args = parser.parse_args()
    marks = [int(mark) for mark in args.marks.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        for number in range(marks[-1]):
            KINDS[args.kind](number, Path(folder))
            if number + 1 in marks:
                report(number + 1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
