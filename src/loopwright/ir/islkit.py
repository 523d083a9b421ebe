"""The door to isl: one context per thread, affine expressions to isl objects, the work quota.

Only this module imports islpy, and on a thread of its own: a signal handler that raises while
islpy is loaded would end the process. isl contexts are not thread safe and islpy does not notice
when objects of two contexts meet, so every object of Loopwright is made through this module.
"""

from __future__ import annotations

import copyreg
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, overload

from loopwright.ir.expr import Binary, Cast, Const, Expr, Select, Unary, Var
from loopwright.time_limit import require_time
from loopwright.undisturbed import undisturbed


def _load() -> None:
    import islpy  # noqa: F401  # lazy: on another thread than the one that handles signals


undisturbed(_load)
import islpy as isl  # noqa: E402, it is loaded by now

__all__ = [
    "ISL_QUOTA",
    "OUTER_QUOTA",
    "GaveUp",
    "IslSchedule",
    "IslSet",
    "NotAffine",
    "QuotaExceeded",
    "affine",
    "affine_map",
    "attempt",
    "context",
    "functions_in",
    "has_quota",
    "holds",
    "inside",
    "is_entangled",
    "is_intricate",
    "is_order_of",
    "isl",
    "isl_integer",
    "map_nodes",
    "maps_in",
    "nodes_in",
    "ordered_points",
    "pieces_in",
    "points_in",
    "quota",
    "require_whole",
    "sets_in",
    "tuple_of",
    "with_option",
]

T = TypeVar("T")

# The isl types that stand in fields of nouns.
IslSet = isl.Set
IslSchedule = isl.Schedule

ISL_QUOTA = 5_000_000  # elementary isl operations per compile, some seconds at most
OUTER_QUOTA = 20_000_000  # of what stands between parts that have quotas of their own

_MOST_DIVISIONS = 3  # of a piece of a set that isl searches
_MOST_ENTANGLED = 2  # divisions, where one is of several iterators

_local = threading.local()


class NotAffine(ValueError):  # noqa: N818, names what was found
    """Raised with the offending sub-expression when an expression is not (quasi-)affine."""

    def __init__(self, expr: Expr) -> None:
        super().__init__(f"not affine: {expr}")
        self.expr = expr


class GaveUp(Exception):  # noqa: N818, names what happened
    """Raised when isl does not finish an attempt: the work is too much, or isl itself at fault."""


class QuotaExceeded(GaveUp):
    """Raised when an isl computation used up its operation quota."""


def context() -> isl.Context:
    """This thread's isl context, made on first use. Errors raise; they never abort."""
    found: isl.Context | None = getattr(_local, "context", None)
    if found is None:
        # islpy keeps one default context; only threads beyond the main one need their own.
        main = threading.current_thread() is threading.main_thread()
        found = isl.DEFAULT_CONTEXT if main else isl.Context()
        _local.quotas = []
        _local.context = found
    return found


def _saved_set(given: isl.Set) -> tuple[Callable[[str], isl.Set], tuple[str]]:
    return _read_set, (str(given),)


def _read_set(text: str) -> isl.Set:
    return isl.Set.read_from_str(context(), text)


def _saved_schedule(given: isl.Schedule) -> tuple[Callable[[str], isl.Schedule], tuple[str]]:
    return _read_schedule, (str(given),)


def _read_schedule(text: str) -> isl.Schedule:
    return isl.Schedule.read_from_str(context(), text)


# Nouns with isl objects travel to other processes and threads as text. islpy's own way makes sets
# of its default context, whichever thread reads them, and knows no schedules.
copyreg.pickle(IslSet, _saved_set)
copyreg.pickle(IslSchedule, _saved_schedule)


@contextmanager
def quota(operations: int) -> Iterator[None]:
    """Bound the isl work inside the block: the same input always ends at the same place.

    isl counts elementary operations; past `operations` it fails and the block raises QuotaExceeded,
    whatever became of the failure inside: isl may first return an object without contents, and a
    later call stumbles over it with an error of its own. A quota around this one begins anew after
    the block: isl does not tell how much of it was spent.
    """
    require_time()
    ctx = context()
    quotas: list[int] = _local.quotas
    depth = len(quotas)
    try:
        quotas.append(operations)
        ctx.reset_operations()
        ctx.set_max_operations(operations)
        yield
    finally:
        # Each step is made even where the handler of a signal raises in the one before; so does it
        # in contextlib, and then a block inside this one has not ended or ends after it.
        try:
            spent = _is_spent(ctx)
        finally:
            del quotas[depth:]
            try:
                ctx.reset_operations()
            finally:
                ctx.set_max_operations(quotas[-1] if quotas else 0)
        if spent:
            raise QuotaExceeded(f"more than {operations} isl operations")


@contextmanager
def attempt(operations: int) -> Iterator[None]:
    """As `quota`, for work that can be left undone: every failure of isl raises GaveUp."""
    try:
        with quota(operations):
            yield
    except isl.Error as error:
        raise GaveUp(str(error)) from error


def bounded(
    work: Callable[[], T], otherwise: Callable[[GaveUp], T], operations: int = ISL_QUOTA
) -> T:
    """`work()`, or `otherwise(error)` where it takes more than a number of isl's operations.

    The one policy for work that is too hard (ADR 8): whoever bounds an effort says what is done
    without it. What was broken off may be half done; nothing of it is used again.
    """
    try:
        with attempt(operations):
            return work()
    except GaveUp as error:
        return otherwise(error)


def with_option(name: str, value: int, work: Callable[[], T]) -> T:
    """`work()` under an option of isl's context, such as "ast_build_group_coscheduled"."""
    ctx = context()
    change = getattr(ctx, f"set_{name}")
    around = getattr(ctx, f"get_{name}")()
    try:
        change(value)
        return work()
    finally:
        change(around)  # first of all: the handler of a signal may raise after any call


def require_whole() -> None:
    """Raise QuotaExceeded where the quota is spent: results since then may be without contents.

    isl fails in all it does from there on. What was computed before a call that returns is whole.
    Raise TimeLimitError where the seconds of the compilation are spent.
    """
    require_time()
    quotas: list[int] = _local.quotas if hasattr(_local, "context") else []
    if quotas and _is_spent(_local.context):
        raise QuotaExceeded(f"more than {quotas[-1]} isl operations")


def has_quota() -> bool:
    """Whether a quota bounds isl's work on this thread."""
    return hasattr(_local, "context") and bool(_local.quotas)


def _is_spent(ctx: isl.Context) -> bool:
    """Whether the next operation would go past the quota."""
    try:
        isl.Space.set_alloc(ctx, 0, 0)
    except isl.Error:
        return True
    return False


def affine(expr: Expr, space: isl.Space) -> isl.PwAff:
    """`expr` as a piecewise quasi-affine function on the set space `space`.

    Variables are looked up by name among the set dimensions first, then the parameters.
    Raises NotAffine with the sub-expression at fault.
    """
    local = isl.LocalSpace.from_space(space)

    def build(node: Expr) -> isl.PwAff:
        match node:
            case Const(value=value) if isinstance(value, int):
                return isl.PwAff.from_aff(_number(int(value), space))
            case Var(name=name):
                for kind in (isl.dim_type.set, isl.dim_type.param):
                    at = space.find_dim_by_name(kind, name)
                    if at >= 0:
                        return isl.PwAff.from_aff(isl.Aff.var_on_domain(local, kind, at))
            case Cast(x=x) if node.dtype.is_integer and x.dtype.is_integer:
                return build(x)
            case Unary(op="neg", x=x):
                return build(x).neg()
            case Binary(op="add", x=x, y=y):
                return build(x).add(build(y))
            case Binary(op="sub", x=x, y=y):
                return build(x).sub(build(y))
            case Binary(op="min", x=x, y=y):
                return build(x).min(build(y))
            case Binary(op="max", x=x, y=y):
                return build(x).max(build(y))
            case Binary(op="mul", x=x, y=y):
                left, right = build(x), build(y)
                if left.is_cst() or right.is_cst():
                    return left.mul(right)
            case Binary(op="floordiv", x=x, y=Const(value=value)) if _positive(value):
                return build(x).scale_down_val(isl_integer(value)).floor()  # type: ignore[arg-type]
            case Binary(op="mod", x=x, y=Const(value=value)) if _positive(value):
                return build(x).mod_val(isl_integer(value))  # type: ignore[arg-type]
            case Select(cond=cond, x=x, y=y):
                where = condition(cond, space)
                other = build(y).intersect_domain(where.complement())
                return build(x).intersect_domain(where).union_add(other)
        raise NotAffine(node)

    return build(expr)


def condition(cond: Expr, space: isl.Space) -> isl.Set:
    """The points of `space` where a boolean combination of affine comparisons holds.

    Raises NotAffine with the sub-expression at fault.
    """
    match cond:
        case Const(value=value):
            return isl.Set.universe(space) if value else isl.Set.empty(space)
        case Unary(op="not", x=x):
            return condition(x, space).complement()
        # Joined at once: the pieces of many conditions would multiply.
        case Binary(op="and", x=x, y=y):
            return condition(x, space).intersect(condition(y, space)).coalesce()
        case Binary(op="or", x=x, y=y):
            return condition(x, space).union(condition(y, space)).coalesce()
        case Binary(op="ne", x=Binary(op="mod") as x, y=Const(value=int() as value)):
            return _other_remainder(x, int(value), space)
        case Binary(op="ne", x=Const(value=int() as value), y=Binary(op="mod") as x):
            return _other_remainder(x, int(value), space)
        case Binary(op=op, x=x, y=y) if op in _COMPARE:
            return _COMPARE[op](affine(x, space), affine(y, space))
    raise NotAffine(cond)


def _other_remainder(x: Binary, value: int, space: isl.Space) -> isl.Set:
    """Where `dividend mod p != value`: (dividend - value) mod p >= 1, one piece where isl has two.

    Pieces of several such conditions would multiply.
    """
    rest = affine(x, space)
    wanted = isl.PwAff.from_aff(_number(value, space))
    match x.y:
        case Const(value=int() as divisor) if 0 <= value < divisor:
            moved = Binary("mod", Binary("sub", x.x, Const(value)), x.y)
            return affine(moved, space).ge_set(isl.PwAff.from_aff(_number(1, space)))
    return rest.ne_set(wanted)


def isl_integer(value: int) -> isl.Val:
    """An integer of any size as a value of isl; `int_from_si` takes 64 bits only."""
    return isl.Val(str(int(value)), context=context())


def _number(value: int, space: isl.Space) -> isl.Aff:
    return isl.Aff.val_on_domain(isl.LocalSpace.from_space(space), isl_integer(value))


_COMPARE = {
    "lt": isl.PwAff.lt_set,
    "le": isl.PwAff.le_set,
    "gt": isl.PwAff.gt_set,
    "ge": isl.PwAff.ge_set,
    "eq": isl.PwAff.eq_set,
    "ne": isl.PwAff.ne_set,
}


def affine_map(domain: isl.Set, array: str, index: Sequence[Expr]) -> isl.Map:
    """The access `{ S[i] -> array[index(i)] : i in domain }`."""
    space = domain.get_space()
    out = isl.Space.set_alloc(context(), 0, len(index)).set_tuple_name(isl.dim_type.set, array)
    functions = isl.PwAffList.alloc(context(), len(index))
    for entry in index:
        functions = functions.add(affine(entry, space))
    range_space = out.align_params(space)
    full = isl.Space.map_from_domain_and_range(space, range_space)
    multi = isl.MultiPwAff.from_pw_aff_list(full, functions)
    return isl.Map.from_multi_pw_aff(multi).intersect_domain(domain)


def _positive(value: object) -> bool:
    return isinstance(value, int) and value > 0


def tuple_of(domain: isl.Set) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    """The parameters, the tuple name and the dimension names of a set, "" where unnamed."""

    def names(kind: isl.dim_type) -> tuple[str, ...]:
        return tuple(domain.get_dim_name(kind, at) or "" for at in range(domain.dim(kind)))

    if domain.is_params():
        return names(isl.dim_type.param), "", ()
    name = domain.get_tuple_name() if domain.has_tuple_name() else None
    return names(isl.dim_type.param), name or "", names(isl.dim_type.set)


def holds(condition: isl.Set, params: Mapping[str, int]) -> bool:
    """Whether the parameter set `[params] -> { : ... }` contains the given values."""
    return not condition.params().intersect_params(_fixed(params)).is_empty()


def is_intricate(points: isl.Set | isl.Map) -> bool:
    """Whether isl may take for ever over the extremes of a set or a relation, which no quota ends.

    It counts what it allocates. The search for the least integer point among many divisions,
    such as five conditions `i % p != r`, allocates little and grows exponentially with them.
    A division that an equation gives, as of a loop with a step, needs no search.
    """
    parts: list[isl.BasicSet | isl.BasicMap] = []
    if isinstance(points, isl.Set):
        parts += points.get_basic_sets()
    else:
        parts += points.get_basic_maps()
    return any(
        part.dim(isl.dim_type.div) > _MOST_DIVISIONS
        and part.dim(isl.dim_type.div) - _equations(part) > _MOST_DIVISIONS
        for part in parts
    )


def is_entangled(points: isl.Set) -> bool:
    """Whether a piece has more than two divisions, one of several iterators or of a division.

    isl's projections of such a set, and its dependences, may take for ever, which no quota ends.
    """
    kinds = isl.dim_type.in_, isl.dim_type.div
    for part in points.get_basic_sets():
        count = part.dim(isl.dim_type.div)
        if count > _MOST_ENTANGLED and any(
            sum(
                not one.get_coefficient_val(kind, at).is_zero()
                for kind in kinds
                for at in range(one.dim(kind))
            )
            > 1
            for one in (part.get_div(k) for k in range(count))
        ):
            return True
    return False


def _equations(part: isl.BasicSet | isl.BasicMap) -> int:
    """The equations of a piece in which a division stands."""
    divisions = range(part.dim(isl.dim_type.div))
    return sum(
        one.is_equality()
        and any(not one.get_coefficient_val(isl.dim_type.div, k).is_zero() for k in divisions)
        for one in part.get_constraints()
    )


def is_order_of(tree: isl.Schedule, domains: Iterable[isl.Set]) -> bool:
    """Whether the schedule tree orders exactly the points of `domains`."""
    union = isl.UnionSet.empty_ctx(context())
    for domain in domains:
        union = union.union(isl.UnionSet.from_set(domain))
    return tree.get_domain().is_equal(union)


def ordered_points(
    tree: isl.Schedule, params: Mapping[str, int]
) -> list[tuple[str, tuple[int, ...]]]:
    """Every point of the tree's domain as (statement, coordinates), in execution order.

    Points the tree leaves unordered come sorted by statement name and coordinates. Raises
    ValueError when a parameter has no value or a statement has infinitely many points.
    """
    space = tree.get_domain().get_space()
    for at in range(space.dim(isl.dim_type.param)):
        if (param := space.get_dim_name(isl.dim_type.param, at)) not in params:
            raise ValueError(f"parameter {param} has no value")
    # isl.Schedule.get_map applies filters, but not the domain node.
    times = tree.get_map().intersect_domain(tree.get_domain()).intersect_params(_fixed(params))
    found: list[tuple[tuple[int, ...], str, tuple[int, ...]]] = []
    for one in maps_in(times):
        name = one.get_tuple_name(isl.dim_type.in_) or ""
        if not one.domain().is_bounded():
            raise ValueError(f"statement {name} has infinitely many points")
        split = one.dim(isl.dim_type.in_)
        found += ((point[split:], name, point[:split]) for point in _points(one.wrap()))
    return [(name, point) for _, name, point in sorted(found)]


def _points(of: isl.Set) -> Iterator[tuple[int, ...]]:
    rank = of.dim(isl.dim_type.set)
    for point in points_in(of):
        values = (point.get_coordinate_val(isl.dim_type.set, at) for at in range(rank))
        yield tuple(value.to_python() for value in values)


def _fixed(params: Mapping[str, int]) -> isl.Set:
    """`[params] -> { : each has its value }`; made without text, names may be isl keywords."""
    space = isl.Space.params_alloc(context(), len(params))
    for at, name in enumerate(params):
        space = space.set_dim_name(isl.dim_type.param, at, name)
    fixed = isl.Set.universe(space)
    for at, value in enumerate(params.values()):
        fixed = fixed.fix_val(isl.dim_type.param, at, isl_integer(value))
    return fixed


def inside(piece: isl.Set | isl.PwAff) -> str:
    """What isl prints between the braces: "S[i] : 0 <= i < n"; of a parameter set, "n > 0"."""
    text = str(piece)
    return text[text.index("{") + 1 : text.rindex("}")].strip().removeprefix(":").strip()


# -------------------------------------------------------------------------------------------------
# What an isl object consists of, as Python lists: the only place that hands a function to isl.
# Python handles a signal between two instructions of Python, and Ctrl-C raises from there. islpy
# prints and ignores what a function called by isl raises, and frees the arguments twice that isl
# only lent. So isl gets none but methods of list and dict, which run no instruction of Python, or
# no function at all: trees are walked from here.


def sets_in(union: isl.UnionSet) -> list[isl.Set]:
    """The sets of a union set, one per space."""
    found: list[isl.Set] = []
    union.foreach_set(found.append)
    return found


def maps_in(union: isl.UnionMap) -> list[isl.Map]:
    """The maps of a union map, one per pair of spaces."""
    found: list[isl.Map] = []
    union.foreach_map(found.append)
    return found


def functions_in(union: isl.UnionPwAff) -> list[isl.PwAff]:
    """The functions of a union, one per space."""
    found: list[isl.PwAff] = []
    union.foreach_pw_aff(found.append)
    return found


def points_in(finite: isl.Set) -> list[isl.Point]:
    """The points of a set without parameters that has finitely many."""
    found: list[isl.Point] = []
    finite.foreach_point(found.append)
    return found


@overload
def pieces_in(function: isl.PwAff) -> list[tuple[isl.Set, isl.Aff]]: ...
@overload
def pieces_in(function: isl.PwMultiAff) -> list[tuple[isl.Set, isl.MultiAff]]: ...
def pieces_in(function: isl.PwAff | isl.PwMultiAff) -> list[tuple[isl.Set, Any]]:
    """The pieces of a function, each with the points where it holds."""
    found: dict[isl.Set, Any] = {}  # no two pieces hold at the same points
    function.foreach_piece(found.__setitem__)
    return list(found.items())


def nodes_in(tree: isl.Schedule | isl.ScheduleNode) -> Iterator[isl.ScheduleNode]:
    """A node, or the root of a tree, and all nodes below it; parents first, in order."""
    waiting = [tree.get_root() if isinstance(tree, isl.Schedule) else tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += (node.child(k) for k in reversed(range(node.n_children())))


def map_nodes(
    tree: isl.Schedule, change: Callable[[isl.ScheduleNode], isl.ScheduleNode]
) -> isl.Schedule:
    """`tree` with every node passed through `change`, children first."""

    def changed(node: isl.ScheduleNode) -> isl.ScheduleNode:
        for k in range(node.n_children()):
            node = changed(node.child(k)).parent()
        return change(node)

    return changed(tree.get_root()).get_schedule()
