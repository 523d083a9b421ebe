"""The whole validation of one translation: orders and data, small sizes and large ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from loopwright.analysis.bounds import predicate
from loopwright.analysis.unset import unset_locals
from loopwright.diagnostics import InternalError
from loopwright.ir.check import check_nest
from loopwright.ir.islkit import GaveUp, attempt
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Program
from loopwright.lower.passes import lower_schedule
from loopwright.transform.legal import initial_schedule
from loopwright.validate.data import Runner, check_data
from loopwright.validate.difference import Difference, Kind, Report
from loopwright.validate.hashed import NotHashable, hashed
from loopwright.validate.large import compare_names, compare_numbers, large_sizes
from loopwright.validate.meaning import Meaning, Signs, meaning_of
from loopwright.validate.order import check_order, is_parallel, steers_by_data
from loopwright.validate.runners import jit_runner, jit_runners
from loopwright.validate.sizes import pick_sizes

__all__ = ["check_translation", "validate"]

_QUOTA = 20_000_000  # isl operations for choosing sizes and for the source order

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
    """How a nest, and code made from it, differs from its program at small sizes.

    `runners` are compiled forms of the nest by name; each must leave the numbers of the program.
    """
    found: list[Difference] = []
    for at, params in enumerate(sizes):
        for signs in _signs(at):
            meaning = meaning_of(program, params, seed=seed + at, signs=signs)
            found += _differences(meaning, nest, seed + at, runners or {}, threads)
    return tuple(found)


def _differences(
    meaning: Meaning,
    nest: LoopNest,
    seed: int,
    runners: Mapping[str, Runner],
    threads: Sequence[int],
) -> list[Difference]:
    found: list[Difference] = []
    for team in threads if is_parallel(nest) else (1,):
        found += check_order(meaning, nest, threads=team, seed=seed)
    # Compiled code does not check its accesses: a nest that has faults is not run by it.
    for name, run in runners.items() if not found else ():
        found += check_data(meaning, run, name)
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
    small: Sizes = sizes if sizes is not None else ()
    large: Sizes = ()
    source = None
    try:
        with attempt(_QUOTA):
            small = sizes if sizes is not None else pick_sizes(program, seed=seed)
            large = large_sizes(program, translated, seed)
            source = lower_schedule(initial_schedule(program))
    except GaveUp as error:
        work.skipped.append(f"the source order and sizes of several tiles: isl gave up ({error})")
    try:
        check_nest(translated)
        work.compare_small(source, small)
        if work.has_failed:
            large = work.leave_out_unset(large)
        if not work.found and source is not None and large:
            work.compare_large(source, large)
    except InternalError as error:
        fault = "should be a valid nest", error.message
        work.found.append(Difference(Kind.FAULT, "compiler", (), 1, "", *fault))
    return Report(tuple(work.found), tuple(work.checked), tuple(work.skipped))


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
        by_data = steers_by_data(self.translated)
        done: dict[str, None] = {}
        for at, params in enumerate(sizes):
            for signs in _signs(at):
                try:
                    meaning = meaning_of(self.program, params, seed=self.seed + at, signs=signs)
                except InternalError as error:
                    self.skipped.append(f"{_text(params)}: the program fails: {error.message}")
                    self.has_failed = True
                    break
                # Names are the same for all numbers, unless numbers decide what runs.
                if signs is Signs.ANY or by_data:
                    self._compare_orders(source, meaning, at)
                # Compiled code does not check its accesses: loops with faults are not run by it.
                if not self.found:
                    self._compare_data(meaning)
                done[_text(params)] = None
        if done:
            places, ways = "; ".join(done), ", ".join(self.compiled)
            self.checked.append(f"order against the interpreter at {places}")
            if ways:
                self.checked.append(f"{ways} against the interpreter at {places}")
        elif not self.skipped:
            self.skipped.append("small sizes: the program allows none")

    def leave_out_unset(self, sizes: Sizes) -> Sizes:
        """The sizes at which the program reads nothing that nobody wrote: there alone it means
        something."""
        try:
            with attempt(_QUOTA):
                is_unset = predicate(unset_locals(self.program))
        except GaveUp:
            self.skipped.append("larger sizes: the program fails at small ones")
            return ()
        kept = tuple(params for params in sizes if not is_unset(params))
        if len(kept) < len(sizes):
            left = "; ".join(_text(params) for params in sizes if is_unset(params))
            self.skipped.append(f"{left}: the program reads what nobody wrote")
        return kept

    def _compare_orders(self, source: LoopNest | None, meaning: Meaning, seed: int) -> None:
        if source is not None:
            self.found += check_order(meaning, source)
        for team in self.teams:
            self.found += check_order(meaning, self.translated, threads=team, seed=seed)

    def _compare_data(self, meaning: Meaning) -> None:
        self._compile()
        for name, run in self.compiled.items():
            self.found += check_data(meaning, run, name)

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
            plain = jit_runner(hashed(source, reassociate=program.reassoc))
            names = hashed(self.translated, reassociate=program.reassoc)
        except NotHashable as error:
            self.skipped.append(f"order at sizes of several tiles: {error}")
            return
        for team in self.teams:
            run = jit_runner(names, team)
            for params in sizes:
                self.found += compare_names(program, plain, run, params, threads=team, seed=seed)
        self.checked.append(f"order against the source order at {done}")


def _signs(at: int) -> tuple[Signs, Signs]:
    """The signs of the data at a size: any, and in turn one or the other."""
    return Signs.ANY, Signs.NEGATIVE if at % 2 else Signs.POSITIVE


def _text(params: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in params.items()) or "the only size"
