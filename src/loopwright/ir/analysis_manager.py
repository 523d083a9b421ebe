"""Results of analyses, each computed once and owned by what it is about.

isl needs most of the time of a compilation, and steps ask for the same dependences again and again.
The schedules of a program share one manager (`Schedule.analyses`): a result lives as long as they
do. A program that a step has changed gets a manager of its own, with the results that the step says
it preserves. isl objects belong to one thread, and so do the program and its manager.

A result is kept only if isl's quota was not spent when it was there: whatever is kept is whole, and
may be used after the work that asked for it was broken off.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from loopwright.ir.program import Program

__all__ = ["AnalysisManager", "DomainAnalysis", "Results"]

S = TypeVar("S")
T = TypeVar("T")


class Results(Generic[S]):
    """Functions of `subject`, computed when first asked for.

    The functions are the keys; callable values count as the same when they are equal.
    """

    __slots__ = ("_results", "subject")

    def __init__(self, subject: S, known: Mapping[Any, Any] | None = None) -> None:
        """Results about `subject`; those of `known` need not be computed."""
        self.subject = subject
        self._results: dict[Any, Any] = dict(known or {})

    def get(self, analysis: Callable[[S], T]) -> T:
        """`analysis(subject)`."""
        if analysis not in self._results:
            self._keep(analysis, analysis(self.subject))
        found: T = self._results[analysis]
        return found

    def _keep(self, analysis: Any, found: Any) -> None:
        from loopwright.ir.islkit import require_whole  # lazy: who analyses has loaded isl

        require_whole()
        self._results[analysis] = found


class DomainAnalysis:
    """Base of analyses that ask for names, iterators and domains of statements, and nothing else.

    Their results hold for every program with the same ones: steps that move elements to other
    arrays preserve them.
    """

    __slots__ = ()


class AnalysisManager(Results[Program]):
    """Analyses of `program`, computed when first asked for."""

    __slots__ = ()

    @property
    def program(self) -> Program:
        """The program that the results are about."""
        return self.subject

    def derive(self, analysis: Callable[[AnalysisManager], T]) -> T:
        """`analysis(manager)`, for analyses that build on results of others."""
        if analysis not in self._results:
            self._keep(analysis, analysis(self))
        found: T = self._results[analysis]
        return found

    def known(self, analysis: Callable[..., T]) -> T | None:
        """What `get` or `derive` have found before; None where nobody has asked."""
        found: T | None = self._results.get(analysis)
        return found

    def results(self, kind: type) -> dict[Any, Any]:
        """The results so far of analyses that are values of a class: analysis -> result."""
        return {key: value for key, value in self._results.items() if isinstance(key, kind)}
