"""The polyhedral dataflow graph: statements, data spaces, and who reads and writes what.

Statements that share loops stand in clusters, one inside the other as the loops are; a cluster with
statements beside another cluster is an imperfect nest. Dependences that a loop carries are edges
of their own between statements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loopwright.ir.program import Role
from loopwright.sparse.spf.accesses import Access, accesses
from loopwright.sparse.spf.computation import Computation, Stmt
from loopwright.sparse.spf.dependences import dependences
from loopwright.sparse.uf import Linear

__all__ = ["Carried", "Cluster", "DataNode", "Dataflow", "Flow", "StatementNode", "dataflow"]


@dataclass(frozen=True)
class StatementNode:
    """A statement and its domain."""

    name: str
    domain: str


@dataclass(frozen=True)
class DataNode:
    """A data space."""

    name: str
    label: str  # with extents and dtype
    role: Role


@dataclass(frozen=True)
class Flow:
    """Elements that one instance of a statement reads or writes."""

    statement: str
    space: str
    is_write: bool
    count: int  # different elements of the value and its place
    by_domain: int = 0  # different elements that decide which instances there are


@dataclass(frozen=True)
class Carried:
    """Dependences between two statements that a loop carries from iteration to iteration."""

    source: str
    target: str
    loop: int  # of the source, from 1
    spaces: tuple[str, ...]


@dataclass(frozen=True)
class Cluster:
    """A loop with what stands in it, in order; the outermost one is no loop."""

    loop: str  # what the loop runs over
    parts: tuple[Cluster | str, ...]  # inner loops, and names of statements


@dataclass(frozen=True)
class Dataflow:
    """The graph of one computation."""

    name: str
    statements: tuple[StatementNode, ...]  # in order of execution
    spaces: tuple[DataNode, ...]
    flows: tuple[Flow, ...]
    carried: tuple[Carried, ...]
    root: Cluster


def dataflow(computation: Computation) -> Dataflow:
    """The graph of a computation; equal computations have equal graphs."""
    root = Cluster("", tuple(_clusters(computation.statements, 0)))
    order = list(_names(root))
    return Dataflow(
        computation.name,
        tuple(StatementNode(name, str(computation.statement(name).domain)) for name in order),
        tuple(
            DataNode(s.name, _label(s.name, s.shape, s.dtype), s.role) for s in computation.spaces
        ),
        tuple(flow for name in order for flow in _flows(computation, computation.statement(name))),
        tuple(_carried(computation)),
        root,
    )


def _label(name: str, shape: Sequence[Linear], dtype: object) -> str:
    return f"{name}[{', '.join(map(str, shape))}]: {dtype}"


def _flows(computation: Computation, stmt: Stmt) -> Iterator[Flow]:
    found = accesses(stmt)
    for space in computation.spaces:
        own = [access for access in found if access.space == space.name]
        reads = [access for access in own if not access.is_write]
        if reads:
            decides = _different(access for access in reads if access.entries is not None)
            plain = _different(access for access in reads if access.entries is None)
            yield Flow(stmt.name, space.name, False, plain, decides)
        if any(access.is_write for access in own):
            yield Flow(stmt.name, space.name, True, 1)


def _different(found: Iterator[Access]) -> int:
    return len({access.index for access in found})


def _carried(computation: Computation) -> Iterator[Carried]:
    groups: dict[tuple[str, str, int], dict[str, None]] = {}
    for found in dependences(computation):
        if found.loop is not None:
            key = (found.source, found.target, found.loop)
            groups.setdefault(key, {})[found.space] = None
    for (source, target, loop), spaces in groups.items():
        yield Carried(source, target, loop, tuple(spaces))


def _clusters(statements: Sequence[Stmt], place: int) -> Iterator[Cluster | str]:
    """Statements with equal times so far, as loops and single statements in order."""
    groups: dict[tuple[bool, int], list[Stmt]] = {}
    for stmt in statements:
        entry = stmt.schedule[place] if place < len(stmt.schedule) else Linear.of(0)
        # A loop at this place is shared by all that have one; constants are told apart.
        key = (not entry.is_constant, entry.constant if entry.is_constant else 0)
        groups.setdefault(key, []).append(stmt)
    for (is_loop, _), inside in sorted(groups.items(), key=lambda group: group[0]):
        if not is_loop and all(len(stmt.schedule) <= place for stmt in inside):
            yield from (stmt.name for stmt in inside)
        elif is_loop:
            over = dict.fromkeys(str(stmt.schedule[place]) for stmt in inside)
            yield Cluster(", ".join(over), tuple(_clusters(inside, place + 1)))
        else:
            yield from _clusters(inside, place + 1)


def _names(cluster: Cluster) -> Iterator[str]:
    for part in cluster.parts:
        if isinstance(part, Cluster):
            yield from _names(part)
        else:
            yield part
