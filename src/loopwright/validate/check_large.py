"""Checks at sizes of several tiles: compiled code against the program in its source order.

The interpreter is too slow for such sizes; it has compared the source order with the program at
small ones. Value numbers (validate/value_numbers) tell whether every element is computed from the
same values; numbers are compared up to rounding.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from loopwright.ir.program import Program, Role
from loopwright.validate.check_data import Runner, first_difference
from loopwright.validate.difference import Difference, DifferenceKind
from loopwright.validate.reference_run import Arrays, Signs, draw_inputs

__all__ = ["compare_numbers", "compare_value_numbers"]

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
