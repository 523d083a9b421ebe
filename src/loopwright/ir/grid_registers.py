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

A step of two instructions, such as that of (min, +), keeps sums until their minimum is taken: it
needs 4 more, and where asynchronous copies go element by element, their addresses are in its way.
With 255 registers one step at a time fits where all of them do not. On sm_80 such steps need 12
more, and minima of float64, three instructions each, spill where all steps are in the code.

What most compilers put into memory first is what only the end of a kernel needs: where its tile
lies, and the thread in it. Where little is left, the end computes it again (`ends_anew`).
"""

from __future__ import annotations

from dataclasses import replace

from loopwright.ir.expr import SATURATING
from loopwright.ir.grid_kernel import GridKernel, GridVariant
from loopwright.ir.kernel_variant import Algebra, Initial

__all__ = [
    "ends_anew",
    "fitted",
    "fitting_copies",
    "is_short_of_registers",
    "relieved",
    "spare_registers",
]

_MOST = 255  # of a thread
_ALL = 1 << 16  # of a multiprocessor
_UNIT = 8  # a thread has multiples of it
_TIGHT = 128  # registers of a thread, where fewer steps in the code help
# Spare registers that are needed, by whether tiles pass through registers: of threads that have
# more of them, and for each number of steps in the code, 0 for all of a tile.
_WHOLE = {True: 60, False: 40}
_NEEDED = {True: ((0, 60), (2, 36), (1, 24)), False: ((0, 20), (1, -4))}
_OLD, _TABLES, _RUN = 8, 12, 4  # old elements of out; their offsets; those that are stored at once
_LATE = 16  # old elements by tables, which compilers read beside the first asynchronous copies
_NEW = (9, 0)  # compute capability of which the table tells
_PAIR, _PAIR_OF_OLD = 4, 12  # for steps of two instructions; before that capability
_APART_OF_OLD = 4  # before that capability, where elements of a run are steps apart
_FEW_STEPS = 4  # in the code, where a minimum is three instructions
# Registers that are left where ends are computed anew: so few; with tables; with such steps.
_FEW, _FEW_OF_TABLES, _FEW_OF_PAIRS = 8, 16, 40
_ROOM = 45  # for steps of several instructions, where nothing fits
_LEAST_DEPTH = 4
_STEPS = {1: 40, 2: 88, 4: 88}  # by words of a sum: of operators that are several instructions
_SLICE = 4  # where groups of threads share out the steps


def fitting_copies(kernel: GridKernel, capability: tuple[int, int] = _NEW) -> int | None:
    """The steps of a tile that the code may repeat, 0 for all; None where nothing fits.

    `capability` is that of the machine, of whose instructions there are more on newer ones.
    """
    variant = kernel.variant
    if variant.uses_mma or not variant.in_registers or variant.registers:
        return 0
    spare, choices = spare_registers(kernel), _choices(kernel, capability)
    return next((copies for copies, needed in choices if spare >= needed), None)


def _choices(kernel: GridKernel, capability: tuple[int, int]) -> tuple[tuple[int, int], ...]:
    """Steps in the code, 0 for all of a tile, and the spare registers that each number needs."""
    variant, algebra = kernel.variant, kernel.algebra
    passes = variant.stages == 2
    if not _is_pair(algebra):
        if is_short_of_registers(variant):
            return _NEEDED[passes]
        is_compared = _words(algebra.accumulator.bytes) > 1 and algebra.plus in ("min", "max")
        if max(variant.left_apart, variant.right_apart) > 1 and capability < _NEW:
            return ((0, _WHOLE[passes] + _APART_OF_OLD), (1, _WHOLE[passes]))
        return ((_FEW_STEPS if is_compared else 0, _WHOLE[passes]),)
    more = 0 if capability >= _NEW else _PAIR_OF_OLD
    if is_short_of_registers(variant):
        more += _PAIR + (0 if passes else _single_runs(variant))
        return tuple((n, needed + (more if n != 1 else 0)) for n, needed in _NEEDED[passes])
    every = ((0, _WHOLE[passes] + more),) if passes else ()
    return (*every, (1, _WHOLE[passes]))


def ends_anew(kernel: GridKernel, capability: tuple[int, int] = _NEW) -> bool:
    """Whether so little is left of the registers that the end should compute its places again."""
    variant = kernel.variant
    if variant.uses_mma or not variant.in_registers or variant.registers:
        return False
    needed = dict(_choices(kernel, capability)).get(variant.copies, 0)
    if _is_pair(kernel.algebra):
        few = _FEW_OF_PAIRS
    elif variant.has_stride("p"):
        few = _FEW
    else:
        few = _FEW_OF_TABLES if variant.stages > 2 else -1
    return spare_registers(kernel) - needed <= few


def fitted(kernel: GridKernel) -> GridVariant:
    """The variant with as many steps in the code as fit; with fewer blocks where none do.

    Where that is not enough for steps of several instructions, tiles that pass through registers
    are shallower.
    """
    variant, copies = kernel.variant, fitting_copies(kernel)
    if copies is None and variant.resident > 1:
        return fitted(replace(kernel, variant=replace(variant, resident=variant.resident - 1)))
    if copies is None and _is_several(kernel.algebra) and variant.stages == 2:
        room = spare_registers(kernel) + _STEPS[_words(kernel.algebra.accumulator.bytes)]
        shallow = replace(variant, depth=variant.depth // 2)
        if room < _ROOM and shallow.depth >= _LEAST_DEPTH and _is_shared_out(shallow):
            return fitted(replace(kernel, variant=shallow))
    return replace(variant, copies=1 if copies is None else copies, ends_anew=copies is None)


def relieved(variant: GridVariant) -> tuple[GridVariant, ...]:
    """Variants of the same tile that need fewer registers at a time, in the order to try them."""
    if variant.uses_mma or not variant.in_registers:
        return ()
    anew = replace(variant, ends_anew=True)
    found = [anew, replace(anew, copies=1, is_early=False)]
    if variant.resident > 1:
        found.append(replace(anew, resident=variant.resident - 1))
    return tuple(other for other in found if other != variant)


def _is_shared_out(variant: GridVariant) -> bool:
    """Whether all threads load equally many runs of both tiles."""
    sides = ((variant.rows, variant.left_width), (variant.columns, variant.right_width))
    return all(extent * variant.depth % (w * variant.threads) == 0 for extent, w in sides)


def _single_runs(variant: GridVariant) -> int:
    """The elements of a thread that are copied one by one, across a tile."""
    sides = (
        (variant.rows, variant.left_width, variant.left_along_p),
        (variant.columns, variant.right_width, variant.right_along_p),
    )
    return sum(extent * variant.depth // variant.threads for extent, width, along in sides if along)


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
        used += own * words + runs * (1 if v.has_stride("p") else 2)
        used += runs * width * words if v.stages == 2 else 0
    if algebra.initial is not Initial.ZERO and not v.joins:
        used += _OLD + 2 * algebra.scaled
        used += 0 if v.has_stride("i") and v.has_stride("j") else _TABLES
        used += _RUN if v.out_width > 1 else 0
        is_late = v.stages > 2 and not v.has_stride("p") and not is_short_of_registers(v)
        used += _LATE if is_late else 0
    if _is_several(algebra):
        used += _STEPS[_words(algebra.accumulator.bytes)]
    return _cap(v) - used - (_SLICE if v.slices > 1 else 0)


def _is_pair(algebra: Algebra) -> bool:
    """Whether a product and its sum are an instruction each, not one for both."""
    return not _is_several(algebra) and (algebra.plus, algebra.times) != ("add", "mul")


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
