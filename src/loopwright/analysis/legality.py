"""Legality: whether an order of execution keeps the dependences, with the pair it would break.

A schedule tree orders instances lexicographically by its bands and sequences. It is legal when
the source of every dependence runs strictly before its target:

    { S[i] -> T[j] in dependences : time(S[i]) >= time(T[j]) } = {}

The tree is walked from its root. At a band, pairs with an earlier source are satisfied, pairs with
a later source are violations, the others go on to the child; pairs left at a leaf are unordered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from loopwright.analysis.dependences import Dependences
from loopwright.analysis.relations import ends, maps_of, smallest_point
from loopwright.diagnostics import InternalError, Span
from loopwright.ir.islkit import isl
from loopwright.ir.program import Program
from loopwright.ir.schedule_tree import band_name, band_node, bands_around
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "Instance",
    "Witness",
    "carried_by",
    "carried_witness",
    "inside_loop",
    "keeps",
    "violation",
    "witness",
]


Kind = isl.schedule_node_type
_PASSED_THROUGH = (Kind.domain, Kind.filter, Kind.mark, Kind.context, Kind.guard, Kind.extension)


@dataclass(frozen=True, slots=True)
class Instance:
    """One execution of a statement."""

    statement: str
    point: tuple[int, ...]  # values of the statement's iterators
    span: Span | None  # where the statement stands

    def __str__(self) -> str:
        return f"{self.statement}[{', '.join(map(str, self.point))}]"


@dataclass(frozen=True, slots=True)
class Witness:
    """A dependence that an order of execution breaks, at one point."""

    kind: str  # "flow", "anti" or "output"
    source: Instance
    target: Instance
    params: tuple[tuple[str, int], ...]  # parameter values the pair exists for, where they matter
    verb: str = "would reverse"

    def __str__(self) -> str:
        text = f"{self.verb} {self.kind} {self.source} -> {self.target}"
        if self.source.span is None or self.target.span is None:
            return text
        places = (f"{span.file}:{span.line}" for span in (self.source.span, self.target.span))
        return f"{text} ({' -> '.join(places)})"


def violation(
    dependences: Dependences, tree: isl.Schedule, proven: Collection[str] = ()
) -> Witness | None:
    """A dependence whose source `tree` does not run before its target; None when it is legal.

    The loops `proven` stand at the same places in a tree that keeps the dependences, with the same
    loops inside: the same pairs reach them, and are in order.
    """
    broken = _broken(tree.get_root(), dependences.all_, proven)
    if broken is None:
        return None
    verb, pairs = broken
    return witness(dependences.where(lambda relation: relation.intersect(pairs)), verb)


def keeps(pairs: isl.UnionMap, tree: isl.Schedule) -> bool:
    """Whether `tree` runs the source of every pair before its target."""
    return _broken(tree.get_root(), pairs, ()) is None


def carried_by(dependences: Dependences, tree: isl.Schedule, loop: str) -> Dependences:
    """The dependences between different iterations of a loop, in one iteration of those outside.

    `{ S[i] -> T[j] : outer(S[i]) = outer(T[j]), loop(S[i]) /= loop(T[j]) }`, where outer stands for
    all bands and positions in sequences around the band called `loop`.
    """
    return dependences.where(_different(tree, loop))


def carried_witness(dependences: Dependences, tree: isl.Schedule, loop: str) -> Witness | None:
    """`witness(carried_by(...))`; kinds behind the first that has a pair are not asked about."""
    different = _different(tree, loop)
    nothing = isl.UnionMap.empty(dependences.flow.get_space())
    for at, (_, relation) in enumerate(dependences.kinds):
        parts = [different(relation) if at == k else nothing for k in range(3)]
        found = witness(Dependences(dependences.program, *parts))
        if found is not None:
            return found
    return None


def _different(tree: isl.Schedule, loop: str) -> Callable[[isl.UnionMap], isl.UnionMap]:
    """What keeps the pairs between different iterations of a loop, see `carried_by`."""
    band = band_node(tree, loop)
    time = band.band_get_partial_schedule()

    def different(relation: isl.UnionMap) -> isl.UnionMap:
        inside = _inside(band, relation)
        earlier = inside.lex_lt_at_multi_union_pw_aff(time)
        return earlier.union(inside.lex_gt_at_multi_union_pw_aff(time))

    return different


def inside_loop(relation: isl.UnionMap, tree: isl.Schedule, loop: str) -> isl.UnionMap:
    """The pairs of instances that meet in one execution of a whole loop."""
    return _inside(band_node(tree, loop), relation)


def witness(dependences: Dependences, verb: str = "would reverse") -> Witness | None:
    """The smallest pair of the first kind (flow, anti, output) that has one; None without pairs."""
    program = dependences.program
    place = {statement.name: k for k, statement in enumerate(program.statements)}
    for kind, relation in dependences.kinds:
        pairs = sorted(maps_of(relation), key=lambda m: tuple(place[name] for name in ends(m)))
        for pair in pairs:
            if not pair.is_empty():
                return _smallest(program, kind, pair, verb)
    return None


def _broken(
    node: isl.ScheduleNode, pairs: isl.UnionMap, proven: Collection[str]
) -> tuple[str, isl.UnionMap] | None:
    """The part of `pairs`, not ordered above `node`, that it orders wrongly or not at all."""
    if pairs.is_empty():
        return None
    kind = _kind(node)
    if kind == Kind.leaf:
        return "would not order", pairs
    if kind == Kind.band:
        if band_name(node) in proven:
            return None
        time = node.band_get_partial_schedule()
        late = pairs.lex_gt_at_multi_union_pw_aff(time)
        if not late.is_empty():
            return "would reverse", late
        return _broken(node.child(0), pairs.eq_at_multi_union_pw_aff(time), proven)
    if kind in (Kind.sequence, Kind.set):
        return _broken_among_children(node, pairs, proven)
    if kind in _PASSED_THROUGH:
        return _broken(node.child(0), pairs, proven)
    raise InternalError(f"schedule node of type {kind.name}", str(node))


def _broken_among_children(
    node: isl.ScheduleNode, pairs: isl.UnionMap, proven: Collection[str]
) -> tuple[str, isl.UnionMap] | None:
    """As `_broken`, for a sequence (children run in order) or a set (in no order)."""
    children = [node.child(k) for k in range(node.n_children())]
    filters = [child.filter_get_filter() for child in children]
    is_set = _kind(node) == Kind.set
    for k, child in enumerate(children):
        leaving = pairs.intersect_domain(filters[k])
        others = filters[:k] + filters[k + 1 :] if is_set else filters[:k]
        for other in others:
            crossing = leaving.intersect_range(other)
            if not crossing.is_empty():
                return "would not order" if is_set else "would reverse", crossing
        broken = _broken(child, leaving.intersect_range(filters[k]), proven)
        if broken is not None:
            return broken
    return None


def _inside(band: isl.ScheduleNode, relation: isl.UnionMap) -> isl.UnionMap:
    """The pairs of `relation` whose ends meet in one execution of `band`'s whole loop."""
    reached = band.get_domain()
    pairs = relation.intersect_domain(reached).intersect_range(reached)
    # Inner loops first: where they run over single iterators and not over blocks of them, few pairs
    # are left for the others, whose divisions are hard on isl.
    for node in bands_around(band):
        pairs = pairs.eq_at_multi_union_pw_aff(node.band_get_partial_schedule())
    return pairs


def _kind(node: isl.ScheduleNode) -> isl.schedule_node_type:
    return Kind(node.get_type())


def _smallest(program: Program, kind: str, pair: isl.Map, verb: str) -> Witness:
    """The pair with the smallest parameters, then the first source, then the first target."""
    known = pair.intersect_params(program.context).drop_unused_params()
    found = smallest_point(known.wrap())
    values = [value for _, value in found]
    count = known.dim(isl.dim_type.param)
    cut = count + known.dim(isl.dim_type.in_)
    statements = [program.statement(name) for name in ends(pair)]
    points = (tuple(values[count:cut]), tuple(values[cut:]))
    source, target = (Instance(s.name, p, s.span) for s, p in zip(statements, points, strict=True))
    return Witness(kind, source, target, found[:count], verb)
