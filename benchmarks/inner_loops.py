"""The innermost loops of packed products on x86-64, as LLVM writes them for machines of our data.

Nothing is timed and nothing runs: a product is planned and compiled for each machine, and the
instructions of the loop over steps are counted. A register tile that fits has no access of the
stack and no move from register to register there; loads and broadcasts are those of its model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from benchmarks.measure import Bar, Outcome, Setting, Table
from loopwright.ir.contraction_shape import ContractionShape, Dim
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.kernel_variant import Algebra, ContractionKernel, Initial
from loopwright.ir.loops import LoopNest
from loopwright.ir.machine import Machine
from loopwright.kernels import stage_text
from loopwright.lower.contraction_nests.macro_kernel import lower_product
from loopwright.lower.contraction_nests.operand_scan import quick_kernel
from loopwright.machines.load import load_machine, machine_names
from loopwright.planner.contraction_plans.analytical import choose
from loopwright.semirings import SEMIRINGS

__all__ = ["InnerLoop", "innermost", "kernels_of", "nest_of", "product_kernel", "run"]

TYPES = ("float64", "float32", "complex64", "complex128")
PAIRS = ("plus_times", "min_plus", "max_plus", "min_times", "max_times", "min_max", "max_min")
SIZE = 512
COLUMNS = (
    ("machine", "22s"),
    ("type", "10s"),
    ("semiring", "10s"),
    ("data", "7s"),
    ("tile", "10s"),
    ("unroll", "6d"),
    ("FMAs", "5d"),
    ("loads", "5d"),
    ("broadcasts", "10d"),
    ("moves", "5d"),
    ("shuffles", "8d"),
    ("calls", "5d"),
    ("stack", "5d"),
)
_LABEL = re.compile(r"(\.L\w+):")
_JUMP = re.compile(r"j[a-z]+\s+(\.L\w+)")
_REGISTER = r"%[xyz]mm\d+"
# What is counted in a loop, by the instructions in AT&T's syntax. On the stack lies what the stack
# pointer, or the frame pointer behind which it is aligned, leads to.
_COUNTED = {
    "fused": re.compile(r"vf(n?m)(add|sub)\d*[ps][sd]"),
    "arithmetic": re.compile(r"v?(add|sub|mul|min|max|range)[ps][sd]\b"),
    "loads": re.compile(r"v?mov(a|u|dq|dqu)\w*\s+[-\w]*\([^%]*%(?!rsp|rbp)[^)]*\),"),
    "broadcasts": re.compile(r"v?(p?broadcast|movddup)\w*\s+[-\w]*\(|.*\{1to\d+\}"),
    "moves": re.compile(rf"v?mov(ap|up|dq)\w*\s+{_REGISTER}, {_REGISTER}$"),
    "shuffles": re.compile(r"v?(p?shuf|perm|p?unpck|p?insert|p?extract)\w*"),
    "calls": re.compile(r"call"),
    "stack": re.compile(r".*\((%rsp|%rbp)\b|push|pop"),
}


@dataclass(frozen=True, slots=True)
class InnerLoop:
    """Instructions of a loop of machine code, by what they do."""

    instructions: int
    fused: int  # multiply-adds
    arithmetic: int  # other sums, products and extremes
    loads: int  # of whole vectors, as instructions of their own
    broadcasts: int  # elements of memory in all lanes, as operands too
    moves: int  # from register to register, of vectors
    shuffles: int
    calls: int
    stack: int  # accesses

    @property
    def work(self) -> int:
        """Operations of the semiring; of those that a function computes, its calls."""
        return self.fused + self.arithmetic + self.calls


def innermost(assembly: str) -> InnerLoop | None:
    """The loop of one basic block with most arithmetic; None where no block jumps to itself."""
    found = [_counted(block) for block in _loops(assembly)]
    return max(found, key=lambda loop: (loop.work, loop.instructions), default=None)


def _loops(assembly: str) -> Iterator[list[str]]:
    label, block = "", list[str]()
    for line in map(str.strip, assembly.splitlines()):
        start = _LABEL.match(line)
        if start is not None:
            label, block = start[1], []
        elif line and line[0] not in "#.":
            block.append(line.partition("#")[0].strip())
            jump = _JUMP.match(line)
            if jump is not None and jump[1] == label:
                yield block


def _counted(block: list[str]) -> InnerLoop:
    numbers = {
        name: sum(pattern.match(line) is not None for line in block)
        for name, pattern in _COUNTED.items()
    }
    return InnerLoop(len(block), **numbers)


def product_kernel(
    machine: Machine, dtype: str, pair: str, m: int = SIZE, n: int = SIZE
) -> ContractionKernel:
    """The kernel that the planner chooses for a product of m x SIZE by SIZE x n on one thread."""
    ring, element = SEMIRINGS[pair], DTYPES[dtype]
    p = (Dim(SIZE, 1, n, 0),)
    shape = ContractionShape((), (Dim(m, SIZE, 0, n),), (Dim(n, 0, 1, 1),), p)
    types = (element, element, element, element)
    zero = ring.zero(element)
    algebra = Algebra(str(ring.plus), str(ring.times), zero, *types, Initial.ZERO, False)
    return choose(shape, algebra, machine, 1, reassoc=True).kernel


def kernels_of(kernel: ContractionKernel) -> dict[str, ContractionKernel]:
    """The kernels whose loops a product has: where operands are scanned, one for each finding."""
    plain = replace(kernel, variant=replace(kernel.variant, guarded=False))
    if not kernel.variant.guarded:
        return {"any": plain}
    return {"no NaN": quick_kernel(plain), "NaN": plain}


def nest_of(kernel: ContractionKernel) -> LoopNest:
    """The loops of a product without those of smaller tiles at edges."""
    return lower_product(kernel, "kernel", halves=False)


def run(setting: Setting) -> Outcome:
    """Print the innermost loop of each machine, type and semiring; with `quick` of sums only."""
    table = Table(COLUMNS)
    print(table.head())
    rows: list[dict[str, Any]] = []
    for name in machine_names():
        machine = load_machine(name)
        if machine.isa != "x86_64":
            continue
        for dtype in TYPES:
            pairs = PAIRS[:1] if setting.quick or DTYPES[dtype].is_complex else PAIRS
            for pair in pairs:
                for data, kernel in kernels_of(product_kernel(machine, dtype, pair)).items():
                    loop = innermost(stage_text(nest_of(kernel), "asm", machine))
                    assert loop is not None
                    variant = kernel.variant
                    tile = f"{variant.rows}x{variant.vectors}x{variant.lanes}"
                    facts = (name, dtype, pair, data, tile, variant.unroll)
                    counts = (loop.fused, loop.loads, loop.broadcasts, loop.moves)
                    print(table.row(*facts, *counts, loop.shuffles, loop.calls, loop.stack))
                    keys = ("machine", "dtype", "semiring", "data", "tile", "unroll")
                    rows.append(dict(zip(keys, facts, strict=True)) | asdict(loop))
    most = max(row["stack"] for row in rows if not row["calls"])
    return Outcome(tuple(rows), (Bar("accesses of the stack", most, 0, at_most=True),))
