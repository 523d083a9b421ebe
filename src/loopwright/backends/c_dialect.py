"""Dialects of the C printer: what a parallel loop, a vector loop and a barrier look like.

A dialect is a table (ADR 5). A line of a table that is empty is left out of the text.
"""

from __future__ import annotations

from loopwright.lazy_dataclass import dataclass

__all__ = ["OPENMP", "C", "Dialect"]


@dataclass(frozen=True, slots=True)
class Dialect:
    """The pragmas of one kind of C; empty ones are left out."""

    name: str
    team: str  # before a block that all threads run
    share: str  # before a worksharing loop inside such a block
    team_share: str  # before a parallel loop that is a block of its own
    once: str  # before what one thread of a block does
    no_wait: str  # after `share` and `once`: others need not wait at the end
    barrier: str  # threads of a block wait for one another
    vector: str  # before a loop of independent iterations
    reduction: str  # before a loop of reductions, with a clause for each; empty: in source order
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
    reduction="",
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
    reduction="#pragma omp simd",
    unroll="#pragma GCC unroll {count}",
)
