"""Pointers from where the entries of each parent end, for lists that ascend by the parent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from loopwright.sparse.synthesis.stages import Builder, Same, Stage, element
from loopwright.sparse.synthesis.stream import Stream, cast, running
from loopwright.sparse.uf import Call, Linear, Var

__all__ = ["RunEnds", "only_ends", "store_ends"]

_END = "end"  # the statement that stores


@dataclass(frozen=True)
class RunEnds:
    """A pointer that is made from where runs of equal parents end."""

    parents: str
    pointer: str

    def __str__(self) -> str:
        return (
            f"where a look at {self.parents} has found it in order, "
            f"{self.pointer} is stored by code for runs"
        )


def store_ends(
    stream: Stream, parent: Linear, pointer: str, count: Linear, builder: Builder
) -> None:
    """pointer[x] = how many entries have a parent below x, for 0 <= x <= count.

    pointer[parent + 1] is the place after an entry: the last store of a parent is the one that
    stays, so nothing is loaded or added. Parents without entries end where those before them do.
    Where a sort has counted the entries of parents on its way, its array is the pointer.
    """
    entry = Linear.of(Var(stream.domain.variables[0]))
    term = stream.term(parent)
    value = cast(builder.number(entry + 1), builder.spaces[pointer].dtype)
    body = [stream.each(_END, 0, element(pointer, term + 1), value)]
    # Entries of one parent stand together and meet in one element, others do not.
    found = term.atom
    groups = (found.name,) if isinstance(found, Call) and found.args == (entry,) else ()
    same = _counted(stream, parent, pointer, builder)
    builder.stage("ends", body, same=same, apart=(pointer,) if groups else (), together=groups)
    running(builder, "max", pointer, count, same=same and replace(same, arrays=()))


def _counted(stream: Stream, parent: Linear, pointer: str, builder: Builder) -> Same | None:
    """When the pointer is what a sort has told."""
    told = stream.told
    if told is None or told.parent != parent:
        return None
    own, other = (builder.spaces[name] for name in (pointer, told.pointers))
    if (own.dtype, own.shape) != (other.dtype, other.shape):
        return None
    return Same(told.left, told.right, ((pointer, told.pointers),))


def only_ends(stages: Sequence[Stage]) -> RunEnds | None:
    """What stages make, if they are those of `store_ends` for parents that lie in an array."""
    if len(stages) != 2:
        return None
    stores, most = (stage.computation.statements for stage in stages)
    is_own = len(stores) == 1 and stores[0].name == _END and len(most) == 1
    if not is_own or most[0].target != stores[0].target or len(stages[0].together) != 1:
        return None
    return RunEnds(stages[0].together[0], stores[0].target)
