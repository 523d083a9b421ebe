"""What the compiler makes of a call, stage by stage, for a machine that one need not own.

Nothing that is recorded runs: kernels are replaced by ones that compute nothing, so that code for
another instruction set is planned, lowered and emitted here, but neither assembled nor called.

This file alone knows how the compiler is built inside; the corpus uses public functions.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from typing import Any

# No kernel of an earlier process is wanted, and a fault of planning must show.
os.environ.update({"LOOPWRIGHT_CACHE": "0", "LOOPWRIGHT_STRICT": "1"})
os.environ["CC"] = "no-compiler"  # what is emitted must not depend on a C compiler of this machine

import numpy as np

import loopwright
from loopwright import kernels, pipeline
from loopwright.backends.llvm import llvm_entry
from loopwright.frontends.c import preprocessor
from loopwright.ir.dtypes import DType
from loopwright.ir.kernel_variant import ContractionKernel
from loopwright.ir.loops import LoopNest, Space
from loopwright.ir.machine import Machine
from loopwright.machines.host import host as detected_host
from loopwright.machines.load import load_machine
from loopwright.memo import BoundedCache
from loopwright.sparse.executors import executor

__all__ = ["STAGES", "Stages", "forget_calls", "recorded", "target_machine"]

STAGES = ("plan", "loops", "c", "llvm")  # in the order in which the compiler makes them
Stages = dict[str, str]


def target_machine(name: str) -> None:
    """Plan and emit for the machine `name` from now on, in this process.

    Compiled code, plans and models are remembered without the machine they were made for, so a
    process compiles for one machine only.
    """
    machine = load_machine(name)

    def host() -> Machine:
        return machine

    _import_all()
    _replace_everywhere(detected_host, host)
    _replace_everywhere(kernels._load, _RECORDER.load)
    _replace_everywhere(pipeline.compile_program, _recording_plans(pipeline.compile_program))
    # C is read without the system's preprocessor; plain `char` is that of the target's compilers.
    _replace_everywhere(preprocessor._find, lambda compiler: None)
    _replace_everywhere(preprocessor._is_char_signed, lambda args: machine.isa == "x86_64")
    # Index arrays are validated by kernels, which do not run: those of the corpus are valid.
    _replace_everywhere(executor.require_valid, lambda tensor: None)
    # The size of the header of Python's objects: builds without the global lock have a larger one.
    llvm_entry.DATA_OFFSET = 16


def recorded(call: Callable[[], object]) -> Stages:
    """The stages of all kernels that `call` asks for; none of them runs."""
    forget_calls()
    _RECORDER.clear()
    call()
    return _RECORDER.stages()


_EXTRAS = ("tuning.gym",)  # modules of optional extras, which compile nothing


def _import_all() -> None:
    """Import every module, so that no lazy import binds a function after it was replaced."""
    for found in pkgutil.walk_packages(loopwright.__path__, "loopwright."):
        if not found.name.endswith(("__main__", *_EXTRAS)):
            importlib.import_module(found.name)


def _modules() -> Iterator[Any]:
    """The modules of the compiler."""
    return (m for name, m in sorted(sys.modules.items()) if name.split(".")[0] == "loopwright")


def _replace_everywhere(old: object, new: object) -> None:
    """Bind `new` to every module-level name of the compiler that is bound to `old`."""
    for module in _modules():
        for name in [name for name, value in vars(module).items() if value is old]:
            setattr(module, name, new)


def forget_calls() -> None:
    """Empty the memories of earlier calls: each entry is compiled as by a new process."""
    for module in _modules():
        for value in vars(module).values():
            if isinstance(value, BoundedCache):
                value.clear()


def _recording_plans(compile_program: Callable[..., Any]) -> Callable[..., Any]:
    """`compile_program`, which also notes the plan that it has taken."""

    def recording(*args: Any, **named: Any) -> Any:
        found = compile_program(*args, **named)
        _RECORDER.plans.append(found.plan.dumps())
        return found

    return recording


@dataclass(slots=True)
class _Recorder:
    """The kernels that were asked for, in place of those that would be compiled."""

    plans: list[str] = field(default_factory=list)
    texts: dict[str, list[str]] = field(default_factory=lambda: {stage: [] for stage in STAGES})

    def clear(self) -> None:
        self.plans = []
        self.texts = {stage: [] for stage in STAGES}

    def stages(self) -> Stages:
        self.texts["plan"] += self.plans
        self.plans = []
        return {stage: "\n".join(parts) for stage, parts in self.texts.items() if parts}

    def load(
        self, key: ContractionKernel | str, checked: bool, make: Callable[[], LoopNest], what: str
    ) -> _Unrun:
        """Stands in for the function that compiles a nest and loads its code."""
        nest = replace(make(), name=kernels.ENTRY)
        self.texts["plan"] += self.plans
        self.plans = []
        if isinstance(key, ContractionKernel):
            self.texts["plan"].append(_values_text(key))
        for stage in ("loops", "llvm"):
            self.texts[stage].append(kernels.stage_text(nest, stage, kernels.host()))
        return _Unrun(nest, self.texts["plan"])


_RECORDER = _Recorder()


def _values_text(noun: object) -> str:
    """The values of a noun without the names of its class and fields, which may be renamed."""
    return json.dumps(_values(noun), default=str)


def _values(value: object) -> object:
    match value:
        case DType():
            return value.name
        case Enum():
            return value.value
        case tuple() | list():
            return [_values(member) for member in value]
        case _ if is_dataclass(value):
            return [_values(getattr(value, f.name)) for f in fields(value)]
    return value


class _Unrun:
    """A kernel that notes the values it is bound to and computes nothing."""

    needs_memory = True

    def __init__(self, nest: LoopNest, notes: list[str]) -> None:
        self.buffers = tuple(b.name for b in nest.buffers if b.space is Space.GLOBAL)
        self.scalars = nest.scalars
        self.is_parallel = kernels._is_parallel(nest)
        self._notes = notes

    def alone(self, names: Sequence[str]) -> None:
        """None: a call must bind the kernel first."""

    def bind(
        self,
        values: dict[str, int],
        table: np.ndarray[Any, np.dtype[np.int64]],
        threads: int = 1,
        pool: object = None,
    ) -> _UnrunLaunch:
        launch = [int(values[name]) for name in self.scalars if name in values]
        count = threads if self.is_parallel else 1
        self._notes.append(f"threads {count}, launch {launch}, table {table.tolist()}")
        return _UnrunLaunch(count)


@dataclass(frozen=True, slots=True)
class _UnrunLaunch:
    """A launch that computes nothing."""

    threads: int

    def __call__(self, *arrays: object) -> None:
        return None

    def quick(self, exchange: bool = False) -> _UnrunLaunch:
        return self

    def bare(self) -> None:
        """None: there is no code to call."""
