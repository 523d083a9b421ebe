"""How long one waits: first calls, calls from the disk cache, new processes, repeated calls.

Every part runs in child processes with a cache directory of its own; the best of several counts.
Byte code of all modules is there, as it is where a package is installed.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

import loopwright as lw
from benchmarks.environment import bytecode_variables
from benchmarks.measure import Bar, Outcome, Setting, Table, check_close, race
from loopwright import semirings
from loopwright.calls.einsum_call import EinsumCall, Scaling
from loopwright.calls.einsum_contraction import plan_contraction
from loopwright.frontends.einsum_syntax import parse_subscripts
from loopwright.ir.dtypes import DTYPES
from loopwright.machines.host import host
from loopwright.runtime.llvm_engine import compile_to_object, load_object
from loopwright.runtime.scratch import local_scratch

__all__ = ["run"]

ROOT = Path(__file__).parent.parent
SIZE = 64  # of the operands of the repeated call
REPEATS = 100  # of the kernel in native code, per measured call
PROGRAMS = ("einsum", "jit")
_REPEAT = """
define void @repeat(ptr %kernel, ptr %launch, ptr %scratch, ptr %out, ptr %a, ptr %b, i64 %count) {
entry:
  br label %turn
turn:
  %i = phi i64 [ 0, %entry ], [ %next, %turn ]
  call void %kernel(ptr %launch, ptr %scratch, ptr %out, ptr %a, ptr %b)
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %turn, label %done
done:
  ret void
}
"""


@dataclass(frozen=True, slots=True)
class Child:
    """What one child process told, and how long it took from start to end."""

    told: dict[str, Any]
    wall_ms: float


def run(setting: Setting) -> Outcome:
    """Measure all parts; print a line each."""
    environ = bytecode_variables()
    repeats = 3 if setting.quick else 7
    table = Table((("what", "44s"), ("measured", "10.2f"), ("unit", "4s")))
    print(table.head())
    rows: list[dict[str, Any]] = []
    bars: list[Bar] = []

    def found(what: str, value: float, unit: str, most: float | None = None) -> None:
        rows.append({"what": what, "value": value, "unit": unit})
        print(table.row(what, value, unit), flush=True)
        if most is not None:
            bars.append(Bar(what, value, most, at_most=True, unit=f" {unit}".rstrip()))

    for program in PROGRAMS:
        _first_calls(program, environ, repeats, found)
        _processes(program, environ, repeats, found)
    _imports(environ, repeats, found)
    _repeated_call(setting, found)
    return Outcome(tuple(rows), tuple(bars))


Found = Callable[..., None]
Environ = dict[str, str]  # of the children, beside what this process has


def _first_calls(program: str, environ: Environ, repeats: int, found: Found) -> None:
    """A warm process meets a pattern for the first time: nothing on disk, then all of it."""
    compiled, loaded = [], []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as cache:
            compiled.append(_child(f"warm_{program}", environ, cache).told["ms"])
            loaded.append(_child(f"warm_{program}", environ, cache).told["ms"])
    found(f"{program}: first call in a warm process", min(compiled), "ms", 250)
    found(f"{program}: first call from the disk cache", min(loaded), "ms", 20)


def _processes(program: str, environ: Environ, repeats: int, found: Found) -> None:
    """The whole life of a process that makes one call."""
    compiled, loaded, isl = [], [], 0
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as cache:
            compiled.append(_child(f"new_{program}", environ, cache).told["ms"])
            second = _child(f"new_{program}", environ, cache)
            loaded.append(second.told["ms"])
            isl += second.told["islpy"]
    found(f"{program}: new process, nothing cached", min(compiled), "ms", 700)
    found(f"{program}: new process, from the disk cache", min(loaded), "ms", 200)
    found(f"{program}: of those, processes that loaded isl", float(isl), "", 0)


def _imports(environ: Environ, repeats: int, found: Found) -> None:
    with tempfile.TemporaryDirectory() as cache:
        numpy = [_child("import_numpy", environ, cache).told["ms"] for _ in range(repeats)]
        ours = [_child("import_loopwright", environ, cache).told for _ in range(repeats)]
    found("import numpy", min(numpy), "ms")
    found("import loopwright after numpy", min(x["ms"] for x in ours), "ms", 30)
    found("the same and loopwright.einsum", min(x["ms_with_einsum"] for x in ours), "ms")


def _child(part: str, environ: Environ, cache: str) -> Child:
    environ = {**os.environ, **environ, "LOOPWRIGHT_CACHE_DIR": cache}
    command = [sys.executable, "-m", "benchmarks.latency_child", part]
    start = time.perf_counter()
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    wall = 1000 * (time.perf_counter() - start)
    return Child(json.loads(done.stdout), wall)


def _repeated_call(setting: Setting, found: Found) -> None:
    """A call of lw.einsum less the time of its kernel, which native code calls in a row."""
    rng = np.random.default_rng(setting.seed)
    a, b = rng.random((SIZE, SIZE)), rng.random((SIZE, SIZE))
    check_close(lw.einsum("ik,kj->ij", a, b), a @ b, SIZE)
    runs = {
        "call": lambda: lw.einsum("ik,kj->ij", a, b),
        "kernel": _native_repetition(a, b),
        "numpy": lambda: np.dot(a, b),
    }
    times = race(runs, setting)
    call, kernel = 1e6 * times["call"].best, 1e6 * times["kernel"].best / REPEATS
    found(f"lw.einsum on {SIZE} x {SIZE} operands", call, "us")
    found("the kernel of this call", kernel, "us")
    found("overhead of a repeated call", call - kernel, "us", 5)
    found("numpy.dot on the same operands", 1e6 * times["numpy"].best, "us")


def _native_repetition(a: Any, b: Any) -> Callable[[], None]:
    """The kernel of a matrix product, called REPEATS times without Python in between."""
    out = np.empty((a.shape[0], b.shape[1]))
    ring, dtype = semirings.semiring("plus_times"), DTYPES["float64"]
    names = parse_subscripts("ik,kj->ij", (2, 2))
    call = EinsumCall(names, (a, b), out, ring, dtype, Scaling(), 1, host())
    choice, bound = plan_contraction(call)
    left, right = (b, a) if choice.variant.swapped else (a, b)
    bound(out, left, right)
    check_close(out, a @ b, a.shape[1])
    code = load_object(compile_to_object(_REPEAT), ("repeat",))
    pointer = ctypes.c_void_p
    repeat = ctypes.CFUNCTYPE(None, *[pointer] * 6, ctypes.c_int64)(code.address("repeat"))
    # Nothing public names the entry point of a bound kernel: only this measurement needs it.
    kernel = ctypes.cast(cast(Any, bound._call), pointer).value

    def run() -> None:
        assert code is not None  # the machine code lives as long as this function
        scratch = local_scratch().block
        repeat(kernel, bound._launch, scratch, id(out), id(left), id(right), REPEATS)

    return run
