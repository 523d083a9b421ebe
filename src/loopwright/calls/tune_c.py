"""Tuning the functions of a C file: the plans of their regions, measured as machine code here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from loopwright.calls.c_function import known_functions
from loopwright.calls.compile import compile
from loopwright.calls.measure_c import example_arguments
from loopwright.calls.specialisation import Specialisation
from loopwright.calls.tune import tune_tasks
from loopwright.diagnostics import SourceError
from loopwright.frontends.c import CFile
from loopwright.tuning.search import Report, Tuned
from loopwright.tuning.tasks import Task

__all__ = ["region_tasks", "tune_regions"]


def region_tasks(
    file: CFile,
    path: Path,
    sizes: Mapping[str, int],
    *,
    default: int,
    reassoc: bool,
    threads: int | None,
    cpp_args: Sequence[str],
    as_loops: bool = False,
) -> list[tuple[int, Task]]:
    """What is measured for each region, by its place in the file; arrays hold small numbers.

    Regions of functions that are more than their regions, or that have nothing to compute, are left
    out.
    """
    found: list[tuple[int, Task]] = []
    for name in known_functions(file, None):
        own = {key: sizes[key] for key in sizes if _has(file, name, key)}
        try:
            made = compile(path, function=name, reassoc=reassoc, threads=threads, cpp_args=cpp_args)
        except SourceError:
            continue
        values = example_arguments(file, name, own, default)
        places = [k for k, region in enumerate(file.regions) if region.function == name]
        calls = made[name].region_calls(tuple(values.values()), {})
        for place, (code, given, count) in zip(places, calls, strict=True):
            assert isinstance(code, Specialisation), "code of the model for this machine"
            task = code.task(given, count, as_loops=as_loops)
            if task is not None:
                found.append((place, task))
    return found


def _has(file: CFile, name: str, parameter: str) -> bool:
    """Whether a function has a parameter; one that none has is refused with the first."""
    regions = [region for region in file.regions if parameter in region.parameters]
    return not regions or any(region.function == name for region in regions)


def tune_regions(
    tasks: Sequence[tuple[int, Task]],
    seconds: float,
    report: Callable[[int], Report | None] | None = None,
    *,
    cold: bool = False,
) -> dict[int, Tuned]:
    """A search for each region, which share the budget; by the region's place in the file."""
    found = tune_tasks([task for _, task in tasks], seconds, report=report, cold=cold)
    return {place: tuned for (place, _), tuned in zip(tasks, found, strict=True)}
