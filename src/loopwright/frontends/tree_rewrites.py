"""Rewrites of source trees: dead locals, forward substitution, if-conversion, smaller sizes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from loopwright.frontends.affine_check import why_no_affine_condition
from loopwright.frontends.fresh_names import FreshNames
from loopwright.frontends.source_tree import (
    ArrayParam,
    Assign,
    ForLoop,
    IfElse,
    Local,
    Node,
    SourceTree,
)
from loopwright.ir.expr import Binary, Const, Expr, Load, Select, Unary, Var
from loopwright.ir.program import Access
from loopwright.ir.visit import children, loads, rewrite, walk
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "ShrunkTree",
    "assigned_elements",
    "assignments",
    "certain_loads",
    "divides_integers",
    "eliminate_dead_locals",
    "fill_nest",
    "forward_substitute",
    "merge_branches",
    "only_inside",
    "predicate_assignments",
    "set_before_read",
    "shrink_sizes",
    "split_selects",
    "unproven_bounds",
]

_MOST_COPIES = 128  # expression nodes in all copies of a substituted value
_MOST_SPLITS = 6  # affine conditions taken out of one statement; each doubles its copies


def assignments(nodes: Iterable[Node]) -> Iterator[Assign]:
    """Every assignment below `nodes`, in source order."""
    for node in nodes:
        match node:
            case Assign():
                yield node
            case ForLoop(body=body):
                yield from assignments(body)
            case IfElse(body=body, orelse=orelse):
                yield from assignments(body)
                yield from assignments(orelse)
            case _:
                assert_never(node)


def fill_nest(target: Local, value: Expr, names: FreshNames) -> Node:
    """The loops that set every element of a local array to `value`."""
    loops = [names.fresh(f"{target.name}_i{k}") for k in range(len(target.shape))]
    access = Access(target.name, tuple(map(Var, loops)), target.dtype)
    nest: Node = Assign(access, value, target.span)
    for loop, extent in zip(reversed(loops), reversed(target.shape), strict=True):
        nest = ForLoop(loop, Const(0), extent, 1, (nest,), target.span)
    return nest


def split_selects(assign: Assign, given: Container[str] = ()) -> Node:
    """Turn selects on affine conditions that guard loads into branches.

    rewrite:  S: x = a[i-1] if i > 0 else 0
              ->  if i > 0: S0: x = a[i-1]   else: S1: x = 0

    Both branches of a Select may be evaluated, so a guarded load must not stay inside one. A Select
    on data stays, since its accesses are not affine. Loads of scalars in `given`, which always have
    a value, need no guard.
    """
    return _split(assign, given, _MOST_SPLITS)


def _split(assign: Assign, given: Container[str], left: int) -> Node:
    found = next((x for x in walk(assign.value) if _is_guard(x, given)), None)
    if left == 0 or not isinstance(found, Select):
        return assign
    copies = [replace(assign, value=_put(assign.value, found, x)) for x in (found.x, found.y)]
    body, orelse = (_split(copy, given, left - 1) for copy in copies)
    return IfElse(found.cond, (body,), (orelse,), assign.span)


def _is_guard(expr: Expr, given: Container[str]) -> bool:
    if not isinstance(expr, Select) or why_no_affine_condition(expr.cond) is not None:
        return False
    guarded = (*loads(expr.x), *loads(expr.y))
    return any(x.index or x.array not in given for x in guarded)


def _put(expr: Expr, old: Expr, new: Expr) -> Expr:
    """`expr` with every `old` replaced by `new`."""
    return rewrite(expr, lambda node: new if node == old else node)


def forward_substitute(chain: Sequence[Assign]) -> tuple[Assign, ...]:
    """Substitute scalars by their values where that hardly lengthens the program.

    rewrite:  t = a[i] + b[i]; u = t * c[i]; x[i] = u - u*u
              ->  x[i] = (a[i] + b[i]) * c[i] - ((a[i] + b[i]) * c[i]) * ((a[i] + b[i]) * c[i])

    All but the last assignment set scalars, each once, that only later ones of the chain read.
    Fewer statements leave planners more freedom; backends eliminate common subexpressions again.
    """
    *scalars, last = chain
    kept: list[Assign] = [last]
    for assign in reversed(scalars):
        used = Load(assign.target.array, (), assign.target.dtype)
        uses = sum(x == used for later in kept for x in walk(later.value))
        if uses > 1 and uses * _operators(assign.value) > _MOST_COPIES:
            kept.append(assign)
        elif uses:
            kept = [replace(x, value=_put(x.value, used, assign.value)) for x in kept]
    return tuple(reversed(kept))


def _operators(expr: Expr) -> int:
    """The number of nodes of a value without its subscripts."""
    return 1 if isinstance(expr, Load) else 1 + sum(map(_operators, children(expr)))


def eliminate_dead_locals(tree: SourceTree) -> SourceTree:
    """Remove locals that are never read or returned, with their assignments and empty loops."""
    returned = set(tree.result.names) if tree.result is not None else set()
    while True:
        read = {x.array for a in assignments(tree.body) for x in loads(a.value)}
        dead = {local.name for local in tree.locals} - read - returned
        if not dead:
            return tree
        kept = tuple(local for local in tree.locals if local.name not in dead)
        tree = replace(tree, locals=kept, body=_without(tree.body, dead))


def _without(nodes: tuple[Node, ...], dead: set[str]) -> tuple[Node, ...]:
    kept: list[Node] = []
    for node in nodes:
        match node:
            case Assign(target=target):
                if target.array not in dead:
                    kept.append(node)
            case ForLoop(body=body):
                inner = _without(body, dead)
                if inner:
                    kept.append(replace(node, body=inner))
            case IfElse(body=body, orelse=orelse):
                inner, other = _without(body, dead), _without(orelse, dead)
                if inner or other:
                    kept.append(replace(node, body=inner, orelse=other))
            case _:
                assert_never(node)
    return tuple(kept)


# -- if-conversion --------------------------------------------------------------------------
#
# Statements under a condition on data become assignments that keep the old value where it fails:
#
#     if (b[i] > 0) s += b[i];      ->      s = b[i] > 0 ? s + b[i] : s;
#
# Every element that may be assigned must exist whether the condition holds or not. A scalar without
# an old value, and one that the other branch sets anyway, is assigned in any case:
#
#     if (b[i] > 0) s = 1; else s = 2;      ->      s = 1; s = b[i] > 0 ? s : 2;


# An assigned element, and the conditions under which the assignment runs.
Target = tuple[Access, tuple[Expr, ...]]


def predicate_assignments(
    nodes: Sequence[Node], mask: Expr, own: Collection[str]
) -> tuple[Node, ...]:
    """`nodes` whose assignments keep the old value where `mask` is false, but for those of `own`.

    These are scalars whose values nobody reads where `mask` is false.
    """

    def change(node: Assign) -> Node:
        if node.target.array in own:
            return node
        return replace(node, value=Select(mask, node.value, node.target.load()))

    return _each_assignment(nodes, change)


def _each_assignment(nodes: Sequence[Node], change: Callable[[Assign], Node]) -> tuple[Node, ...]:
    """`nodes` with another node in place of every assignment."""

    def visit(node: Node) -> Node:
        match node:
            case Assign():
                return change(node)
            case ForLoop(body=body):
                return replace(node, body=tuple(map(visit, body)))
            case IfElse(body=body, orelse=orelse):
                return replace(node, body=tuple(map(visit, body)), orelse=tuple(map(visit, orelse)))
            case _:
                assert_never(node)

    return tuple(map(visit, nodes))


def set_before_read(nodes: Iterable[Node]) -> frozenset[str]:
    """Scalars that `nodes` assign in every case, and do not read before."""
    found: set[str] = set()
    read: set[str] = set()
    for node in nodes:
        match node:
            case Assign(target=target, value=value):
                read |= {load.array for load in loads(value)}
                if not target.index and target.array not in read:
                    found.add(target.array)
            case IfElse(body=body, orelse=orelse):
                found |= (set_before_read(body) & set_before_read(orelse)) - read
                read |= _loaded(node)
            case ForLoop():
                read |= _loaded(node)
            case _:
                assert_never(node)
    return frozenset(found)


def _loaded(node: Node) -> set[str]:
    return {load.array for one in assignments((node,)) for load in loads(one.value)}


def divides_integers(value: Expr) -> bool:
    """Whether a value holds a quotient or remainder of integers whose divisor may be 0."""
    return any(
        isinstance(node, Binary)
        and node.op in ("div", "floordiv", "mod")
        and node.dtype.kind in "iu"
        and not (isinstance(node.y, Const) and node.y.value != 0)
        for node in walk(value)
    )


def merge_branches(cond: Expr, body: Sequence[Node], orelse: Sequence[Node]) -> Assign | None:
    """Both branches as one assignment of a select, where they assign the same element."""
    match body, orelse:
        case [Assign() as first], [Assign() as second] if first.target == second.target:
            return replace(first, value=Select(cond, first.value, second.value))
        case [Assign() as first], []:
            return replace(first, value=Select(cond, first.value, first.target.load()))
    return None


def assigned_elements(nodes: Sequence[Node], facts: tuple[Expr, ...] = ()) -> list[Target]:
    """Every element that nodes assign, with the conditions of the loops and branches around it."""
    found: list[Target] = []
    for node in nodes:
        match node:
            case Assign(target=target):
                found.append((target, facts))
            case ForLoop(var=name, start=start, stop=stop, step=step, body=body):
                var = Var(name)
                bounds = (var >= start, var < stop) if step > 0 else (var <= start, var > stop)
                found += assigned_elements(body, (*facts, *bounds))
            case IfElse(cond=cond, body=body, orelse=orelse):
                found += assigned_elements(body, (*facts, cond))
                found += assigned_elements(orelse, (*facts, Unary("not", cond)))
            case _:
                assert_never(node)
    return found


def certain_loads(cond: Expr) -> Iterator[Load]:
    """The elements that are read whenever a condition is evaluated, as C does from the left."""
    match cond:
        case Load():
            yield cond
        case Binary(op="and" | "or", x=x):
            yield from certain_loads(x)
        case Select(cond=first):
            yield from certain_loads(first)
        case _:
            for child in children(cond):
                yield from certain_loads(child)


def unproven_bounds(
    target: Access,
    shape: Sequence[Expr],
    cond: Expr,
    prove: Callable[[Expr], bool],
) -> list[Expr]:
    """What must hold for an element to exist, less what is proven; `cond` reads none outside."""
    if any((x.array, x.index) == (target.array, target.index) for x in loads(cond)):
        return []
    pairs = zip(target.index, shape, strict=True)
    needed = [bound for entry, extent in pairs for bound in (entry >= 0, entry < extent)]
    return [bound for bound in needed if not prove(bound)]


def only_inside(nodes: Sequence[Node], inside: Mapping[Access, Expr]) -> tuple[Node, ...]:
    """`nodes` whose assignments to the elements of `inside` happen under that condition only."""

    def change(node: Assign) -> Node:
        bounds = inside.get(node.target)
        return node if bounds is None else IfElse(bounds, (node,), (), node.span)

    return _each_assignment(nodes, change)


# -- smaller sizes --------------------------------------------------------------------------
#
# A program of literal sizes is made smaller for checking: the same loops over fewer iterations.
# Sizes are the large integers in extents, bounds, conditions and subscripts. Integers that lie
# close together belong to one size (2048, 2047 and 2046 do) and keep their distances; all sizes are
# divided by one factor, which keeps most of their ratios. The result may be out of bounds: the
# caller checks that no subscript leaves its array.


_LEAST = 32  # sizes are divided down to this at most
_CLOSE = 16  # integers at most so far apart belong to one size
_LARGE = _LEAST + _CLOSE  # integers from here on are sizes


@dataclass(frozen=True, slots=True)
class ShrunkTree:
    """A tree with smaller literal sizes, and the size that each was made from."""

    tree: SourceTree
    sizes: dict[int, int]  # old to new, of the largest integer of each size


def shrink_sizes(tree: SourceTree, factor: int) -> ShrunkTree | None:
    """`tree` with its literal sizes divided by `factor`; None where it has none to divide."""
    found: set[int] = set()

    def collect(expr: Expr) -> Expr:
        found.update(abs(size) for size in map(_literal_size, walk(expr)) if size)
        return expr

    _map_affine(tree, collect)
    sizes, numbers = _divide_sizes(sorted(found, reverse=True), factor)
    if not sizes:
        return None

    def change(expr: Expr) -> Expr:
        size = _literal_size(expr)
        if not size:
            return expr
        return Const(numbers[size] if size > 0 else -numbers[-size], expr.dtype)

    return ShrunkTree(_map_affine(tree, lambda expr: rewrite(expr, change)), sizes)


def _literal_size(expr: Expr) -> int:
    """The value of a literal size; 0 for any other expression."""
    match expr:
        case Const(value=int(value)) if not isinstance(value, bool) and abs(value) >= _LARGE:
            return value
        case _:
            return 0


def _divide_sizes(numbers: list[int], factor: int) -> tuple[dict[int, int], dict[int, int]]:
    """New values of the sizes that change, and of all `numbers`, which are in descending order."""
    sizes: dict[int, int] = {}
    changed: dict[int, int] = {}
    largest = 0
    for number in numbers:
        if not changed or largest - number > _CLOSE:
            largest = number
            sizes[largest] = min(largest, max(_LEAST, -(-largest // factor)))
        changed[number] = sizes[largest] - (largest - number)
    return {size: new for size, new in sizes.items() if new < size}, changed


def _map_affine(tree: SourceTree, change: Callable[[Expr], Expr]) -> SourceTree:
    """The tree with `change` applied to all extents, bounds, conditions and subscripts."""

    def each(index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(map(change, index))

    def load(expr: Expr) -> Expr:
        return replace(expr, index=each(expr.index)) if isinstance(expr, Load) else expr

    def node(found: Node) -> Node:
        match found:
            case Assign(target=target, value=value):
                target = replace(target, index=each(target.index))
                return replace(found, target=target, value=rewrite(value, load))
            case ForLoop(start=start, stop=stop, body=body):
                ends = change(start), change(stop)
                return replace(found, start=ends[0], stop=ends[1], body=tuple(map(node, body)))
            case IfElse(cond=cond, body=body, orelse=orelse):
                parts = tuple(map(node, body)), tuple(map(node, orelse))
                return IfElse(change(cond), *parts, found.span)
            case _:
                assert_never(found)

    params = tuple(
        replace(p, shape=each(p.shape)) if isinstance(p, ArrayParam) else p for p in tree.params
    )
    local = tuple(replace(x, shape=each(x.shape)) for x in tree.locals)
    return replace(tree, params=params, locals=local, body=tuple(map(node, tree.body)))
