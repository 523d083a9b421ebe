"""Lines that move from core to core between loops which threads share out differently.

Inside of a loop that all threads run, an array that one of its loops writes lies in the caches of
those cores that wrote it. Another loop reads it in place where threads share both by the same
dimension of the array. Else, of T threads, (T - 1) / T of the lines that both touch come from other
cores: where one thread alone runs one of the loops, where the other is shared by another dimension,
or where all threads read all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from loopwright.analysis.size_estimates import Reference
from loopwright.ir.schedule_tree import Band, Leaf, Node, statements_in
from loopwright.lazy_dataclass import dataclass

__all__ = ["LINE_CYCLES", "Share", "moved_lines", "shares_of"]

LINE_CYCLES = 30.0  # of a line from another core: some 200 of latency, about seven under way
_BY_ONE, _BY_ALL = -2, -1  # for the number of a dimension: one thread, or each of them, has it all


@dataclass(frozen=True, slots=True)
class Share:
    """Statements that threads share, and by which iterator of each; by none: one thread runs."""

    statements: frozenset[str]
    iterators: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class _Use:
    array: str
    by: int  # the dimension that threads share, or who has it all
    lines: float
    is_written: bool


def shares_of(
    node: Node, names: Iterable[str], shared: Callable[[Band], Mapping[str, str] | None]
) -> Iterator[Share]:
    """The loops in `node` that threads share, outermost ones, and statements beside them.

    `shared` tells the iterators that threads share a loop by; None where they do not.
    """
    own = frozenset(names)
    match node:
        case Leaf():
            yield Share(own, None)
        case Band():
            iterators = shared(node)
            if iterators is None:
                yield from shares_of(node.child, own, shared)
            else:
                yield Share(own, iterators)
        case _:
            for branch in node.filters:
                yield from shares_of(branch.child, own & statements_in(branch.instances), shared)


def moved_lines(
    shares: Iterable[Share],
    references: Mapping[str, Sequence[Reference]],
    lines: Callable[[str, Reference], float],
    threads: int,
) -> float:
    """Lines that move in one run of loops; 0 where threads share none of them."""
    known = list(shares)
    if all(share.iterators is None for share in known):
        return 0.0
    uses = [
        _Use(x.array, _by(share, name, x), lines(name, x), x.is_written)
        for share in known
        for name in share.statements
        for x in references[name]
    ]
    most: dict[str, float] = {}
    for writer in (use for use in uses if use.is_written):
        others = [x.lines for x in uses if x.array == writer.array and x.by != writer.by]
        both = min(writer.lines, max(others, default=0.0))
        most[writer.array] = max(most.get(writer.array, 0.0), both)
    return sum(most.values()) * (1.0 - 1.0 / threads)


def _by(share: Share, name: str, reference: Reference) -> int:
    if share.iterators is None:
        return _BY_ONE
    iterator = share.iterators.get(name)
    moved = (at for at, own in enumerate(reference.subscripts) if iterator in dict(own))
    return next(moved, _BY_ALL)
