"""Estimates for decisions at compile time, never for proofs: array sizes, accesses, footprints.

A subscript is a sum of c_x * x over the iterators x; of an array accessed in loops with t_x
iterations each, about

    product over the subscripts of  1 + sum of |c_x| * (t_x - 1)

elements are accessed, an iterator counted in the first subscript that has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import inf, prod
from types import MappingProxyType

from loopwright.ir.analysis_manager import AnalysisManager, DomainAnalysis
from loopwright.ir.evaluate import evaluate
from loopwright.ir.expr import Binary, Cast, Const, Expr, Unary, Var
from loopwright.ir.islkit import is_intricate, isl, isl_integer, pieces_in
from loopwright.ir.program import Access, Array, Program, Statement
from loopwright.ir.schedule_tree import Band, moved_by
from loopwright.ir.visit import walk
from loopwright.lazy_dataclass import dataclass
from loopwright.memo import BoundedCache, computed_once

__all__ = [
    "Reference",
    "all_row_bytes",
    "at_middle",
    "at_sizes",
    "average_trips",
    "average_trips_of",
    "band_trips",
    "bounded_sizes",
    "bytes_of",
    "coefficients",
    "count_accesses",
    "likely_sizes",
    "likely_trips",
    "other_shapes",
    "references",
    "row_bytes",
    "trips_at",
]


# Where nothing is known, arrays are taken to be too large for caches near to a core.
_ELEMENTS = 1 << 22
_FEW_PLANES = 4
_SHARE = 4  # of a loop's length may be lost by what is taken from its ends
_LONGER = 16  # times: a shape that differs from the guessed one
_UNKNOWN = 1024.0  # iterations of a loop that follows no single iterator

# Planners ask for one program many times. The program is held: no other has its address meanwhile.
_guesses: BoundedCache[int, tuple[Program, dict[str, int]]] = BoundedCache(64)


def likely_sizes(program: Program) -> dict[str, int]:
    """A value for every parameter: its largest one where it is bounded, else a guess.

    The context bounds it, or arrays of constant extents that loops up to it must stay inside. The
    guess makes the arrays with most open extents that use the parameter 2^22 elements large, and
    leaves loops their iterations: of `for (i = taps; i < n - taps; i++)` taps is an eighth of n.
    """
    known = _guesses.get(id(program))
    if known is None or known[0] is not program:
        known = _guesses[id(program)] = (program, _guessed_sizes(program))
    return dict(known[1])


def other_shapes(program: Program) -> list[dict[str, int]]:
    """For every parameter that is guessed, values that make it 16 times as large, others less.

    None where one parameter alone is guessed: there is no other shape of as many elements.
    """
    sizes, bounded = likely_sizes(program), bounded_sizes(program)
    guessed = [name for name in sizes if name not in bounded]
    if len(guessed) < 2:
        return []
    less = {x: max(_LONGER, sizes[x] // _LONGER) for x in guessed}
    return [{**sizes, **less, x: sizes[x] * _LONGER} for x in guessed]


def _guessed_sizes(program: Program) -> dict[str, int]:
    found = bounded_sizes(program)
    guessed = [name for name in program.params if name not in found]
    for name in guessed:
        shapes = [_free_extents(a) for a in program.arrays if _uses(a, name)]
        rank, inside = max(shapes, default=(2, 1))
        found[name] = round((_ELEMENTS / inside) ** (1 / rank))
    if guessed and len(program.params) > 1:
        for lengths in _lengths(program):
            gain = lengths.pop("", 0) + sum(c * found[x] for x, c in lengths.items() if c > 0)
            less = {x: -c for x, c in lengths.items() if c < 0}
            for name in less.keys() & set(guessed):
                most = int(gain / (_SHARE * len(less) * less[name]))
                found[name] = max(1, min(found[name], most))
    return found


def _free_extents(array: Array) -> tuple[int, int]:
    """How many extents of an array are open, and the elements for each choice of these.

    A few planes or components are no extent. Points (n x 3) count as matrices, however many
    components they have: what is done with pairs of them is as much.
    """
    values = [int(e.value.real) for e in array.shape if isinstance(e, Const)]
    fixed = [value for value in values if 0 < value <= _FEW_PLANES]
    free = array.rank - len(fixed)
    return (free, prod(fixed)) if free > 1 else (min(2, array.rank), 1)


def _lengths(program: Program) -> Iterator[dict[str, int]]:
    """Last less first value of loops as sums of parameters, whose factors have both signs.

    The constant has an empty name.
    """
    for statement in program.statements:
        for at in range(len(statement.iterators)):
            if statement.domain.dim(isl.dim_type.param) < 2:
                continue
            lows, highs = (
                pieces_in(f(at)) for f in (statement.domain.dim_min, statement.domain.dim_max)
            )
            for (_, low), (_, high) in product(lows, highs):
                length = high.sub(low)
                count = length.dim(isl.dim_type.param)
                factors = {
                    length.get_dim_name(isl.dim_type.param, k) or "": _whole(
                        length.get_coefficient_val(isl.dim_type.param, k)
                    )
                    for k in range(count)
                }
                if min(factors.values()) < 0 < max(factors.values()):
                    yield {"": _whole(length.get_constant_val())} | {
                        x: c for x, c in factors.items() if c
                    }


def _whole(value: isl.Val) -> int:
    return value.floor().to_python()


def bounded_sizes(program: Program) -> dict[str, int]:
    """The largest value of every parameter that the context or arrays of constant extents bound."""
    sure, likely = _largest_inside(program)
    found = likely | sure
    known = program.context
    for name in program.params:
        at = known.find_dim_by_name(isl.dim_type.param, name)
        if at >= 0:
            as_set = known.move_dims(isl.dim_type.set, 0, isl.dim_type.param, at, 1)
            value = as_set.dim_max_val(0)
            if value.is_int():
                found[name] = value.to_python()
    return {name: found[name] for name in program.params if name in found}


def sizes_inside_rows(program: Program) -> dict[str, int]:
    """The largest values of parameters that inner dimensions of constant extents bound.

    Unlike first extents, which say nothing of a parameter in C, these hold in every call.
    """
    sure, _ = _largest_inside(program, 1)
    return sure


def _largest_inside(program: Program, first: int = 0) -> tuple[dict[str, int], dict[str, int]]:
    """For parameters that end loops: the largest value with which subscripts stay inside arrays.

    Of a loop whose last value is a parameter plus a number, and a subscript that is its iterator
    plus a number, in a dimension of constant extent, from the `first` one on. Where a loop ends
    with the least of several parameters, one of them must be as small: those that come second here
    are of parameters that nothing else bounds, where no other one of them is.
    """
    sure: dict[str, int] = {}
    either: list[dict[str, int]] = []
    for statement in program.statements:
        ends: dict[str, list[tuple[str, int]]] = {}
        for access in (statement.write, *statement.reads):
            shape = program.array(access.array).shape
            for entry, extent in list(zip(access.index, shape, strict=True))[first:]:
                iterator, shift = _shifted(entry)
                if iterator not in statement.iterators or not isinstance(extent, Const):
                    continue
                if iterator not in ends:
                    ends[iterator] = _last_values(statement, iterator)
                most = int(extent.value.real) - 1 - shift
                limits = {param: most - offset for param, offset in ends[iterator]}
                if len(limits) == 1:
                    _lower(sure, limits)
                else:
                    either.append(limits)
    likely: dict[str, int] = {}
    for limits in either:
        if all(limit < sure.get(param, limit + 1) for param, limit in limits.items()):
            _lower(likely, {x: limit for x, limit in limits.items() if x not in sure})
    return (
        {param: limit for param, limit in sure.items() if limit > 0},
        {param: limit for param, limit in likely.items() if limit > 0},
    )


def _lower(limits: dict[str, int], more: Mapping[str, int]) -> None:
    """Add limits to others; of two the smaller one counts."""
    for param, limit in more.items():
        limits[param] = min(limits.get(param, limit), limit)


def _shifted(entry: Expr) -> tuple[str, int]:
    """The variable and the number whose sum a subscript is; no variable for others."""
    match entry:
        case Var(name=name):
            return name, 0
        case Binary(op="add", x=Var(name=name), y=Const(value=int(shift))):
            return name, shift
        case Binary(op="add", x=Const(value=int(shift)), y=Var(name=name)):
            return name, shift
        case Binary(op="sub", x=Var(name=name), y=Const(value=int(shift))):
            return name, -shift
    return "", 0


def _last_values(statement: Statement, iterator: str) -> list[tuple[str, int]]:
    """The parameters and numbers whose sums are the last values of a loop."""
    at = statement.iterators.index(iterator)
    found: list[tuple[str, int]] = []
    for _, piece in pieces_in(statement.domain.dim_max(at)):
        count = piece.dim(isl.dim_type.param)
        factors = [piece.get_coefficient_val(isl.dim_type.param, k) for k in range(count)]
        used = [(k, f) for k, f in enumerate(factors) if not f.is_zero()]
        if len(used) == 1 and used[0][1].is_one() and piece.get_constant_val().is_int():
            name = piece.get_dim_name(isl.dim_type.param, used[0][0])
            found.append((name or "", piece.get_constant_val().to_python()))
    return found


def bytes_of(array: Array, sizes: dict[str, int]) -> int:
    """Bytes of an array when the parameters have the given values."""
    return _product(array, sizes, 0)


def row_bytes(array: Array, sizes: dict[str, int]) -> int:
    """Bytes of one row of an array: all but its first extent."""
    return _product(array, sizes, 1)


def all_row_bytes(program: Program) -> int:
    """Bytes of one row of every array that has rows, together, at likely sizes; at least 1."""
    sizes = likely_sizes(program)
    return max(1, sum(row_bytes(array, sizes) for array in program.arrays if array.rank > 1))


def _product(array: Array, sizes: dict[str, int], first: int) -> int:
    total = array.dtype.bytes
    for extent in array.shape[first:]:
        total *= max(0, int(evaluate(extent, sizes, {})))
    return total


def _uses(array: Array, name: str) -> bool:
    return any(isinstance(x, Var) and x.name == name for e in array.shape for x in walk(e))


def count_accesses(program: Program, params: Mapping[str, int], enough: int) -> int:
    """A bound of the number of accesses: those of a statement times the box around its domain.

    Counting ends where the sum is beyond `enough`: boxes of many dimensions are quickly too large.
    """
    total = 0
    for statement in program.statements:
        domain = statement.domain
        for name, value in params.items():
            at = domain.find_dim_by_name(isl.dim_type.param, name)
            if at >= 0:
                number = isl_integer(value)
                domain = domain.fix_val(isl.dim_type.param, at, number)
        total += _box(domain, enough) * (1 + len(statement.reads))
        if total > enough:
            break
    return total


def _box(domain: isl.Set, enough: int) -> int:
    """The number of points of the smallest box around a set."""
    if domain.is_empty():
        return 0
    points = 1
    for at in range(domain.dim(isl.dim_type.set)):
        low, high = domain.dim_min_val(at), domain.dim_max_val(at)
        if not (low.is_int() and high.is_int()):
            return enough + 1
        points *= high.to_python() - low.to_python() + 1
        if points > enough:
            break
    return points


_FAR = 1 << 20  # elements between neighbours in a dimension that is not the last


@dataclass(frozen=True)
class Reference:
    """One access pattern of a statement; searches price it thousands of times."""

    array: str
    element: int  # bytes
    subscripts: tuple[tuple[tuple[str, int], ...], ...]  # coefficients of iterators, by dimension
    reads: int  # different elements that one instance reads so
    is_written: bool
    values: tuple[float, ...]  # by dimension: how many a subscript can take at the most

    def stride(self, iterator: str) -> int:
        """Elements between two neighbouring iterations; a very large number across rows."""
        return self._strides.get(iterator, 0)

    @computed_once
    def _strides(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for dimension, subscript in enumerate(reversed(self.subscripts)):
            for iterator, factor in dict(subscript).items():
                found[iterator] = found.get(iterator, 0) + factor * (_FAR if dimension else 1)
        return found

    def elements(self, trips: Mapping[str, float]) -> tuple[float, float]:
        """Rows touched, and elements of each, by loops over the iterators in `trips`."""
        rows = elements = 1.0
        seen: set[str] = set()
        for subscript, most in zip(self.subscripts, self.values, strict=True):
            rows *= elements
            # A diagonal is no square: an iterator counts where it first occurs.
            elements = min(most, _count([(x, c) for x, c in subscript if x not in seen], trips))
            seen.update(x for x, _ in subscript)
        return rows, elements

    def lines(self, trips: Mapping[str, float], line: int) -> float:
        """Cache lines of `line` bytes touched by loops over the iterators in `trips`."""
        rows, elements = self.elements(trips)
        return rows * max(1.0, min(elements, elements * self.element / line * self._step()))

    def _step(self) -> int:
        """The least stride along the last dimension: 1 where neighbours are visited."""
        factors = [abs(c) for _, c in self.subscripts[-1]] if self.subscripts else []
        return min(factors, default=1)


def _count(subscript: Sequence[tuple[str, int]], trips: Mapping[str, float]) -> float:
    return 1.0 + sum(abs(c) * max(0.0, trips.get(x, 1.0) - 1.0) for x, c in subscript)


def references(statement: Statement) -> tuple[Reference, ...]:
    """The distinct access patterns of a statement; constants are left out."""
    found: dict[tuple[object, ...], Reference] = {}
    accesses: list[tuple[Access, bool]] = [(access, False) for access in statement.reads]
    for access, is_write in [*accesses, (statement.write, True)]:
        subscripts = tuple(coefficients(entry) for entry in access.index)
        key = access.array, subscripts
        reads = found[key].reads if key in found else 0
        count = reads + (not is_write)
        values = tuple(map(_most_values, access.index))
        found[key] = Reference(
            access.array, access.dtype.bytes, subscripts, count, is_write, values
        )
    return tuple(found.values())


def _most_values(expr: Expr) -> float:
    """How many values a subscript can take: a remainder as many as its divisor has."""
    match expr:
        case Binary(op="mod", y=Const(value=int(divisor))) if divisor > 0:
            return float(divisor)
        case Binary(op="add" | "sub", x=x, y=Const()) | Cast(x=x) | Unary(op="neg", x=x):
            return _most_values(x)
        case Binary(op="add" | "sub", x=Const(), y=y):
            return _most_values(y)
    return inf


def coefficients(expr: Expr) -> tuple[tuple[str, int], ...]:
    """The coefficient of every variable in an affine expression, sorted by name.

    Of divisions, remainders and extrema the operands count: an estimate of how far they reach.
    """
    total: dict[str, int] = {}

    def add(node: Expr, factor: int) -> None:
        match node:
            case Var(name=name):
                total[name] = total.get(name, 0) + factor
            case Unary(op="neg", x=x):
                add(x, -factor)
            case Cast(x=x):
                add(x, factor)
            case Binary(op="mul", x=x, y=Const(value=int(value))):
                add(x, factor * value)
            case Binary(op="mul", x=Const(value=int(value)), y=y):
                add(y, factor * value)
            case Binary(op="sub", x=x, y=y):
                add(x, factor)
                add(y, -factor)
            case Binary(op="floordiv" | "mod", x=x):
                add(x, factor)
            case Binary(x=x, y=y):
                add(x, factor)
                add(y, factor)

    add(expr, 1)
    return tuple(sorted((name, c) for name, c in total.items() if c))


def average_trips(program: Program, sizes: Mapping[str, int]) -> dict[str, dict[str, float]]:
    """Iterations of every loop of every statement, with the outer loops at their middle values.

    Statement -> iterator -> iterations, for parameters of the given sizes. The product over a
    statement is near its number of instances; of a triangle n * n/2.
    """
    return {s.name: average_trips_of(s.domain, s.iterators, sizes) for s in program.statements}


def likely_trips(program: Program) -> dict[str, dict[str, float]]:
    """`average_trips` at `likely_sizes`, by which planners tell long loops from short ones."""
    return average_trips(program, likely_sizes(program))


def trips_at(
    analyses: AnalysisManager,
    sizes: Mapping[str, int],
    orders: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> dict[str, dict[str, float]]:
    """`average_trips`, once for every program with these domains; nobody may change what it gives.

    The iterators of a statement may stand in another order, as in `average_trips_of`.
    """
    fixed = tuple(sorted(sizes.items()))
    return {
        s.name: analyses.get(_TripsOf(s.name, fixed, tuple(orders.get(s.name, ()))))
        for s in analyses.program.statements
    }


@dataclass(frozen=True, slots=True)
class _TripsOf(DomainAnalysis):
    """Analysis: `average_trips_of` one statement."""

    statement: str
    sizes: tuple[tuple[str, int], ...]
    order: tuple[str, ...]

    def __call__(self, program: Program) -> dict[str, float]:
        own = program.statement(self.statement)
        return average_trips_of(own.domain, own.iterators, dict(self.sizes), self.order)


def band_trips(band: Band, program: Program, trips: Mapping[str, Mapping[str, float]]) -> float:
    """Iterations of a loop, by `average_trips`; a guess where it follows no iterator."""
    moved = moved_by(band, program)
    counts = [trips[s][x] for s, x in moved.items() if x in trips.get(s, {})]
    return max(counts, default=_UNKNOWN)


def at_sizes(domain: isl.Set, sizes: Mapping[str, int]) -> isl.Set:
    """A set for parameters of the given values, or 1."""
    for at in range(domain.dim(isl.dim_type.param)):
        name = domain.get_dim_name(isl.dim_type.param, at)
        value = isl_integer(sizes.get(name or "", 1))
        domain = domain.fix_val(isl.dim_type.param, at, value)
    return domain


def average_trips_of(
    domain: isl.Set,
    iterators: Sequence[str],
    sizes: Mapping[str, int],
    order: Sequence[str] = (),
) -> dict[str, float]:
    """As `average_trips`, of some instances of a statement: iterator -> iterations.

    Loops may stand in another `order`, which the iterators that it names come in, outermost first.
    """
    names = list(iterators)
    ordered = [x for x in order if x in names]
    ordered += [x for x in names if x not in ordered]
    domain = at_sizes(domain, sizes)
    if is_intricate(domain):
        domain = domain.remove_divs()  # an estimate needs no remainders
    trips: dict[str, float] = {}
    for iterator in ordered:
        at = names.index(iterator)
        ends = _ends(domain, at)
        if ends is None:
            trips[iterator] = 1.0
            continue
        first, last = ends
        trips[iterator] = float(last - first + 1)
        domain = _at_middle(domain, at, first, last)
    return trips


def at_middle(domain: isl.Set, at: int) -> isl.Set:
    """A set of integers, one of its dimensions fixed at the middle of its values, if it is bounded.

    That itself may be no point of a strided loop: it is the nearest one above.
    """
    ends = _ends(domain, at)
    return domain if ends is None else _at_middle(domain, at, *ends)


def _ends(domain: isl.Set, at: int) -> tuple[int, int] | None:
    """The least and the greatest value of a dimension; None of a set without them, or empty."""
    low = domain.dim_min_val(at)
    if not low.is_int():
        return None
    high = domain.dim_max_val(at)
    return (low.to_python(), high.to_python()) if high.is_int() else None


def _at_middle(domain: isl.Set, at: int, first: int, last: int) -> isl.Set:
    middle = isl_integer((first + last) // 2)
    above = domain.lower_bound_val(isl.dim_type.set, at, middle)
    return (
        domain if above.is_empty() else domain.fix_val(isl.dim_type.set, at, above.dim_min_val(at))
    )
