"""Validation of one translation: order and data, at small sizes and at large ones."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from loopwright.analysis.subscript_bounds import predicate, uninitialised_locals
from loopwright.diagnostics import InternalError, ToolchainError
from loopwright.ir.check import check_nest
from loopwright.ir.islkit import GaveUp, bounded
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Program
from loopwright.lower.passes import lower_schedule
from loopwright.transform.schedule_legality import initial_schedule
from loopwright.validate.check_data import (
    Runner,
    check_data,
    compare_numbers,
    compare_value_numbers,
)
from loopwright.validate.check_order import check_order, has_data_dependent_control, is_parallel
from loopwright.validate.difference import Difference, DifferenceKind, Report
from loopwright.validate.problem_sizes import large_sizes, pick_sizes
from loopwright.validate.reference_run import ReferenceRun, Signs, run_reference
from loopwright.validate.runners import c_runners, jit_runner, jit_runners
from loopwright.validate.value_numbers import NotNumbered, number_values

__all__ = ["check_translation", "validate", "validate_with_c"]

_QUOTA = 20_000_000  # isl operations for choosing sizes and for the source order

# Products and sums are rounded one by one, in the new code as in the old: a compiler that makes one
# operation of both may do so in one and not in the other.
_C_FLAGS = ("-ffp-contract=off", "-w")

Sizes = Sequence[Mapping[str, int]]


def check_translation(
    program: Program,
    nest: LoopNest,
    sizes: Sizes,
    *,
    seed: int = 0,
    runners: Mapping[str, Runner] | None = None,
    threads: Sequence[int] = (1, 2),
) -> tuple[Difference, ...]:
    """The differences of a nest, and of code made from it, from its program at small sizes.

    `runners` are compiled forms of the nest by name; each must compute the numbers of the program.
    """
    found: list[Difference] = []
    for at, params in enumerate(sizes):
        for signs in _signs(at):
            reference = run_reference(program, params, seed=seed + at, signs=signs)
            found += _differences(reference, nest, seed + at, runners or {}, threads)
    return tuple(found)


def _differences(
    reference: ReferenceRun,
    nest: LoopNest,
    seed: int,
    runners: Mapping[str, Runner],
    threads: Sequence[int],
) -> list[Difference]:
    found: list[Difference] = []
    for team in threads if is_parallel(nest) else (1,):
        found += check_order(reference, nest, threads=team, seed=seed)
    # Compiled code does not check its accesses: a nest that has faults is not run by it.
    for name, run in runners.items() if not found else ():
        found += check_data(reference, run, name)
    return found


def validate(
    program: Program,
    translated: LoopNest,
    *,
    seed: int = 0,
    sizes: Sizes | None = None,
    runners: Mapping[str, Runner] | None = None,
    originals: Mapping[str, Runner] | None = None,
    threads: Sequence[int] = (1, 2),
) -> Report:
    """Compare a nest with its program: by interpretation at small sizes, compiled at large ones.

    `sizes` are the small ones, chosen when None. `runners` are further compiled forms of the same
    nest, such as C; its machine code is always among them. `originals` are the source order
    compiled by the same compilers, by the same names: where a program loses all its digits, on the
    way to 0/0 or beyond the largest number, compilers that round otherwise leave other results.
    Programs that read what nobody wrote are compared at sizes where they do not.
    """
    teams = tuple(threads) if is_parallel(translated) else (1,)
    work = _Work(program, translated, dict(runners or {}), dict(originals or {}), teams, seed)

    def prepared() -> tuple[Sizes, Sizes, LoopNest | None]:
        small = sizes if sizes is not None else pick_sizes(program, seed=seed)
        large = large_sizes(program, translated, seed)
        return small, large, lower_schedule(initial_schedule(program))

    def unprepared(error: GaveUp) -> tuple[Sizes, Sizes, LoopNest | None]:
        work.skipped.append(f"the source order and sizes of several tiles: isl gave up ({error})")
        return sizes if sizes is not None else (), (), None

    small, large, source = bounded(prepared, unprepared, _QUOTA)
    try:
        check_nest(translated)
        work.compare_small(source, small)
        if work.has_failed:
            large = work.leave_out_unset(large)
        if not work.found and source is not None and large:
            work.compare_large(source, large)
    except InternalError as error:
        fault = "should be a valid nest", error.message
        work.found.append(Difference(DifferenceKind.FAULT, "compiler", (), 1, "", *fault))
    return Report(tuple(work.found), tuple(work.checked), tuple(work.skipped))


def validate_with_c(
    program: Program, nest: LoopNest, *, flags: tuple[str, ...] = ("-O1",), seed: int = 0
) -> Report:
    """Compare a nest with its program: interpreted, as machine code and as C.

    C of the source order is made beside it, for large sizes. Without a compiler C is left out.
    """
    nests = bounded(lambda: [nest, lower_schedule(initial_schedule(program))], lambda _: [nest])
    runs: list[dict[str, Runner]] = []
    with contextlib.suppress(ToolchainError):
        runs = [{"c": run} for run in c_runners(nests, (*flags, *_C_FLAGS))]
    new, old = (*runs, {}, {})[:2]
    return validate(program, nest, seed=seed, runners=new, originals=old)


@dataclass(slots=True)
class _Work:
    """One validation under way."""

    program: Program
    translated: LoopNest
    compiled: dict[str, Runner]
    originals: dict[str, Runner]  # the source order, by the names of `compiled`
    teams: tuple[int, ...]
    seed: int
    found: list[Difference] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    has_failed: bool = False  # the program itself, at some small size

    def compare_small(self, source: LoopNest | None, sizes: Sizes) -> None:
        """Against the interpreter, for data of any sign and of one sign; one size at a time.

        The source order is compared too: large sizes are measured by it.
        """
        by_data = has_data_dependent_control(self.translated)
        done: dict[str, None] = {}
        for at, params in enumerate(sizes):
            for signs in _signs(at):
                try:
                    reference = run_reference(
                        self.program, params, seed=self.seed + at, signs=signs
                    )
                except InternalError as error:
                    self.skipped.append(f"{_text(params)}: the program fails: {error.message}")
                    self.has_failed = True
                    break
                # Value numbers do not depend on the data, unless data decide what runs.
                if signs is Signs.ANY or by_data:
                    self._compare_orders(source, reference, at)
                # Compiled code does not check its accesses: loops with faults are not run by it.
                if not self.found:
                    self._compare_data(reference)
                done[_text(params)] = None
        if done:
            places, ways = "; ".join(done), ", ".join(self.compiled)
            self.checked.append(f"order against the interpreter at {places}")
            if ways:
                self.checked.append(f"{ways} against the interpreter at {places}")
        elif not self.skipped:
            self.skipped.append("small sizes: the program allows none")

    def leave_out_unset(self, sizes: Sizes) -> Sizes:
        """The sizes at which the program reads no undefined memory."""
        found = bounded(
            lambda: predicate(uninitialised_locals(self.program)), lambda _: None, _QUOTA
        )
        if found is None:
            self.skipped.append("larger sizes: the program fails at small ones")
            return ()
        is_unset = found
        kept = tuple(params for params in sizes if not is_unset(params))
        if len(kept) < len(sizes):
            left = "; ".join(_text(params) for params in sizes if is_unset(params))
            self.skipped.append(f"{left}: the program reads what nobody wrote")
        return kept

    def _compare_orders(self, source: LoopNest | None, reference: ReferenceRun, seed: int) -> None:
        if source is not None:
            self.found += check_order(reference, source)
        for team in self.teams:
            self.found += check_order(reference, self.translated, threads=team, seed=seed)

    def _compare_data(self, reference: ReferenceRun) -> None:
        self._compile()
        for name, run in self.compiled.items():
            self.found += check_data(reference, run, name)

    def _compile(self) -> None:
        """Machine code of the translation, for each number of threads."""
        names = [f"jit, {team} threads" if team > 1 else "jit" for team in self.teams]
        if names[0] not in self.compiled:
            runners = jit_runners(self.translated, self.teams)
            self.compiled.update(zip(names, runners, strict=True))

    def compare_large(self, source: LoopNest, sizes: Sizes) -> None:
        """Against the source order, compiled."""
        program, seed = self.program, self.seed
        self._compile()
        original = jit_runner(source)
        by_original: dict[Runner, dict[str, Runner]] = {}
        for name, run in self.compiled.items():
            by_original.setdefault(self.originals.get(name, original), {})[name] = run
        for params, signs in product(sizes, Signs):
            for source_order, runs in by_original.items():
                self.found += compare_numbers(
                    program, source_order, runs, params, seed=seed, signs=signs
                )
        done = "; ".join(map(_text, sizes))
        ways = ", ".join(self.compiled)
        self.checked.append(f"{ways} against the source order at {done}")
        try:
            original = jit_runner(number_values(source, reassociate=program.reassoc))
            numbered = number_values(self.translated, reassociate=program.reassoc)
        except NotNumbered as error:
            self.skipped.append(f"order at sizes of several tiles: {error}")
            return
        for team in self.teams:
            run = jit_runner(numbered, team)
            for params in sizes:
                self.found += compare_value_numbers(
                    program, original, run, params, threads=team, seed=seed
                )
        self.checked.append(f"order against the source order at {done}")


def _signs(at: int) -> tuple[Signs, Signs]:
    """The signs of the data at a size: any, and in turn one or the other."""
    return Signs.ANY, Signs.NEGATIVE if at % 2 else Signs.POSITIVE


def _text(params: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in params.items()) or "the only size"
