"""Nests for a GPU as OpenCL text, run by a driver, as `validate` runs compiled forms of a nest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from loopwright.backends.c_text.c_dialect import OPENCL
from loopwright.backends.device_text.device_module import emit_kernels
from loopwright.diagnostics import UsageError
from loopwright.ir.loops import LoopNest
from loopwright.lower.grid_nests.split_kernels import split_kernels
from loopwright.runtime.opencl_executable import OpenclExecutable, opencl_context
from loopwright.validate.check_data import Runner
from loopwright.validate.check_order import launch_of
from loopwright.validate.reference_run import Arrays

__all__ = ["ROUND_EACH", "opencl_runners", "why_not_opencl"]

# Products and sums are rounded one by one, as the interpreter does.
ROUND_EACH = "#pragma OPENCL FP_CONTRACT OFF\n"


def why_not_opencl() -> str:
    """What is missing to run OpenCL here; empty where a driver is there."""
    try:
        opencl_context()
    except UsageError as error:
        return error.message
    return ""


class _OfOneText(OpenclExecutable):
    """An executable that shares what the driver made of its text with others of the same text."""

    def __init__(self, *args: Any, made: dict[str, Any]) -> None:
        super().__init__(*args)
        self._made = made

    def _built(self, index: str) -> Any:
        if index not in self._made:
            self._made[index] = super()._built(index)
        return self._made[index]


def opencl_runners(nests: Sequence[LoopNest]) -> tuple[Runner, ...]:
    """The emitted OpenCL text of nests, built as one program; one build serves all of them."""
    named = [replace(nest, name=f"kernel_{at}") for at, nest in enumerate(nests)]
    programs = [split_kernels(nest) for nest in named]
    text = ROUND_EACH + emit_kernels(programs, OPENCL)
    context, made = opencl_context(), dict[str, Any]()
    return tuple(
        _runner(nest, _OfOneText(program, text, context, made=made))
        for nest, program in zip(named, programs, strict=True)
    )


def _runner(nest: LoopNest, executable: OpenclExecutable) -> Runner:
    def run(arrays: Arrays, params: Mapping[str, int]) -> None:
        packed = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        scalars = tuple(launch_of(nest, packed, params).values())
        executable.run_from_host([arrays[b.name] for b in nest.buffers], lambda _: scalars)

    return run
