"""The reference run of a program at given sizes: inputs, results, how each was computed."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeAlias

import numpy as np

from loopwright.ir.evaluate import evaluate
from loopwright.ir.interpret import interpret_program
from loopwright.ir.memory import element_strides
from loopwright.ir.program import Program, Role
from loopwright.ir.shadow import ShadowRules
from loopwright.ir.terms import Terms
from loopwright.lazy_dataclass import dataclass

__all__ = ["Arrays", "ReferenceRun", "Signs", "draw_inputs", "run_reference"]

Arrays: TypeAlias = dict[str, np.ndarray[Any, np.dtype[Any]]]

# Elements between the rows of an argument: strides that are taken for granted show.
_GAP = 2
_LARGEST = 3


class Signs(Enum):
    """The signs of the inputs, on which the control flow of a program may depend."""

    ANY = "any"
    POSITIVE = "positive"  # at least 1
    NEGATIVE = "negative"  # at most -1, where the type has such numbers


@dataclass(frozen=True, slots=True)
class ReferenceRun:
    """The program run once in source order by the interpreter."""

    program: Program
    params: tuple[tuple[str, int], ...]
    signs: Signs
    inputs: Arrays  # before the run; rows lie apart
    results: Arrays  # after it
    rules: ShadowRules  # value numbers and slacks of the results

    @property
    def terms(self) -> Terms:
        return self.rules.terms

    def fresh(self) -> Arrays:
        """The inputs in memory of their own, laid out alike."""
        return {name: _like(data) for name, data in self.inputs.items()}


def run_reference(
    program: Program, params: Mapping[str, int], *, seed: int = 0, signs: Signs = Signs.ANY
) -> ReferenceRun:
    """Run `program` by the interpreter; raises InternalError where it reads undefined memory."""
    inputs = draw_inputs(program, params, seed=seed, signs=signs)
    results = {name: _like(data) for name, data in inputs.items()}
    strides = {name: element_strides(data) for name, data in inputs.items()}
    rules = ShadowRules(Terms(reassociate=program.reassoc), strides)
    interpret_program(program, results, params, rules)
    rules.now = None
    return ReferenceRun(program, tuple(params.items()), signs, inputs, results, rules)


def draw_inputs(
    program: Program, params: Mapping[str, int], *, seed: int, signs: Signs = Signs.ANY
) -> Arrays:
    """Small whole numbers, whose sums and products are exact."""
    random = np.random.default_rng(seed)
    arrays: Arrays = {}
    for array in program.arrays:
        if array.role is Role.LOCAL:
            continue
        shape = tuple(max(0, int(evaluate(extent, params))) for extent in array.shape)
        drawn = np.asarray(random.integers(1, _LARGEST + 1, shape))
        if array.dtype.kind in "bu":
            drawn = drawn - 1 if signs is Signs.ANY else drawn
        elif signs is not Signs.POSITIVE:
            is_any = signs is Signs.ANY
            drawn = drawn * (random.integers(-1, 2, shape) if is_any else -1)
        arrays[array.name] = _with_gaps(np.asarray(drawn, array.dtype.name))
    return arrays


def _with_gaps(data: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[Any]]:
    """A copy of `data` whose rows have a gap between them."""
    if data.ndim < 2:
        return data
    room = np.zeros((*data.shape[:-1], data.shape[-1] + _GAP), data.dtype)
    view = room[..., : data.shape[-1]]
    view[...] = data
    return view


def _like(data: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[Any]]:
    """A copy with the same strides."""
    return _with_gaps(data.copy())
