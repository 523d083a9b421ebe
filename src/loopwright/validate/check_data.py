"""The data check: compiled code computes the numbers that the program computes.

Inputs are small whole numbers. Where no operation rounded (slack 0, see ir/shadow) the bits must
agree; where some did, results may lie a few slacks apart: machines fuse products with sums. Signs
of zeros count unless sums may be reassociated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from loopwright.ir.program import Program, Role
from loopwright.validate.difference import Difference, DifferenceKind
from loopwright.validate.reference_run import Arrays, ReferenceRun, Signs, draw_inputs

__all__ = [
    "Runner",
    "check_data",
    "compare_arrays",
    "compare_numbers",
    "compare_value_numbers",
    "first_difference",
]

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


# -- checks at sizes of several tiles: compiled code against the program in its source order ------
# The interpreter is too slow for such sizes; it has compared the source order with the program at
# small ones. Value numbers (validate/value_numbers) tell whether every element is computed from the
# same values; numbers are compared up to rounding.


# Rounding of long sums, relative to the largest result.
_TOLERANCE = {8: 1e-10, 4: 1e-4, 2: 0.1}
_PERTURBED = 64.0  # times the effect of perturbed inputs


def compare_value_numbers(
    program: Program,
    original: Runner,
    run: Runner,
    params: Mapping[str, int],
    *,
    threads: int = 1,
    seed: int = 0,
) -> tuple[Difference, ...]:
    """Where two nests of a program leave different value numbers; both run on value numbers."""
    random = np.random.default_rng(seed)
    shapes = draw_inputs(program, params, seed=seed)
    numbers = {
        name: np.asarray(random.integers(0, 2**64, data.shape, np.uint64))
        for name, data in shapes.items()
    }
    expected, found = _copies(numbers), _copies(numbers)
    original(expected, params)
    run(found, params)
    return _differences(
        program, DifferenceKind.ORDER, "value numbers", params, threads, expected, found, {}
    )


def compare_numbers(
    program: Program,
    original: Runner,
    runners: Mapping[str, Runner],
    params: Mapping[str, int],
    *,
    seed: int = 0,
    signs: Signs = Signs.ANY,
) -> tuple[Difference, ...]:
    """Where the results of `runners` differ from the source order by more than rounding.

    The effect of rounding is estimated by a second run of the source order, on inputs that are
    perturbed by some units in the last place.
    """
    inputs = draw_inputs(program, params, seed=seed, signs=signs)
    expected, perturbed = _copies(inputs), _perturbed(inputs, seed)
    original(expected, params)
    original(perturbed, params)
    slacks = {name: _slack(right, perturbed[name]) for name, right in expected.items()}
    differences: list[Difference] = []
    for name, run in runners.items():
        found = _copies(inputs)
        run(found, params)
        differences += _differences(
            program, DifferenceKind.DATA, name, params, 1, expected, found, slacks
        )
    return tuple(differences)


def _perturbed(arrays: Arrays, seed: int) -> Arrays:
    """Copies whose floating numbers are perturbed by some units in the last place."""
    random = np.random.default_rng(seed)
    found = _copies(arrays)
    for data in found.values():
        if data.dtype.kind in "fc":
            unit = 4 * np.finfo(data.dtype).eps
            data += (data * (unit * random.choice((-1, 1), data.shape))).astype(data.dtype)
    return found


def _copies(arrays: Arrays) -> Arrays:
    return {name: data.copy() for name, data in arrays.items()}


def _differences(
    program: Program,
    kind: DifferenceKind,
    runner: str,
    params: Mapping[str, int],
    threads: int,
    expected: Arrays,
    found: Arrays,
    slacks: Mapping[str, np.ndarray],
) -> tuple[Difference, ...]:
    differences = []
    for array in program.arrays:
        if array.role is Role.LOCAL:
            continue
        name, right = array.name, expected[array.name]
        slack = slacks.get(name, 0.0)
        place = first_difference(found[name], right, slack, signed_zeros=False)
        if place is None:
            continue
        element = f"{name}[{', '.join(map(str, place))}]"
        if kind is DifferenceKind.ORDER:
            text = "should be computed as in source order", "a value computed otherwise"
        else:
            text = f"should be about {right[place]}", str(found[name][place])
        differences.append(Difference(kind, runner, tuple(params.items()), threads, element, *text))
    return tuple(differences)


def _slack(expected: np.ndarray, perturbed: np.ndarray) -> np.ndarray:
    """The tolerance of each result, from its change under perturbed inputs."""
    with np.errstate(all="ignore"):
        if expected.dtype.kind not in "fc":
            return np.where(expected == perturbed, 0.0, np.inf)
        finite = np.isfinite(expected) & np.isfinite(perturbed)
        largest = float(np.max(np.abs(expected), where=finite, initial=1.0))
        slack = _TOLERANCE[expected.real.dtype.itemsize] * largest
        slack = slack + _PERTURBED * np.abs(expected - perturbed)
        # What overflowed in one order may not in another.
        return np.where(finite, slack, np.inf)
