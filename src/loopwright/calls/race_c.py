"""`cc --measure`: what could be made of every region of a C file, against its text as it stands.

    the plan            what the model decides
    the source order    the loops as written, marked for threads and vectors
    the declined plan   what all planners make of it, where the model expects no gain of that

Each is the file as `cc` would write it, translated by the system's compiler and run in a child
process on the same arrays, in turns with the region as it stands. Of those whose results are the
same and that are faster by more than 2% and the noise the fastest is kept; else the text is.

Compilers fuse products with sums as they like, and functions of ours round otherwise than the
library's. Where such a last bit decides which of two integers is stored, results differ beyond
rounding though nothing is wrong: what differs is compared again as built without fusing and with
the library's functions, where a legal order of the loops has every bit of the text.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from loopwright.calls.c_function import CFunction, require_only_regions
from loopwright.calls.compile import compile
from loopwright.calls.measure_c import example_arguments, example_numbers
from loopwright.calls.specialisation import Specialisation
from loopwright.calls.splice import Optimised, optimise_region, spliced
from loopwright.diagnostics import LoopwrightError, ToolchainError, UsageError
from loopwright.frontends.c import CFile, CRegion, CVariable, Origin, VariableKind
from loopwright.ir.machine import Machine
from loopwright.lazy_dataclass import dataclass
from loopwright.planner.plan_choice import DECLINED, PLANNED, SOURCE
from loopwright.planner.planners import Planner, unchanged_planner, unweighed_text_planner
from loopwright.planner.source_order import source_order
from loopwright.runtime.address import Address, data_address, function_at, memory_at
from loopwright.runtime.array_arguments import Array
from loopwright.runtime.toolchain import build_library, find_compiler, load_library, tuning_flags
from loopwright.transform.plan import Plan
from loopwright.tuning.candidate_worker import Limits, Outcome, Worker, examine
from loopwright.tuning.tasks import Run
from loopwright.tuning.time_comparison import LEAST_RACE_GAIN

__all__ = ["LibraryTask", "RegionRace", "race_regions"]

TEXT = "the text"
_SYMBOL = "lw_measured_"  # variables of the library that hold addresses
_SECONDS = 120.0  # that a race of one region may take


@dataclass(frozen=True, slots=True)
class RegionRace:
    """How the race of one region ended."""

    region: CRegion
    planner: Planner  # of what is kept
    told: str


@dataclass(frozen=True, slots=True, eq=False)
class _Contender:
    """What could be made of a region."""

    name: str
    planner: Planner
    made: Optimised


@dataclass(frozen=True, slots=True, eq=False)
class LibraryTask:
    """A function of C in several libraries, one for each plan, with the arguments of one call."""

    function: str
    libraries: tuple[tuple[Plan, bytes], ...]
    kinds: tuple[str, ...]  # of the parameters: the name of a dtype; "" for an array
    values: tuple[Any, ...]
    globals: tuple[tuple[str, Array], ...]  # the file's variables, with values to begin with
    # Likewise, but built so that they round as the text says: their results are compared then.
    exact: tuple[tuple[Plan, bytes], ...] = ()

    def bench(self) -> LibraryBench:
        """The arrays of the call."""
        return LibraryBench(self)


class LibraryBench:
    """Runs libraries on the arrays of a task. Variables of the file are in each library anew."""

    terms = 64

    def __init__(self, task: LibraryTask) -> None:
        self._task = task
        self._own = [x for x in task.values if isinstance(x, np.ndarray)]
        self._own += [x.copy() for _, x in task.globals]
        self._first = [x.copy() for x in self._own]
        self._places: list[list[Array]] = []  # of the file's variables, in each library as bytes

    def build(self, plan: Plan) -> Run:
        """The function as the library of a plan has it; what is compared may be another's."""
        task, shared = self._task, self._shared
        fast, own = self._loaded(next(code for other, code in task.libraries if other == plan))
        exact = next((code for other, code in task.exact if other == plan), None)
        function, places = (fast, own) if exact is None else self._loaded(exact)

        def run() -> None:
            for place, x in zip(places, shared, strict=True):
                place[...] = x.reshape(-1).view(np.uint8)
            function()
            for place, x in zip(places, shared, strict=True):
                x.reshape(-1).view(np.uint8)[...] = place

        run.timed = fast  # type: ignore[attr-defined]  # see timed_pair
        return run

    @property
    def _shared(self) -> list[Array]:
        """The file's variables, as they are outside of libraries."""
        return self._own[len(self._own) - len(self._task.globals) :]

    def _loaded(self, code: bytes) -> tuple[Run, list[Array]]:
        """The call as a library has it, and where its variables of the file lie."""
        task = self._task
        library = load_library(code)
        function = function_at(_pointer(library, task.function), *map(_ctype, task.kinds))
        values = [data_address(x) if isinstance(x, np.ndarray) else x for x in task.values]
        places = [
            memory_at(_pointer(library, name), x.nbytes)
            for (name, _), x in zip(task.globals, self._shared, strict=True)
        ]
        # All are restored, those of a plan that is no longer run too: they keep its library.
        self._places.append(places)
        return partial(function, *values), places

    def restore(self) -> None:
        for array, first in zip(self._own, self._first, strict=True):
            array[...] = first
        shared = self._first[len(self._first) - len(self._task.globals) :]
        for places in self._places:
            for place, first in zip(places, shared, strict=True):
                place[...] = first.reshape(-1).view(np.uint8)

    def results(self) -> list[Array]:
        return list(self._own)

    def arrays(self) -> list[Array]:
        return list(self._own)


def _ctype(kind: str) -> Any:
    return np.ctypeslib.as_ctypes_type(np.dtype(kind)) if kind else ctypes.c_void_p


def _pointer(library: ctypes.CDLL, name: str) -> Address:
    """What a variable of a library points to; the library stays loaded as long as that is used."""
    return Address(ctypes.c_void_p.in_dll(library, _SYMBOL + name).value or 0, library)


def race_regions(
    file: CFile,
    path: Path,
    planners: Sequence[Planner],
    machine: Machine,
    sizes: Mapping[str, int],
    *,
    default: int,
    target: str,
    reassoc: bool,
    cpp_args: Sequence[str],
    library: bool = False,
    assume_disjoint: bool = False,
    limits: Limits | None = None,
    report: Callable[[int], None] | None = None,
) -> list[RegionRace]:
    """A race for each region of a file, in the order of the text.

    Where a function has several regions, those raced before are what they were found to be, and
    those to come are by their plans. A function that cannot be run alone is left to the model.
    """

    def contender(name: str, region: CRegion, planner: Planner, own: bool = library) -> _Contender:
        made = optimise_region(
            file,
            region,
            planner,
            machine,
            target=target,
            reassoc=reassoc,
            library=own,
            assume_disjoint=assume_disjoint,
        )
        return _Contender(name, planner, made)

    plans = [
        contender(PLANNED, region, planner)
        for region, planner in zip(file.regions, planners, strict=True)
    ]
    kept = [plan.made for plan in plans]
    found: list[RegionRace] = []
    for place, (region, plan) in enumerate(zip(file.regions, plans, strict=True)):
        if report is not None:
            report(place)
        text = contender(TEXT, region, unchanged_planner)
        others = (
            contender(SOURCE, region, source_order),
            contender(DECLINED, region, unweighed_text_planner),
        )
        rivals = _different(text, (plan, *others))
        if not rivals:
            reason = plan.made.reason or "no step that pays was proven legal"
            told = f"left as it stands: {reason}"
            found.append(RegionRace(region, plan.planner, told))
            continue
        try:
            call = _ExampleCall(file, path, region.function, sizes, default, cpp_args)
            built = partial(_library, file, call, target, cpp_args, path.parent)
            libraries = tuple(
                (each.made.plan, built([*kept[:place], each.made, *kept[place + 1 :]]))
                for each in (text, *rivals)
            )
        except LoopwrightError as error:
            if isinstance(error, UsageError) and "has no parameter" in str(error):
                raise
            told = f"left to the model: {region.function} cannot be run alone ({_short(error)})"
            found.append(RegionRace(region, plan.planner, told))
            continue
        task = LibraryTask(region.function, libraries, call.kinds, call.values, call.globals)
        outcomes = _raced(task, text, rivals, limits)
        unequal = [rival for rival, outcome in outcomes if outcome.state == "wrong"]
        if unequal and not reassoc:
            rounded = [contender(x.name, region, x.planner, True) for x in unequal]
            exact = tuple(
                (plan, built([*kept[:place], made, *kept[place + 1 :]], "-ffp-contract=off"))
                for plan, made in (
                    (text.made.plan, text.made),
                    *((x.made.plan, y.made) for x, y in zip(unequal, rounded, strict=True)),
                )
            )
            again = dict(_raced(replace(task, exact=exact), text, unequal, limits))
            outcomes = [(rival, again.get(rival, outcome)) for rival, outcome in outcomes]
        winner, told = _judged(text, plan, outcomes)
        found.append(RegionRace(region, winner.planner, f"{told}{call.place}"))
        kept[place] = winner.made
    return found


def _raced(
    task: LibraryTask, text: _Contender, rivals: Sequence[_Contender], limits: Limits | None
) -> list[tuple[_Contender, Outcome]]:
    """What becomes of each rival beside the text."""
    with Worker(task, text.made.plan) as worker:
        return [
            (rival, examine(worker, rival.made.plan, limits or Limits(), _SECONDS))
            for rival in rivals
        ]


def _different(text: _Contender, others: Sequence[_Contender]) -> list[_Contender]:
    """Those that are no text of one before them, nor the region as it stands."""
    found: list[_Contender] = []
    for one in others:
        before = [text.made, *(each.made for each in found)]
        is_new = all(one.made.text != x.text for x in before)
        if is_new and one.made.text is not None:
            found.append(one)
    return found


def _judged(
    text: _Contender, plan: _Contender, outcomes: Sequence[tuple[_Contender, Outcome]]
) -> tuple[_Contender, str]:
    """What is kept, and why, for people. The region as it stands was the base of all."""
    if any(outcome.state == "lost" for _, outcome in outcomes):
        return plan, "left to the model: the region did not run as it stands"
    measured = [(rival, v) for rival, outcome in outcomes if (v := outcome.verdict) is not None]
    worth = [
        (rival, verdict)
        for rival, verdict in measured
        if verdict.is_far_faster or (verdict.is_faster and verdict.gain >= 1 + LEAST_RACE_GAIN)
    ]
    times = "".join(f"{_time(verdict.seconds)} by {rival.name}, " for rival, verdict in measured)
    times += "".join(f"{_not_measured(*one)}, " for one in outcomes if one[1].verdict is None)
    base = min((verdict.base_seconds for _, verdict in measured), default=0.0)
    if worth:
        winner, verdict = max(worth, key=lambda one: one[1].gain)
        times += f"{_time(base)} as it stands, noise {min(verdict.noise, 9.99):.1%}"
        return winner, f"{winner.name} is kept: {verdict.gain:.2f} times as fast ({times})"
    if measured:
        return (
            text,
            f"the text is kept: {times}{_time(base)} as it stands, no gain beyond the noise",
        )
    return text, f"the text is kept: {'; '.join(_not_measured(*one) for one in outcomes)}"


def _not_measured(rival: _Contender, outcome: Outcome) -> str:
    if outcome.state == "wrong":
        return f"by {rival.name} {outcome.reason}"
    reasons = {"hung": "it took too long", "unfinished": "the time was up"}
    why = reasons.get(outcome.state, outcome.reason or f"it {outcome.state}")
    return f"{rival.name} was not measured, {why}"


def _time(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"


def _short(error: LoopwrightError) -> str:
    return str(error).splitlines()[0][:160]


class _ExampleCall:
    """A call of a function with arrays of small numbers. Refuses what cannot be called from here.

    Refused are code outside of regions, variables whose values nobody knows, parameters of types
    that no region tells, and calls that would leave an array.
    """

    def __init__(
        self,
        file: CFile,
        path: Path,
        name: str,
        sizes: Mapping[str, int],
        default: int,
        cpp_args: Sequence[str],
    ) -> None:
        self.name = name
        regions = tuple(region for region in file.regions if region.function == name)
        require_only_regions(file, regions)
        variables = {v.name: v for region in regions for v in region.variables}
        parameters = regions[0].parameters
        own = {key: sizes[key] for key in sizes if _is_for(file, name, key)}
        by_name = example_arguments(file, name, own, default)
        unknown = [x for x in parameters if x not in variables]
        if unknown:
            raise UsageError(f"no region tells the type of '{unknown[0]}'")
        self.kinds = tuple(_kind(variables[x]) for x in parameters)
        self.values = tuple(by_name.values())
        made = compile(path, function=name, threads=1, cpp_args=cpp_args)  # to be asked only
        _check_call(made[name], self.values)
        written = {v.name for region in regions for v in region.variables if v.is_written}
        # One with a value that nobody changes may be a constant, in memory that is read only.
        shared = [
            v
            for v in variables.values()
            if v.origin is Origin.GLOBAL and (v.name in written or not v.init)
        ]
        self.globals = tuple((v.name, _begun(v, made.globals[v.name])) for v in shared)
        shown = ", ".join(f"{n} = {v}" for n, v in by_name.items() if isinstance(v, int))
        self.place = f", at {shown}" if shown else ""


def _check_call(function: CFunction, values: tuple[Any, ...]) -> None:
    """Refuse a call that would leave an array."""
    for code, given, _ in function.region_calls(values, {}):
        assert isinstance(code, Specialisation), "code of the model for this machine"
        code.check_call(given)


def _is_for(file: CFile, name: str, parameter: str) -> bool:
    """Whether a size is meant for a function; one that no function has is refused by each."""
    regions = [region for region in file.regions if parameter in region.parameters]
    return not regions or any(region.function == name for region in regions)


def _kind(variable: CVariable) -> str:
    return "" if variable.kind is VariableKind.ARRAY else variable.dtype.name


def _begun(variable: CVariable, value: Array) -> Array:
    """What a variable of the file begins with: numbers near 1 where the file leaves it zero."""
    if variable.init or not variable.shape or value.dtype.kind != "f":
        return value
    random = np.random.default_rng(1)
    return example_numbers(random, value.shape, value.dtype)


def _library(
    file: CFile,
    call: _ExampleCall,
    target: str,
    cpp_args: Sequence[str],
    folder: Path,
    results: list[Optimised],
    *extra: str,
) -> bytes:
    """The file with these regions as a library; variables at its end tell the addresses."""
    compiler = find_compiler()
    lines = [f"void *{_SYMBOL}{call.name} = (void *){call.name};"]
    lines += [f"void *{_SYMBOL}{x} = (void *)&{x};" for x, _ in call.globals]
    text = spliced(file, results).decode(file.encoding) + "\n" + "\n".join(lines) + "\n"
    flags = [*tuning_flags(compiler, openmp=target == "openmp"), *cpp_args, "-w", *extra]
    flags += ["-iquote", str(folder)]
    if compiler.accepts("-Wl,-Bsymbolic"):
        flags.append("-Wl,-Bsymbolic")  # else a function of the process might take its place
    try:
        return build_library(text, flags, compiler)
    except ToolchainError as error:
        raise UsageError("the file is no library by itself", found=_short(error)) from None
