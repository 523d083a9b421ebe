"""Where NumPy functions come from: a checkout of NPBench, tests/numpy_programs, ordinary.py.

A source names its programs, the presets of each and who can run it. Contestants are `numpy` (the
function itself), `loopwright` (the same under `jit`) and, as `numba_...`, the variants that a
checkout keeps for numba, or our own functions under `njit`.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Protocol

TESTS = Path(__file__).parent.parent.parent / "tests"
if str(TESTS) not in sys.path:
    sys.path.insert(0, str(TESTS))

__all__ = [
    "NUMBA",
    "ORDINARY",
    "OURS",
    "OWN",
    "PLAIN",
    "NpBench",
    "OwnPrograms",
    "Source",
    "Task",
    "source",
]

PLAIN, OURS, NUMBA = "numpy", "loopwright", "numba"
# In place of a folder: the module that has the programs.
OWN, ORDINARY = "own", "ordinary"
_MODULES = {OWN: "numpy_programs.corpus", ORDINARY: "benchmarks.numpy_functions.ordinary"}


def _nothing() -> None:
    """Before the first call of those that need no preparation."""


@dataclass(frozen=True, slots=True)
class Task:
    """A function that a contestant runs, and its arguments."""

    function: Callable[..., Any]
    plain: FunctionType  # without a compiler
    make: Callable[[], tuple[Any, ...]]  # the same arguments each time, in fresh memory
    warm: Callable[[], None] = _nothing  # what a process does before its first call


class Source(Protocol):
    """A collection of programs."""

    def names(self) -> list[str]:
        """All programs."""

    def presets(self, name: str) -> list[str]:
        """The sizes that a program is made for."""

    def contestants(self, name: str) -> list[str]:
        """Who may run a program, installed or not."""

    def task(self, name: str, preset: str, contestant: str) -> Task:
        """What a contestant runs; raises ImportError where it is not installed."""


def source(folder: str) -> Source:
    """The source of a folder, or our own programs."""
    return OwnPrograms(_MODULES[folder]) if folder in _MODULES else NpBench(Path(folder))


@dataclass(frozen=True, slots=True)
class NpBench:
    """A checkout in NPBench's layout: `bench_info/*.json` and folders with a module per variant."""

    folder: Path

    def names(self) -> list[str]:
        return sorted(file.stem for file in (self.folder / "bench_info").glob("*.json"))

    def presets(self, name: str) -> list[str]:
        return list(self._info(name)["parameters"])

    def contestants(self, name: str) -> list[str]:
        module, place = self._info(name)["module_name"], self._place(name)
        variants = sorted(file.stem for file in place.glob(f"{module}_{NUMBA}_*.py"))
        return [PLAIN, OURS, *(stem.removeprefix(f"{module}_") for stem in variants)]

    def task(self, name: str, preset: str, contestant: str) -> Task:
        info = self._info(name)
        variant = contestant if contestant.startswith(NUMBA) else PLAIN
        module = self._module(name, f"{info['module_name']}_{variant}")
        plain = function = getattr(module, info["func_name"])
        if contestant == OURS:
            function = _compiled(function)
        warm = _warmed if contestant == OURS else _nothing
        return Task(function, plain, lambda: self._arguments(name, preset), warm)

    def _arguments(self, name: str, preset: str) -> tuple[Any, ...]:
        info = self._info(name)
        values = dict(info["parameters"][preset])
        init = info.get("init")
        if init:
            np = importlib.import_module("numpy")  # here: the parent of a race loads no NumPy
            np.random.seed(0)  # some draw without a seed of their own
            module = self._module(name, info["module_name"])
            made = getattr(module, init["func_name"])(*(values[x] for x in init["input_args"]))
            names = init["output_args"]
            values |= zip(names, [made] if len(names) == 1 else made, strict=True)
        return tuple(values[x] for x in info["input_args"])

    def _info(self, name: str) -> dict[str, Any]:
        text = (self.folder / "bench_info" / f"{name}.json").read_text(encoding="utf-8")
        info: dict[str, Any] = json.loads(text)["benchmark"]
        return info

    def _place(self, name: str) -> Path:
        return self.folder / "npbench" / "benchmarks" / str(self._info(name)["relative_path"])

    def _module(self, name: str, stem: str) -> ModuleType:
        if str(self.folder) not in sys.path:
            sys.path.append(str(self.folder))  # some variants import modules of the checkout
        unique = f"npbench_{stem}"
        spec = importlib.util.spec_from_file_location(unique, self._place(name) / f"{stem}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[unique] = module  # numba looks for globals there
        spec.loader.exec_module(module)
        return module


@dataclass(frozen=True, slots=True)
class OwnPrograms:
    """The programs of a module of ours."""

    module: str

    def names(self) -> list[str]:
        return [program.name for program in self._programs().values()]

    def presets(self, name: str) -> list[str]:
        from numpy_programs.corpus import SIZES  # lazy: the parent of a race loads no NumPy

        return list(SIZES)

    def contestants(self, name: str) -> list[str]:
        return [PLAIN, OURS, f"{NUMBA}_njit"]

    def task(self, name: str, preset: str, contestant: str) -> Task:
        program = self._programs()[name]
        function: Callable[..., Any] = program.function
        if contestant == OURS:
            function = _compiled(program.function)
        elif contestant.startswith(NUMBA):
            function = _by_numba(program.function)
        warm = _warmed if contestant == OURS else _nothing
        return Task(function, program.function, lambda: program.arguments(preset), warm)

    def _programs(self) -> dict[str, Any]:
        programs: dict[str, Any] = importlib.import_module(self.module).PROGRAMS
        return programs


def _warmed() -> None:
    """Compile a function as large as most: what is loaded and filled once is then there."""
    np = importlib.import_module("numpy")  # here: the parent of a race loads no NumPy
    _compiled(_smoothed)(np.ones((4, 5)), 2)


def _smoothed(a: Any, steps: int) -> Any:
    b = a.copy()
    for _ in range(steps):
        b[1:-1] = (a[:-2] + a[2:]) / 2
        a[1:-1] = b[1:-1]
    return b.sum(axis=0), (a @ b.T).max()


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    import loopwright as lw  # lazy: other contestants must not load it

    return lw.jit(function)


def _by_numba(function: FunctionType) -> Callable[..., Any]:
    """The function under `njit`, and the functions of its module that it calls."""
    import numba  # lazy: it need not be installed

    outer = dict(function.__globals__)
    for name in function.__code__.co_names:
        helper = outer.get(name)
        if isinstance(helper, FunctionType) and helper is not function:
            outer[name] = _by_numba(helper)
    copy = FunctionType(function.__code__, outer, function.__name__, function.__defaults__)
    compiled: Callable[..., Any] = numba.njit(copy)
    return compiled
