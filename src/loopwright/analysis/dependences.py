"""Dependences: which statement instances must run before which others, exactly.

All accesses of a Program are affine and certain, so isl computes the relations exactly:

    flow    { S[i] -> T[j] }  T[j] reads the value S[i] wrote: the last write before it
    anti    { S[i] -> T[j] }  T[j] writes an element S[i] read, and no instance between writes it
    output  { S[i] -> T[j] }  T[j] writes an element S[i] wrote, and no instance between writes it

Anti and output dependences name the next write only. Later writes follow by transitivity, so an
order that respects the three relations computes what the source order computes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import reduce
from heapq import heapify, heappop, heappush
from typing import Any

from loopwright.analysis.relations import between, ends, maps_of, union
from loopwright.ir.access_names import NamedAccess
from loopwright.ir.analysis_manager import AnalysisManager, DomainAnalysis
from loopwright.ir.islkit import (
    GaveUp,
    affine_map,
    attempt,
    context,
    has_quota,
    is_entangled,
    isl,
)
from loopwright.ir.program import Access, Program, Role, Statement
from loopwright.lazy_dataclass import dataclass
from loopwright.memo import computed_once

__all__ = [
    "Accesses",
    "Dependences",
    "FlowThrough",
    "access_map",
    "accesses",
    "dependences",
    "flow_into",
    "flow_through",
    "known_dependences",
    "memory_dependences",
    "require_few_remainders",
    "statement_between",
    "strongly_connected_components",
    "unchanged_results",
    "whole_results",
]

# Up to here isl is fastest on the whole tree; its effort grows with the square of the statements
# in one sequence, that of one array at a time does not.
_FEW_STATEMENTS = 60
_MOST_OPERATIONS = 4_000_000  # of isl, for the dependences of more, where a quota holds
_FEW_PIECES = 2  # of the accesses of one statement, that isl is asked about at once
# isl's projections and simplifications of deep nests take exponential time that no quota counts.
_MOST_LOOPS = 12


@dataclass(frozen=True, slots=True)
class Accesses:
    """Which statement instance touches which array element."""

    reads: isl.UnionMap  # { S[i] -> A[x] }
    writes: isl.UnionMap  # { S[i] -> A[x] }


@dataclass(frozen=True, eq=False)
class Dependences:
    """The pairs of statement instances of a Program whose order matters."""

    program: Program  # whose instances these are
    flow: isl.UnionMap  # { S[i] -> T[j] }
    anti: isl.UnionMap  # { S[i] -> T[j] }
    output: isl.UnionMap  # { S[i] -> T[j] }

    @computed_once
    def all_(self) -> isl.UnionMap:
        """`{ S[i] -> T[j] }`, dependences of any kind."""
        return self.flow.union(self.anti).union(self.output).coalesce()

    @property
    def kinds(self) -> tuple[tuple[str, isl.UnionMap], ...]:
        """The three relations with their names."""
        return (("flow", self.flow), ("anti", self.anti), ("output", self.output))

    @property
    def is_empty(self) -> bool:
        return all(relation.is_empty() for _, relation in self.kinds)

    def where(self, keep: Callable[[isl.UnionMap], isl.UnionMap]) -> Dependences:
        """The dependences with every relation passed through `keep`."""
        return Dependences(self.program, keep(self.flow), keep(self.anti), keep(self.output))

    def on_itself(self, statement: str) -> Dependences:
        """The dependences `{ S[i] -> S[j] }` of one statement on itself."""
        return self.where(lambda relation: between(relation, statement, statement))

    def edges(self) -> frozenset[tuple[str, str]]:
        """Pairs of distinct statements with a dependence from the first to the second."""
        maps = (m for _, relation in self.kinds for m in maps_of(relation))
        return frozenset((s, t) for s, t in map(ends, maps) if s != t)


def accesses(program: Program) -> Accesses:
    """The reads and writes of a program, each restricted to its statement's domain."""
    return _accesses(program, {array.name for array in program.arrays})


def _accesses(program: Program, arrays: Collection[str]) -> Accesses:
    deepest = max((len(statement.iterators) for statement in program.statements), default=0)
    if deepest > _MOST_LOOPS:
        raise GaveUp(f"{deepest} loops around a statement are more than {_MOST_LOOPS}")
    require_few_remainders(program)
    space = program.context.get_space()
    reads = [(s, a) for s in program.statements for a in s.reads if a.array in arrays]
    writes = [(s, s.write) for s in program.statements if s.write.array in arrays]
    # Few pieces are quicker; and on pieces that overlap, isl's dataflow analysis (0.27) has been
    # seen to leave its own arrays.
    return Accesses(
        union(space, (access_map(program, s, a) for s, a in reads)).coalesce(),
        union(space, (access_map(program, s, a) for s, a in writes)).coalesce(),
    )


def require_few_remainders(program: Program) -> None:
    """Raise GaveUp for conditions that isl may take for ever over, which no quota ends.

    Those are more than two divisions of which one is of a sum or of another division, as in
    `(2 * i + j) % 7 < 3 && (i - k) % 5 != (i + j) % 3`; divisions of single iterators are quick.
    """
    for statement in program.statements:
        if is_entangled(statement.domain):
            raise GaveUp(f"statement {statement.name} stands under many remainders of sums")


def _by_array(found: Accesses) -> Iterator[Accesses]:
    """The accesses of each written array by itself."""
    reads: dict[str, list[isl.Map]] = {}
    writes: dict[str, list[isl.Map]] = {}
    for relation, table in ((found.reads, reads), (found.writes, writes)):
        for one in maps_of(relation):
            table.setdefault(one.get_tuple_name(isl.dim_type.out), []).append(one)
    space = found.writes.get_space()
    for array, maps in writes.items():
        yield Accesses(union(space, reads.get(array, ())), union(space, maps))


def access_map(program: Program, statement: Statement, access: Access) -> isl.Map:
    """`{ S[i] -> A[x] }` for one access of a statement, where the program's context holds."""
    domain = statement.domain.intersect_params(program.context)
    return affine_map(domain, access.array, access.index)


def dependences(program: Program) -> Dependences:
    """The exact dependences of a program in its source order."""
    # Arrays that are never written order nothing.
    found = _accesses(program, {statement.write.array for statement in program.statements})
    if len(program.statements) <= _FEW_STATEMENTS:
        return _dependences(program, found, program.schedule)
    order = program.schedule.get_map()
    parts = []
    for one in _by_array(found):
        users = one.reads.domain().union(one.writes.domain()).universe()
        parts.append(_dependences(program, one, order.intersect_domain(users)))
    space = program.context.get_space()
    flow, anti, output = (
        union(space, (m for part in parts for m in maps_of(getattr(part, kind))))
        for kind in ("flow", "anti", "output")
    )
    return Dependences(program, flow, anti, output)


def _dependences(
    program: Program, found: Accesses, order: isl.Schedule | isl.UnionMap
) -> Dependences:
    """The dependences through the given accesses."""
    return Dependences(
        program,
        flow=_last_writes(order, found.writes, found.reads),
        anti=_anti(order, found),
        output=_last_writes(order, found.writes, found.writes),
    )


def flow_through(program: Program, array: str) -> isl.UnionMap:
    """The flow dependences `{ S[i] -> T[j] }` whose value stands in elements of `array`."""
    found = _accesses(program, {array})
    return _last_writes(_order_of(program.schedule, found), found.writes, found.reads)


def _order_of(order: isl.Schedule, found: Accesses) -> isl.Schedule:
    """The part of an order that makes some accesses.

    Other statements make no difference, but isl would walk through them.
    """
    return order.intersect_domain(found.reads.domain().union(found.writes.domain()))


# -- one array after the other: programs that differ in one share the results of all others -------


def known_dependences(analyses: AnalysisManager) -> Dependences:
    """The exact dependences of a program in its source order, with what is known of its arrays."""
    program = analyses.program
    if not 0 < len(program.statements) <= _FEW_STATEMENTS:
        found = analyses.derive(_of_many) if has_quota() else (dependences(program),)
        if not found:
            raise GaveUp(f"its dependences take isl more than {_MOST_OPERATIONS} operations")
        return found[0]
    written = dict.fromkeys(statement.write.array for statement in program.statements)
    flows = [analyses.derive(FlowThrough(array)) for array in written]
    anti, output = zip(*(analyses.derive(_NextWrites(array)) for array in written), strict=True)
    # Several arrays may order the same instances.
    return Dependences(program, *(_together(parts) for parts in (flows, anti, output)))


def _of_many(analyses: AnalysisManager) -> tuple[Dependences, ...]:
    """The dependences of many statements; none where isl gives up, which is asked only once."""
    try:
        with attempt(_MOST_OPERATIONS):
            return (dependences(analyses.program),)
    except GaveUp:
        return ()


def unchanged_results(analyses: AnalysisManager, changed: str) -> dict[Any, Any]:
    """What is known of dependences and domains and holds where one array is kept elsewhere.

    Values flow as they did, through that array as well.
    """
    kinds = (_AccessesOf, _NextWrites)
    found = {key: value for kind in kinds for key, value in analyses.results(kind).items()}
    kept = {key: value for key, value in found.items() if key.array != changed}
    kept |= analyses.results(FlowThrough) | analyses.results(DomainAnalysis)
    return kept | {_own_order: analyses.get(_own_order)}


def whole_results(analyses: AnalysisManager) -> dict[Any, Any]:
    """What is known of dependences, for a manager of the same program.

    Found before work was broken off it holds after it (`AnalysisManager`); what others may have
    added to the objects since is left behind.
    """
    kinds = (_AccessesOf, _Sources, FlowThrough, _NextWrites)
    found = {key: value for kind in kinds for key, value in analyses.results(kind).items()}
    if (order := analyses.known(_own_order)) is not None:
        found[_own_order] = order
    if (known := analyses.known(known_dependences)) is not None:
        found[known_dependences] = known.where(lambda relation: relation)
    if analyses.known(_of_many) == ():
        found[_of_many] = ()
    return found


def _together(parts: Sequence[isl.UnionMap]) -> isl.UnionMap:
    if len(parts) == 1:
        return parts[0]
    return reduce(isl.UnionMap.union, parts).coalesce()


@dataclass(frozen=True, slots=True)
class _AccessesOf:
    """Analysis: who accesses one array."""

    array: str

    def __call__(self, program: Program) -> Accesses:
        return _accesses(program, {self.array})


@dataclass(frozen=True, slots=True)
class FlowThrough:
    """Analysis: the flow dependences through one array, see `flow_through`."""

    array: str

    def __call__(self, analyses: AnalysisManager) -> isl.UnionMap:
        return analyses.derive(_Sources(self.array)).writes.coalesce()


@dataclass(frozen=True, slots=True)
class _Sources:
    """Analysis: the last write before every read of one array, and the reads that have none."""

    array: str

    def __call__(self, analyses: AnalysisManager) -> _LastWrites:
        found = analyses.get(_AccessesOf(self.array))
        array = analyses.program.array(self.array)
        is_scalar = array.role is Role.LOCAL and not array.rank
        # Plans spell domains as isl leaves them, and steps on scalars ask for these flows anyway.
        if is_scalar:
            order = _order_of(analyses.program.schedule, found)
        else:
            order = analyses.derive(_OrderOf(self.array))
        return _sources(order, found.writes, found.reads)


@dataclass(frozen=True, slots=True)
class _OrderOf:
    """Analysis: the order of the instances that access one array."""

    array: str

    def __call__(self, analyses: AnalysisManager) -> isl.Schedule:
        return _order_of(analyses.get(_own_order), analyses.get(_AccessesOf(self.array)))


@dataclass(frozen=True, slots=True)
class _NextWrites:
    """Analysis: the anti and the output dependences through one array.

    An element that one instance alone writes is written before every read that has a source: no
    write follows such a read, nor another write. Most arrays are like that, and isl takes long over
    the writes of domains in many pieces.

    Else the next write after a read that has a source is the next one after that source: none lies
    between the two. A statement writes one element, so that pairs of instances tell it. Where a
    read and that next write are of one instance, the write after it comes next.
    """

    array: str

    def __call__(self, analyses: AnalysisManager) -> tuple[isl.UnionMap, isl.UnionMap]:
        found = analyses.get(_AccessesOf(self.array))
        order = analyses.derive(_OrderOf(self.array))
        output = isl.UnionMap.empty(found.writes.get_space())
        if not found.writes.is_injective():
            output = _last_writes(order, found.writes, found.writes)
        sources = analyses.derive(_Sources(self.array))
        after = sources.writes.reverse().apply_range(output)
        own = after.intersect(after.domain().identity())
        if not own.is_empty():
            after = after.subtract(own).union(output.intersect_domain(own.domain()))
        if not sources.missing.is_empty():
            after = after.union(_anti(order, Accesses(sources.missing, found.writes)))
        return after.coalesce(), output


def _own_order(program: Program) -> isl.Schedule:
    """A copy of a program's order: isl drops needless conditions of what it restricts, in place."""
    return isl.Schedule.read_from_str(context(), str(program.schedule))


def flow_into(program: Program, read: NamedAccess) -> isl.UnionMap:
    """The flow dependences `{ S[i] -> T[j] }` whose value one read of T uses."""
    writes = _accesses(program, {read.access.array}).writes
    own = access_map(program, program.statement(read.statement), read.access)
    users = writes.domain().union(isl.UnionSet.from_set(own.domain()))
    order = program.schedule.intersect_domain(users)
    return _last_writes(order, writes, isl.UnionMap.from_map(own))


def memory_dependences(
    program: Program, arrays: Collection[str], flow: isl.UnionMap | None = None
) -> Dependences:
    """All ordered pairs of instances that touch one element of `arrays`, one of them writing it.

    `{ S[i] -> T[j] : S[i] runs before T[j], access(S[i]) = access(T[j]) }`: what is left to respect
    where some of the pairs between are given up. Flow that is known already is taken as it is.
    """
    found = _accesses(program, arrays)
    # The order of all pairs of statements would be too much: few of them touch these arrays.
    users = found.reads.domain().union(found.writes.domain()).universe()
    time = program.schedule.get_map().intersect_domain(users)
    earlier = time.lex_lt_union_map(time)

    def pairs(first: isl.UnionMap, second: isl.UnionMap) -> isl.UnionMap:
        return first.apply_range(second.reverse()).intersect(earlier).coalesce()

    return Dependences(
        program,
        flow=pairs(found.writes, found.reads) if flow is None else flow,
        anti=pairs(found.reads, found.writes),
        output=pairs(found.writes, found.writes),
    )


def _last_writes(
    order: isl.Schedule | isl.UnionMap, writes: isl.UnionMap, sinks: isl.UnionMap
) -> isl.UnionMap:
    """`{ S[i] -> T[j] : S[i] is the last to write the element of T[j]'s access before T[j] }`."""
    return _sources(order, writes, sinks).writes.coalesce()


@dataclass(frozen=True, slots=True)
class _LastWrites:
    """The last writes before some accesses."""

    writes: isl.UnionMap  # { S[i] -> T[j] }, S[i] is the last to write what T[j] accesses
    missing: isl.UnionMap  # { T[j] -> A[x] }, the accesses before which nobody writes the element


def _sources(
    order: isl.Schedule | isl.UnionMap, writes: isl.UnionMap, sinks: isl.UnionMap
) -> _LastWrites:
    """The last writes before accesses, and the accesses that have none.

    Each access has sources of its own, and isl's effort grows faster than the number of pieces that
    the accesses of a statement are in: pieces are asked for one by one.
    """
    parts = _few_pieces(sinks)
    if isinstance(order, isl.UnionMap) or len(parts) == 1:
        flow = _flow(order, isl.UnionAccessInfo.from_sink(sinks).set_must_source(writes))
        return _LastWrites(flow.get_must_dependence(), flow.get_must_no_source())
    found = [_sources(_order_of(order, Accesses(x, writes)), writes, x) for x in parts]
    return _LastWrites(_together([x.writes for x in found]), _together([x.missing for x in found]))


def _few_pieces(accesses: isl.UnionMap) -> list[isl.UnionMap]:
    """Parts of accesses: the pieces of statements that have many, and all others together."""
    maps = maps_of(accesses)
    many = [one for one in maps if one.n_basic_map() > _FEW_PIECES]
    if not many:
        return [accesses]
    others = [one for one in maps if one.n_basic_map() <= _FEW_PIECES]
    parts = [isl.UnionMap.from_basic_map(x) for one in many for x in one.get_basic_maps()]
    return [*([union(accesses.get_space(), others)] if others else []), *parts]


def _anti(order: isl.Schedule | isl.UnionMap, found: Accesses) -> isl.UnionMap:
    """`{ S[i] -> T[j] : T[j] is the first to write the element of S[i]'s read after S[i] }`."""
    before = isl.UnionAccessInfo.from_sink(found.writes).set_kill(found.writes)
    return _flow(order, before.set_may_source(found.reads)).get_may_dependence().coalesce()


def _flow(order: isl.Schedule | isl.UnionMap, access: isl.UnionAccessInfo) -> isl.UnionFlow:
    """isl's dataflow analysis in the given order.

    On some strided nests of several statements isl (0.27) fails over the schedule tree with "affine
    expression involves some of the domain dimensions"; the same order given as a map goes through.
    """
    if isinstance(order, isl.UnionMap):
        return access.set_schedule_map(order).compute_flow()
    try:
        return access.copy().set_schedule(order).compute_flow()
    except isl.Error as error:
        if "involves some of the domain dimensions" not in str(error):
            raise
        return access.set_schedule_map(order.get_map()).compute_flow()


# -- the graph of dependences between statements: its components, and units that run as one -------
# A unit is a set of statements that are to run as one. Merge the statements of each unit into one
# node of the graph. Where no cycle goes through a unit there is an order of the nodes that respects
# all dependences; statements outside of units that depend on each other in a cycle keep their
# source order among themselves.


def strongly_connected_components(
    nodes: Sequence[str], edges: Collection[tuple[str, str]]
) -> tuple[tuple[str, ...], ...]:
    """The strongly connected components of a graph, sources first.

    Nodes of a component keep their order; of components that may come next the one with the
    earliest node does, so that a graph without edges stays as it is.
    """
    reach = _reachable(nodes, edges)
    place = {node: k for k, node in enumerate(nodes)}
    groups: list[tuple[str, ...]] = []
    seen: set[str] = set()
    for node in nodes:
        if node not in seen:
            group = tuple(x for x in nodes if x == node or (x in reach[node] and node in reach[x]))
            seen.update(group)
            groups.append(group)
    owner = {node: group for group in groups for node in group}
    after: dict[tuple[str, ...], set[tuple[str, ...]]] = {group: set() for group in groups}
    for source, target in edges:
        if source in owner and target in owner and owner[source] != owner[target]:
            after[owner[source]].add(owner[target])
    waits = dict.fromkeys(groups, 0)
    for targets in after.values():
        for group in targets:
            waits[group] += 1
    ready = [(place[group[0]], group) for group in groups if not waits[group]]
    heapify(ready)
    ordered: list[tuple[str, ...]] = []
    while ready:
        _, first = heappop(ready)
        ordered.append(first)
        for group in after[first]:
            waits[group] -= 1
            if not waits[group]:
                heappush(ready, (place[group[0]], group))
    return tuple(ordered)


def _reachable(nodes: Sequence[str], edges: Collection[tuple[str, str]]) -> dict[str, set[str]]:
    """For each node those that a path of one or more edges leads to."""
    known = set(nodes)
    after: dict[str, set[str]] = {node: set() for node in nodes}
    for source, target in edges:
        if source in known and target in known:
            after[source].add(target)
    for middle in nodes:
        for node in nodes:
            if middle in after[node]:
                after[node] |= after[middle]
    return after


Unit = frozenset[str]


def statement_between(edges: Iterable[tuple[str, str]], units: Sequence[Unit]) -> str | None:
    """A statement that must run both after and before parts of one unit; None when there is none.

    `edges` are the pairs of statements with a dependence from the first to the second; `units` are
    disjoint. A unit in the way of another one is named by one of its statements.
    """
    owner = {name: unit for unit in units for name in unit}
    after: dict[Unit, set[Unit]] = {}
    for source, target in edges:
        pair = [owner.get(name, frozenset({name})) for name in (source, target)]
        if pair[0] != pair[1]:
            after.setdefault(pair[0], set()).add(pair[1])
    for unit in units:
        for node in sorted(after.get(unit, ()), key=min):
            if unit in _reached(after, node):
                return min(node)
    return None


def _reached(after: dict[Unit, set[Unit]], start: Unit) -> set[Unit]:
    """Every node on a path from `start`."""
    seen, waiting = {start}, [start]
    while waiting:
        fresh = after.get(waiting.pop(), set()) - seen
        seen |= fresh
        waiting += fresh
    return seen
