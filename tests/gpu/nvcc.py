"""nvcc on the kernels of nests: no warnings, and what ptxas says of registers."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from drawn import drawn
from loopwright.backends.c_text.c_dialect import CUDA
from loopwright.backends.device_text.device_module import emit_kernels
from loopwright.ir.loops import LoopNest
from loopwright.lower.grid_nests.split_kernels import split_kernels

__all__ = ["ARCHITECTURES", "QUICK", "Report", "read_report", "require_compiled"]

ARCHITECTURES = drawn(("sm_80", "sm_90"), one_in=2)
QUICK = ("-Xcicc", "-O0", "-Xptxas", "-O0")  # diagnostics are the same, and sooner there
Report = dict[tuple[str, str], tuple[int, int]]  # kernel, architecture: registers, spilled bytes


def require_compiled(nests: Sequence[LoopNest], folder: Path, flags: Sequence[str] = ()) -> Report:
    """Compile all kernels of nests, without a warning; what there is to say of each."""
    programs = [split_kernels(replace(x, name=f"kernel_{at}")) for at, x in enumerate(nests)]
    assert programs
    source = folder / "kernels.cu"
    source.write_text(emit_kernels(programs, CUDA))
    codes = [
        word
        for name in ARCHITECTURES
        for word in ("-gencode", f"arch={name.replace('sm', 'compute')},code={name}")
    ]
    words = ["nvcc", *codes, "-c", "--threads", "2", "-Xptxas", "-v", "-Werror", "all-warnings"]
    done = subprocess.run(
        [*words, *flags, "-o", str(folder / "kernels.o"), str(source)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    told = done.stdout + done.stderr
    assert done.returncode == 0, told[-4000:]
    assert "warning" not in told.lower()
    found = read_report(told)
    assert len(found) == sum(len(one.kernels) for one in programs) * len(ARCHITECTURES)
    return found


def read_report(told: str) -> Report:
    """What ptxas says of each kernel."""
    found: Report = {}
    key, spilled = ("", ""), 0
    for line in told.splitlines():
        if entry := re.search(r"Compiling entry function '(\w+)' for '(\w+)'", line):
            key = entry[1], entry[2]
        elif stores := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
            spilled = int(stores[1]) + int(stores[2])
        elif registers := re.search(r"Used (\d+) registers", line):
            found[key] = int(registers[1]), spilled
    return found
