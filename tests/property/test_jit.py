"""Random functions of loops: compiled code does what Python does, on one thread and on two."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import loopwright as lw
from calls.comparison import assert_same, clone
from drawn import in_all
from frontends.kernels import bind, compiled
from loopwright.analysis.subscript_bounds import find_violation
from loopwright.diagnostics import SourceError
from property.python_functions import PythonFunction, python_functions

EXAMPLES = settings(max_examples=max(8 if in_all() else 4, settings().max_examples // 10))
# What rounds is replaced by what does not: then results do not depend on fused multiply-adds.
EXACT = (("/ 3", "/ 4"), ("math.sqrt(", "float("), ("/=", "+="), ("** 2", "* 2"), ("*=", "-="))


def exact(kernel: PythonFunction) -> PythonFunction:
    """A floating function without operations that round small multiples of powers of two."""
    text = kernel.text
    for old, new in EXACT:
        text = text.replace(old, new)
    return replace(kernel, text=text)


def arguments(kernel: PythonFunction, n: int, seed: int) -> tuple[Any, ...]:
    *arrays, size, x = kernel.arguments(n, seed)
    if kernel.kind == "int":
        return (*arrays, size, x)
    rng = np.random.default_rng(seed)
    return (*(rng.integers(-4, 5, a.shape).astype(a.dtype) for a in arrays), size, 0.5)


def is_exact(args: tuple[Any, ...]) -> bool:
    """Whether what Python left fits the floating types with bits to spare."""
    for array in args[:3]:
        fraction, whole = (8, 14) if array.dtype == "float32" else (20, 30)
        scaled = array.astype("float64") * 2.0**fraction
        if not np.all(np.abs(array) < 2.0**whole) or np.any(scaled != np.rint(scaled)):
            return False
    return True


@EXAMPLES
@given(python_functions(), st.sampled_from([0, 1, 4, 7]), st.integers(0, 3))
def test_compiled_is_python(kernel: PythonFunction, n: int, seed: int) -> None:
    if kernel.kind == "float":
        kernel = exact(kernel)
    function, args = kernel.define(), arguments(kernel, n, seed)
    tree, program = compiled(function, *args)
    fault = find_violation(program, bind(tree, args)[1])
    plain = tuple(map(clone, args))
    for threads in (1, 2):
        ours = tuple(map(clone, args))
        if fault is not None:
            with pytest.raises(SourceError) as refusal:
                lw.jit(threads=threads)(function)(*ours)
            assert refusal.value.diagnostics == (fault,)
            assert_same(ours, args)
            continue
        result = lw.jit(threads=threads)(function)(*ours)
        if threads == 1:
            with np.errstate(all="ignore"):
                expected = function(*plain)
        if kernel.kind == "int" or is_exact(plain):
            assert_same(ours, plain)
            assert_same(result, expected)
