"""Random NumPy functions mean as Procedures, interpreted and compiled, what Python computes."""

import copy
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from drawn_functions import DrawnFunction
from loopwright.diagnostics import SourceError
from loopwright.frontends.python.fingerprint import argument_types
from loopwright.frontends.python.procedures.read_procedure import read_procedure
from procedure_oracle import compare, interpreted, outcome, variant_of


def python_outcome(drawn: DrawnFunction) -> tuple[Any, tuple[Any, ...]]:
    """What Python gives, and the arguments afterwards."""
    args = copy.deepcopy(drawn.args)
    with np.errstate(all="ignore"):
        return outcome(lambda: drawn.function()(*args)), args


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("start", range(0, 200, 25))
def test_interpreted(start: int) -> None:
    taken = 0
    for seed in range(start, start + 25):
        drawn = DrawnFunction(seed)
        types = argument_types(drawn.args)
        for trusting in (True, False):
            args = copy.deepcopy(drawn.args)
            try:
                procedure = read_procedure(
                    drawn.function(), types, variant_of(args, trusting=trusting)
                )
            except SourceError:
                continue
            found = outcome(lambda: interpreted(procedure, args))  # noqa: B023
            if not isinstance(found, BaseException):
                is_for_python, found = found
                if is_for_python:
                    continue
            expected, changed = python_outcome(drawn)
            taken += 1
            compare(found, expected)
            compare(args, changed)
    assert taken


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(1000, 1012))
def test_compiled(seed: int) -> None:
    drawn = DrawnFunction(seed)
    args = copy.deepcopy(drawn.args)
    compiled = lw.jit(drawn.function(), on_unsupported="python")
    found = outcome(lambda: compiled(*args))
    expected, changed = python_outcome(drawn)
    compare(found, expected, slack=1e-12)
    compare(args, changed, slack=1e-12)
