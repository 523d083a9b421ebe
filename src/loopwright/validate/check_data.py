"""The data check: compiled code computes the numbers that the program computes.

Inputs are small whole numbers. Where no operation rounded (slack 0, see ir/rounding) the bits must
agree; where some did, results may lie a few slacks apart: machines fuse products with sums. Signs
of zeros count unless sums may be reassociated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from loopwright.ir.program import Role
from loopwright.validate.difference import Difference, DifferenceKind
from loopwright.validate.reference_run import Arrays, ReferenceRun

__all__ = ["Runner", "check_data", "compare_arrays", "first_difference"]

Runner: TypeAlias = Callable[[Arrays, Mapping[str, int]], None]  # changes the arrays in place

_MOST_SLACKS = 16.0  # by which numbers may differ
_Data: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def check_data(
    reference: ReferenceRun, run: Runner, name: str, *, threads: int = 1
) -> tuple[Difference, ...]:
    """The first difference of each array between a run of `run` and the reference run."""
    arrays = reference.fresh()
    run(arrays, dict(reference.params))
    return compare_arrays(reference, arrays, name, threads=threads)


def compare_arrays(
    reference: ReferenceRun, arrays: Arrays, name: str, *, threads: int = 1
) -> tuple[Difference, ...]:
    """The first difference of each array after a run from the reference run."""
    found: list[Difference] = []
    for array in reference.program.arrays:
        if array.role is Role.LOCAL:
            continue
        slack = reference.rules.slack(array.name)
        ignored = ~reference.rules.touched(array.name) if array.role is Role.OUT else None
        place = first_difference(
            arrays[array.name],
            reference.results[array.name],
            slack,
            signed_zeros=not reference.program.reassoc,
            ignored=ignored,
        )
        if place is not None:
            found.append(
                _difference(reference, array.name, place, arrays[array.name], name, threads)
            )
    return tuple(found)


def first_difference(
    found: _Data,
    expected: _Data,
    slack: _Data | float,
    *,
    signed_zeros: bool,
    ignored: _Data | None = None,
) -> tuple[int, ...] | None:
    """The first element that is not what it should be; None when all are.

    NaN equals NaN; `slack` says how much rounding may have moved the expected numbers.
    """
    if _has_bits_of(found, expected):
        return None
    if expected.dtype.kind not in "fc":
        wrong = np.asarray(found != expected) & np.isfinite(slack)
    else:
        wrong = np.zeros(expected.shape, bool)
        for mine, right in ((found.real, expected.real), (found.imag, expected.imag)):
            wrong |= _is_wrong(mine, right, slack, signed_zeros)
    if ignored is not None:
        wrong &= ~ignored
    places = np.argwhere(wrong)
    return tuple(map(int, places[0])) if len(places) else None


def _has_bits_of(found: _Data, expected: _Data) -> bool:
    """Whether two arrays are equal bit by bit: a quick test for the common case."""
    size = expected.dtype.itemsize
    if found.dtype != expected.dtype or size > 8:
        return False
    bits = f"u{size}"
    return bool(np.array_equal(found.view(bits), expected.view(bits)))


def _is_wrong(found: _Data, right: _Data, slack: _Data | float, signed_zeros: bool) -> _Data:
    with np.errstate(all="ignore"):
        same = (found == right) | (np.isnan(found) & np.isnan(right))
        if signed_zeros:
            # A zero that rounding may have reached from either side has no sign of its own.
            exact = np.asarray(slack) == 0
            same &= ~exact | np.isnan(right) | (np.signbit(found) == np.signbit(right))
        tolerance = _MOST_SLACKS * np.asarray(slack)
        near = (tolerance > 0) & (np.abs(found - right) <= tolerance)
        return np.asarray(~(same | near | np.isinf(tolerance)))


def _difference(
    reference: ReferenceRun,
    array: str,
    place: tuple[int, ...],
    found: _Data,
    name: str,
    threads: int,
) -> Difference:
    right = reference.results[array][place]
    data = reference.results[array]
    offset = sum(
        at * stride for at, stride in zip(place, reference.rules.strides[array], strict=True)
    )
    writer = reference.rules.writer(array, offset)
    by = "on entry" if writer is None else f"by {writer[0]}[{', '.join(map(str, writer[1]))}]"
    return Difference(
        DifferenceKind.DATA,
        name,
        reference.params,
        threads,
        f"{array}[{', '.join(map(str, place))}]" if data.ndim else array,
        f"should be {right!s} {by}",
        str(found[place]),
        span=None if writer is None else reference.program.statement(writer[0]).span,
    )
