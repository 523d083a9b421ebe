"""The corpus as others use it: kernels, their inputs, and what plain C makes of them.

    kernel = KERNELS["gemm"]
    inputs = make_inputs(kernel, kernel.at("MINI"))
    expected = reference(kernel, inputs)  # the arrays after the call; None without a compiler

Inputs are a dict in the order of the C parameters. `write_source` gives a file in any mode, for
any extents and element type, to compile by other means.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from kernels.build import (
    CONSTANT,
    LITERAL,
    MODES,
    SYMBOLIC,
    Compiled,
    Mode,
    bind,
    link,
    system_compiler,
    write_source,
)
from kernels.inputs import make_inputs
from kernels.manifest import KERNELS, SIZE_CLASSES, Array, Inputs, Kernel, Sizes

__all__ = [
    "CONSTANT",
    "KERNELS",
    "LITERAL",
    "MODES",
    "SIZE_CLASSES",
    "SYMBOLIC",
    "Array",
    "Inputs",
    "Kernel",
    "Mode",
    "Sizes",
    "arrays_of",
    "differences",
    "fresh",
    "make_inputs",
    "reference",
    "reference_call",
    "write_source",
]

# Every operation as written: no contraction to fma, no reordering.
PLAIN = ("-std=c99", "-O1", "-ffp-contract=off")
# How far apart results may be where their bits need not be equal, relative to the largest.
_TOLERANCE = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-3}


def reference(
    kernel: Kernel,
    inputs: Inputs,
    *,
    dtype: str | None = None,
    extents: Mapping[str, int] | None = None,
    function: str | None = None,
) -> dict[str, Any] | None:
    """The arrays after a call of the original C on copies of `inputs`; None without a compiler.

    `extents` must be told where the arrays are larger than the sizes, as for make_inputs.
    """
    fixed = None if extents is None else tuple(sorted(extents.items()))
    call = reference_call(kernel, dtype or kernel.dtype, fixed, function)
    if call is None:
        return None
    copies = fresh(inputs)
    call(*copies.values())
    return arrays_of(copies)


@cache
def reference_call(
    kernel: Kernel,
    dtype: str,
    extents: tuple[tuple[str, int], ...] | None = None,
    function: str | None = None,
) -> Compiled | None:
    """The original C, compiled plainly: for any sizes, or for arrays of constant extents."""
    compiler = system_compiler()
    if compiler is None:
        return None
    mode = SYMBOLIC if extents is None else CONSTANT
    with tempfile.TemporaryDirectory() as folder:
        given = None if extents is None else dict(extents)
        source = write_source(kernel, Path(folder), dtype=dtype, mode=mode, extents=given)
        library = link([compiler, *PLAIN], [source])
    return bind(library, kernel, dtype, function)


def fresh(inputs: Inputs) -> Inputs:
    """The same inputs with arrays of their own."""
    return {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in inputs.items()}


def arrays_of(inputs: Inputs) -> dict[str, Any]:
    """The arrays among the inputs."""
    return {name: value for name, value in inputs.items() if isinstance(value, np.ndarray)}


def differences(
    kernel: Kernel,
    found: Mapping[str, Any],
    expected: Mapping[str, Any],
    *,
    same_order: bool = False,
) -> list[str]:
    """What is wrong with `found`, one line per array; empty when nothing is.

    Bits must be equal where the kernel's data are exact, and where `same_order` says that sums
    were not reordered and the kernel does not depend on contraction.
    """
    strict = kernel.bits == "exact" or (kernel.bits == "ordered" and same_order)
    lines = []
    for name, given in expected.items():
        right = np.asarray(given)
        tolerance = 0.0 if strict else _TOLERANCE.get(right.dtype, 0.0)
        wrong = _wrong(np.asarray(found[name]), right, tolerance)
        if wrong:
            lines.append(f"{kernel.name}: {name}: {wrong}")
    return lines


def _wrong(found: Any, right: Any, tolerance: float) -> str:
    """How `found` differs from `right`, in words; empty when it does not."""
    if (found.shape, found.dtype) != (right.shape, right.dtype):
        return f"{found.dtype}{found.shape}, expected {right.dtype}{right.shape}"
    if tolerance == 0.0 or right.dtype.kind != "f":
        equal = (found == right) | ((found != found) & (right != right))
    else:
        finite = np.isfinite(right)
        allowed = tolerance * float(np.max(np.abs(right), where=finite, initial=1.0))
        equal = np.isclose(found, right, rtol=tolerance, atol=allowed, equal_nan=True)
    bad = np.argwhere(~equal)
    if not len(bad):
        return ""
    at = tuple(map(int, bad[0]))
    return f"{len(bad)} of {right.size} differ, first {list(at)}: {found[at]}, expected {right[at]}"
