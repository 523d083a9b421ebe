"""Pointers from where the entries of each parent end, for lists that ascend by the parent."""

from __future__ import annotations

from loopwright.sparse.synthesis.stages import Builder, element
from loopwright.sparse.synthesis.stream import Stream, cast, running
from loopwright.sparse.uf import Call, Linear, Var

__all__ = ["store_ends"]


def store_ends(
    stream: Stream, parent: Linear, pointer: str, count: Linear, builder: Builder
) -> None:
    """pointer[x] = how many entries have a parent below x, for 0 <= x <= count.

    pointer[parent + 1] is the place after an entry: the last store of a parent is the one that
    stays, so nothing is loaded or added. Parents without entries end where those before them do.
    """
    entry = Linear.of(Var(stream.domain.variables[0]))
    term = stream.term(parent)
    value = cast(builder.number(entry + 1), builder.spaces[pointer].dtype)
    body = [stream.each("end", 0, element(pointer, term + 1), value)]
    # Entries of one parent stand together and meet in one element, others do not.
    found = term.atom
    groups = (found.name,) if isinstance(found, Call) and found.args == (entry,) else ()
    builder.stage("ends", body, apart=(pointer,) if groups else (), together=groups)
    running(builder, "max", pointer, count)
