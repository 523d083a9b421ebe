"""Whether the kernel of a product keeps to the registers of its threads: an estimate.

Compilers put into memory what does not fit (spills). They need registers beside those that a kernel
names: factors of the next step while this one is computed, addresses, old elements of out. `spare`
is what is left for these; how much of it a kernel needs was read off `ptxas -v` (13.0, sm_80 and
sm_90; `scripts/gpu_registers.py` lists all tiles of the planners):

    steps in the code      tiles through registers     asynchronous copies
    all, of 255 registers          60                         40
    all, of 128                    60                         20
    two, of 128                    36
    one, of 128                    24                         -4

Where a thread may have 255 registers, fewer steps do not help: loads of the next tile are what lies
long in them.
"""

from __future__ import annotations

from dataclasses import replace

from loopwright.ir.expr import SATURATING
from loopwright.ir.grid_kernel import GridKernel, GridVariant
from loopwright.ir.kernel_variant import Algebra, Initial

__all__ = ["fitted", "fitting_copies", "is_short_of_registers", "spare_registers"]

_MOST = 255  # of a thread
_ALL = 1 << 16  # of a multiprocessor
_UNIT = 8  # a thread has multiples of it
_TIGHT = 128  # registers of a thread, where fewer steps in the code help
# Spare registers that are needed, by whether tiles pass through registers: of threads that have
# more of them, and for each number of steps in the code, 0 for all of a tile.
_WHOLE = {True: 60, False: 40}
_NEEDED = {True: ((0, 60), (2, 36), (1, 24)), False: ((0, 20), (1, -4))}
_OLD, _TABLES, _RUN = 8, 12, 4  # old elements of out; their offsets; those that are stored at once
_STEPS = {1: 40, 2: 88, 4: 88}  # by words of a sum: of operators that are several instructions
_SLICE = 4  # where groups of threads share out the steps


def fitting_copies(kernel: GridKernel) -> int | None:
    """The steps of a tile that the code may repeat, 0 for all; None where nothing fits."""
    variant = kernel.variant
    if variant.uses_mma or not variant.in_registers or variant.registers:
        return 0
    spare = spare_registers(kernel)
    if not is_short_of_registers(variant):
        return 0 if spare >= _WHOLE[variant.stages == 2] else None
    choices = _NEEDED[variant.stages == 2]
    return next((copies for copies, needed in choices if spare >= needed), None)


def fitted(kernel: GridKernel) -> GridVariant:
    """The variant with as many steps in the code as fit; with fewer blocks where none do."""
    variant, copies = kernel.variant, fitting_copies(kernel)
    if copies is None and variant.resident > 1:
        return fitted(replace(kernel, variant=replace(variant, resident=variant.resident - 1)))
    return replace(variant, copies=1 if copies is None else copies)


def is_short_of_registers(variant: GridVariant) -> bool:
    """Whether threads have so few that fewer steps in the code help."""
    return _cap(variant) <= _TIGHT


def spare_registers(kernel: GridKernel) -> int:
    """Registers of a thread beside its sums, factors, what is on its way, and places of runs."""
    v, algebra = kernel.variant, kernel.algebra
    sides = (
        (v.rows, v.left_width, kernel.left, v.thread_rows),
        (v.columns, v.right_width, kernel.right, v.thread_columns),
    )
    used = v.thread_rows * v.thread_columns * _words(algebra.accumulator.bytes)
    for extent, width, dtype, own in sides:
        runs = extent * v.depth // (width * v.threads)
        words = _words(dtype.bytes)
        used += own * words + runs * (1 if "p" in v.strided else 2)
        used += runs * width * words if v.stages == 2 else 0
    if algebra.initial is not Initial.ZERO and not v.joins:
        used += _OLD + 2 * algebra.scaled
        used += 0 if {"i", "j"} <= set(v.strided) else _TABLES
        used += _RUN if v.out_width > 1 else 0
    if _is_several(algebra):
        used += _STEPS[_words(algebra.accumulator.bytes)]
    return _cap(v) - used - (_SLICE if v.slices > 1 else 0)


def _is_several(algebra: Algebra) -> bool:
    """Whether a product and its sum are more than an instruction each."""
    operators = {algebra.plus, algebra.times}
    if any(not isinstance(op, str) or op in SATURATING for op in operators):
        return True
    # Units of 64 bits add, and multiply floating-point numbers.
    total = algebra.accumulator
    is_long = total.bytes == 8 and not total.is_complex
    return is_long and bool(
        operators & ({"min", "max"} if total.is_float else {"min", "max", "mul"})
    )


def _cap(variant: GridVariant) -> int:
    """Registers that a thread may have."""
    blocks = max(1, variant.resident)
    return min(_MOST, _ALL // (blocks * variant.threads) // _UNIT * _UNIT)


def _words(size: int) -> int:
    return max(1, size // 4)
