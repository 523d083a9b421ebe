"""The index arrays of a format by levels: rows, the entries that pointers lead to, and so on.

A level is the iteration space of one loop of the storage. Its lists have an element for each
iteration, its pointer says where the next level begins and ends inside each. Formats whose arrays
are all found so can be validated a block of the outermost loop at a time.
"""

from __future__ import annotations

from functools import lru_cache

from loopwright.lazy_dataclass import dataclass

from .format import Format, Index
from .quick_check import is_plain
from .uf import Sym, Term, TupleVar

__all__ = ["Level", "levels_of", "limit_of"]


@dataclass(frozen=True)
class Level:
    """Index arrays along one loop of the storage."""

    count: Term  # of iterations
    lists: tuple[Index, ...]  # with an element for each of them
    pointer: Index | None  # elements x and x + 1 bound the loop of the next level inside x

    @property
    def arrays(self) -> tuple[Index, ...]:
        return self.lists if self.pointer is None else (*self.lists, self.pointer)


@lru_cache(maxsize=256)
def levels_of(format: Format) -> tuple[Level, ...]:
    """The index arrays of a format by levels, outermost first; () where they have no such order."""
    indices = format.indices
    if not all(is_plain(i) and not i.inverse and _limit(i) is not None for i in indices):
        return ()
    extents = dict.fromkeys(index.extents[0] for index in indices)
    for count in (*extents, *(extent - 1 for extent in extents)):
        found = _levels_from(count, indices)
        if sum(len(level.arrays) for level in found) == len(indices):
            return found
    return ()


def _levels_from(count: Term, indices: tuple[Index, ...]) -> tuple[Level, ...]:
    lists = tuple(index for index in indices if index.extents[0] == count)
    pointers = [index for index in indices if index.extents[0] == count + 1 and index.monotone]
    if not pointers:
        return (Level(count, lists, None),) if lists else ()
    pointer = pointers[0]
    rest = tuple(index for index in indices if index not in (*lists, pointer))
    return (Level(count, lists, pointer), *_levels_from(limit_of(pointer) - 1, rest))


def _limit(index: Index) -> Term | None:
    """N where the range of an index array is 0 <= y < N, which cannot be negative; else None."""
    (name,) = index.range.variables
    y = Term.of(TupleVar(name))
    terms = [constraint.term for constraint in index.range.conjs[0].constraints]
    upper = [term + y + 1 for term in terms if term.coefficient(TupleVar(name)) == -1]
    if len(terms) != 2 or y not in terms or len(upper) != 1:
        return None
    (limit,) = upper
    is_size = all(isinstance(atom, Sym) and factor > 0 for atom, factor in limit.terms)
    return limit if is_size and limit.constant >= 0 else None


def limit_of(index: Index) -> Term:
    """N where the range of an index array of a level is 0 <= y < N."""
    limit = _limit(index)
    assert limit is not None, f"{index.name} is in a level"
    return limit
