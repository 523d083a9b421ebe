"""Dialects of the C printer: what a parallel loop, a vector loop and a barrier look like.

A dialect is a table (ADR 5). A line of a table that is empty is left out of the text.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DIALECTS", "OPENMP", "C", "Dialect"]


@dataclass(frozen=True, slots=True)
class Dialect:
    """The lines that one text output puts around the common ones."""

    name: str
    team: str  # before a block that all threads run
    share: str  # before a loop whose iterations the threads of a block share out
    team_share: str  # before a loop that is a block of its own
    once: str  # before what one thread of a block does
    no_wait: str  # after `share` and `once`: others need not wait at the end
    barrier: str  # threads of a block wait for one another
    vector: str  # before a loop of independent iterations
    gather: str  # before a loop of sums, with a clause for each; without it they keep their order
    unroll: str  # before a loop to be repeated {count} times


C = Dialect(
    name="c",
    team="",
    share="",
    team_share="",
    once="",
    no_wait="",
    barrier="",
    vector="#pragma GCC ivdep",
    gather="",
    unroll="#pragma GCC unroll {count}",
)
OPENMP = Dialect(
    name="openmp",
    team="#pragma omp parallel",
    share="#pragma omp for schedule(static)",
    team_share="#pragma omp parallel for schedule(static)",
    once="#pragma omp single",
    no_wait=" nowait",
    barrier="#pragma omp barrier",
    vector="#pragma omp simd",
    gather="#pragma omp simd",
    unroll="#pragma GCC unroll {count}",
)
DIALECTS = {dialect.name: dialect for dialect in (C, OPENMP)}
