"""`jit` functions on arrays of a CUDA device: they run where the arrays lie.

As with compiled functions, arrays of CuPy, PyTorch, Numba or DLPack are used in place, in the
current stream of their library, and the call does not wait. Arrays that the function makes are made
by the library of its first array; a number that it returns is an array of rank 0, since to read it
would be to wait.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from loopwright.calls.arguments import Signature
from loopwright.calls.device_code import DeviceCode
from loopwright.diagnostics import UsageError
from loopwright.frontends.python import ArgType, argument_types, is_unchanged, parse_function
from loopwright.ir.dtypes import DTYPES
from loopwright.log import log
from loopwright.machines.machine_argument import target_gpu
from loopwright.memo import BoundedCache
from loopwright.planner.planners import given_planner
from loopwright.runtime.cuda_driver import cuda_device
from loopwright.runtime.device_arrays import (
    DeviceArray,
    device_array,
    empty_like_arguments,
    is_device_array,
    overlap,
)

if TYPE_CHECKING:
    from loopwright.transform.plan import Plan

__all__ = ["DeviceJit", "any_on_device"]

_MOST_SIGNATURES = 256


def any_on_device(args: tuple[Any, ...]) -> bool:
    """Whether an argument is an array that lies on a CUDA device."""
    return any(map(is_device_array, args))


class DeviceJit:
    """A Python function for arrays of devices, compiled by types of arguments and architecture."""

    def __init__(self, function: FunctionType, plan: Plan | None, *, reassoc: bool) -> None:
        self._function = function
        self._plan = plan
        self._reassoc = reassoc
        self._found: BoundedCache[tuple[Any, ...], _Code] = BoundedCache(_MOST_SIGNATURES)

    def __call__(self, args: tuple[Any, ...]) -> Any:
        views = _views(args)
        return self._code(args, views)(args, views)

    def code(self, args: tuple[Any, ...]) -> DeviceCode:
        """The code for the types of these arguments, on the device of the first array."""
        return self._code(args, _views(args)).code

    def _code(self, args: tuple[Any, ...], views: Mapping[int, DeviceArray]) -> _Code:
        types = tuple(
            ArgType.array(views[k].dtype.name, len(views[k].shape))
            if k in views
            else argument_types((arg,))[0]
            for k, arg in enumerate(args)
        )
        arch = cuda_device(next(iter(views.values())).device).arch
        key = types, arch
        found = self._found.get(key)
        if found is None or not is_unchanged(self._function, found.captured):
            name = self._function.__qualname__
            log("recompile", lambda: f"{name} for arrays of a device of {arch}")
            tree = parse_function(self._function, types)
            planner = None if self._plan is None else given_planner(self._plan)
            code = DeviceCode.of_tree(
                tree, planner, "cuda", target_gpu(arch=arch), reassoc=self._reassoc
            )
            found = self._found[key] = _Code(code, tree.captured)
        return found


class _Code:
    """The code for one tuple of argument types."""

    def __init__(self, code: DeviceCode, captured: tuple[tuple[str, object], ...]) -> None:
        self.code = code
        self.captured = captured
        summary = code.summary
        self._names = tuple(argument.name for argument in summary.arguments)
        self._signature = Signature(summary)

    def __call__(self, args: tuple[Any, ...], views: Mapping[int, DeviceArray]) -> Any:
        # Sizes are those of the views: libraries have shapes of their own types.
        shaped = tuple(views.get(k, arg) for k, arg in enumerate(args))
        params = self._signature.params(shaped)
        self._check_apart(views)
        given: dict[str, Any] = dict(zip(self._names, args, strict=True))
        first = list(views.values())
        for name, shape, dtype in self._signature.fresh(params):
            given[name] = empty_like_arguments(first, shape, DTYPES[dtype.name])
        self.code.run(given, params)
        result = self.code.summary.result
        if result is None:
            return None
        values = tuple(given[name] for name in result.names)
        return values if result.is_tuple else values[0]

    def _check_apart(self, views: Mapping[int, DeviceArray]) -> None:
        """What the function writes must lie apart from everything else."""
        written = self._signature.written
        for (k, one), (j, other) in itertools.permutations(views.items(), 2):
            name, second = self._names[k], self._names[j]
            if name in written and overlap(one, other):
                raise UsageError(
                    f"arguments '{name}' and '{second}' share memory, and '{name}' is written",
                    hint="pass a copy of one of them",
                )


def _views(args: tuple[Any, ...]) -> dict[int, DeviceArray]:
    """Views of the arguments that are arrays, by position; all must lie on a device."""
    return {
        k: device_array(arg, f"argument {k + 1}")
        for k, arg in enumerate(args)
        if not isinstance(arg, bool | int | float | complex | np.generic)
    }
