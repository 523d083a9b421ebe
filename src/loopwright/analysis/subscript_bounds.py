"""Which argument sizes would make a program leave its arrays or read what was never set.

Python raises an exception there, compiled code would touch foreign memory. The sets computed here
speak of parameters only: an empty one is a proof for all sizes, any other is tested once per call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from loopwright.diagnostics import Diagnostic, Span
from loopwright.ir.expr import Const, Expr
from loopwright.ir.islkit import (
    affine,
    affine_map,
    context,
    is_entangled,
    is_intricate,
    isl,
    isl_integer,
    maps_in,
)
from loopwright.ir.program import Access, Array, Program, Role, Statement
from loopwright.ir.visit import unguarded_loads
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "UninitialisedRead",
    "bounds_violation",
    "evaluate",
    "find_violation",
    "guarded_loads_inside",
    "predicate",
    "predicate_text",
    "uninitialised_locals",
    "uninitialised_scalars",
    "unset_reads",
]


_MOST_PARTS = 2  # of a condition on parameters that code tests


@dataclass(frozen=True, slots=True)
class _Outside:
    """The instances of a statement whose access leaves an array in one dimension."""

    statement: Statement
    access: Access
    dimension: int
    instances: isl.Set  # [params] -> { S[i] }
    is_exact: bool  # otherwise the divisions of intricate sets are left out: too many instances


def bounds_violation(program: Program) -> isl.Set:
    """`[params] -> { : ... }`, where some access is outside its array or some scalar unset.

    Also where a local array would have a negative extent. Empty when the program is safe for all
    parameters of its context. A union of one part per access: testing it costs no more than that.
    """
    bad = isl.Set.empty(program.context.get_space())
    for outside in _outside(program):
        bad = bad.union(outside.instances.params())
    for unset in uninitialised_scalars(program):
        bad = bad.union(unset.params)
    for _, negative in _negative_extents(program):
        bad = bad.union(negative)
    # Dropping the constraints of the context needs its own intersection to be exact.
    return bad.intersect(program.context).compute_divs().coalesce().remove_redundancies()


def guarded_loads_inside(program: Program) -> isl.Set:
    """`[params] -> { : ... }`, where loads that data decide on are inside of their arrays.

    They may then happen whatever the data are. All parameters of the context where that follows
    from all other accesses being inside; no set of many parts is returned, but an empty one.
    """
    certain = {s.name: {s.write.load(), *unguarded_loads(s.value)} for s in program.statements}
    everywhere = program.context
    if all(access.load() in certain[s.name] for s in program.statements for access in s.reads):
        return everywhere
    allowed = isl.Set.empty(everywhere.get_space())
    guarded, simple = allowed, allowed
    for outside in _outside(program):
        params = outside.instances.params()
        if outside.access.load() in certain[outside.statement.name]:
            allowed = allowed.union(params) if outside.is_exact else allowed
        else:
            guarded = guarded.union(params)
            # That the statement runs at all need not be asked.
            runs = outside.statement.domain.params().intersect(everywhere)
            simple = simple.union(params.gist(runs))
    if guarded.is_subset(allowed):
        return everywhere
    found = everywhere.subtract(simple).coalesce()
    return found if found.n_basic_set() <= _MOST_PARTS else everywhere.subtract(everywhere)


def find_violation(program: Program, params: Mapping[str, int]) -> Diagnostic | None:
    """The first access that leaves its array for these parameters, with an instance; or None."""
    for outside in _outside(program):
        found = _fix(outside.instances, params)
        if not found.is_empty():
            return _describe(program, outside, found.lexmin(), params)
    for unset in uninitialised_scalars(program):
        if evaluate(unset.params, params):
            return _describe_unset(program, unset)
    for array, negative in _negative_extents(program):
        if evaluate(negative, params):
            shape = ", ".join(str(_at(extent, params)) for extent in array.shape)
            return Diagnostic(
                _first_span(program, array),
                f"the local array '{array.name}' has a negative extent",
                "LW117",
                found=f"shape ({shape})",
            )
    return None


# -- tests at run time -----------------------------------------------------------------------


def evaluate(condition: isl.Set, params: Mapping[str, int]) -> bool:
    """Whether the parameters lie in `condition`."""
    return predicate(condition)(params)


def predicate(condition: isl.Set) -> Callable[[Mapping[str, int]], bool]:
    """`condition` as a Python function of the parameters by name, about a microsecond a call."""
    test: Callable[[Mapping[str, int]], bool] = eval(f"lambda p: {predicate_text(condition)}", {})
    return test


def predicate_text(condition: isl.Set) -> str:
    """`condition` as a Python expression over the parameters `p['name']`, integers throughout."""
    parts = [_conjunction(part) for part in condition.compute_divs().get_basic_sets()]
    return " or ".join(f"({part})" for part in parts) or "False"


def _conjunction(part: isl.BasicSet) -> str:
    """A basic set of parameters as Python text."""
    rows = [
        f"{_text(row.get_aff())} {'==' if row.is_equality() else '>='} 0"
        for row in part.get_constraints()
    ]
    return " and ".join(rows) or "True"


def _text(aff: isl.Aff) -> str:
    """The numerator of an affine function of parameters as Python text; divisions become //."""
    scale = aff.get_denominator_val()

    def number(value: isl.Val) -> int:
        return int(value.mul(scale).to_python())

    terms = [str(number(aff.get_constant_val()))]
    for at in range(aff.dim(isl.dim_type.param)):
        factor = number(aff.get_coefficient_val(isl.dim_type.param, at))
        if factor:
            terms.append(f"{factor} * p[{aff.get_dim_name(isl.dim_type.param, at)!r}]")
    for at in range(aff.dim(isl.dim_type.div)):
        factor = number(aff.get_coefficient_val(isl.dim_type.div, at))
        if factor:
            inner = aff.get_div(at)
            divisor = int(inner.get_denominator_val().to_python())
            terms.append(f"{factor} * (({_text(inner)}) // {divisor})")
    return " + ".join(terms)


# -- what may go wrong -----------------------------------------------------------------------


def _outside(program: Program) -> Iterator[_Outside]:
    for statement in program.statements:
        domain = statement.domain.intersect_params(program.context)
        for access in dict.fromkeys((statement.write, *statement.reads)):
            yield from _outside_access(program.array(access.array), statement, access, domain)


def _outside_access(
    array: Array, statement: Statement, access: Access, domain: isl.Set
) -> Iterator[_Outside]:
    space = domain.get_space()
    zero = affine(Const(0), space)
    for dimension, (index, extent) in enumerate(zip(access.index, array.shape, strict=True)):
        at = affine(index, space)
        wrong = at.lt_set(zero).union(at.ge_set(affine(extent, space)))
        instances = domain.intersect(wrong)
        # isl takes for ever over the points of such a set, and over its projection.
        is_exact = not (is_intricate(instances) or is_entangled(instances))
        if not is_exact:
            instances = instances.remove_divs()
        if not instances.is_empty():
            yield _Outside(statement, access, dimension, instances, is_exact)


def _negative_extents(program: Program) -> Iterator[tuple[Array, isl.Set]]:
    """Local arrays and the parameters that give them a negative extent."""
    space = program.context.get_space()
    for array in program.arrays:
        if array.role not in (Role.LOCAL, Role.OUT):
            continue
        for extent in array.shape:
            value = affine(extent, space.add_unnamed_tuple_ui(0))
            negative = value.neg().pos_set().params().intersect(program.context)
            if not negative.is_empty():
                yield array, negative


# -- in words --------------------------------------------------------------------------------


def _fix(instances: isl.Set, params: Mapping[str, int]) -> isl.Set:
    for name, value in params.items():
        at = instances.find_dim_by_name(isl.dim_type.param, name)
        if at >= 0:
            instances = instances.fix_val(isl.dim_type.param, at, isl_integer(value))
    return instances


def _at(expr: Expr, values: Mapping[str, int]) -> int:
    """The value of an affine expression."""
    space = isl.Space.set_alloc(context(), 0, len(values))
    for at, name in enumerate(values):
        space = space.set_dim_name(isl.dim_type.set, at, name)
    point = isl.Point.zero(space)
    for at, value in enumerate(values.values()):
        point = point.set_coordinate_val(isl.dim_type.set, at, isl_integer(value))
    return int(affine(expr, space).eval(point).to_python())


def _describe(
    program: Program, outside: _Outside, first: isl.Set, params: Mapping[str, int]
) -> Diagnostic:
    statement, access = outside.statement, outside.access
    point = first.sample_point()
    iterators = {
        name: int(point.get_coordinate_val(isl.dim_type.set, at).to_python())
        for at, name in enumerate(statement.iterators)
    }
    values = {**params, **iterators}
    index = [_at(entry, values) for entry in access.index]
    shape = [_at(extent, values) for extent in program.array(access.array).shape]
    where = ", ".join(f"{name} = {value}" for name, value in iterators.items())
    element = f"{access.array}[{', '.join(map(str, index))}]"
    bounds = f"{access.array} of shape ({', '.join(map(str, shape))})"
    found = f"{element} in {bounds}" + (f", at {where}" if where else "")
    hint = "only a constant subscript below zero counts from the end"
    hint = hint if index[outside.dimension] < 0 else ""
    if not outside.is_exact:
        hint = "the conditions around it have too many remainders to be looked at: fewer of them"
    return Diagnostic(
        _span(program, statement),
        f"subscript {outside.dimension + 1} of '{access.array}' is outside the array",
        "LW112",
        found=found,
        hint=hint,
    )


def _describe_unset(program: Program, unset: UninitialisedRead) -> Diagnostic:
    verb = "returned" if unset.is_returned else "used"
    message = f"'{unset.array}' is {verb} before it is assigned"
    return Diagnostic(_span(program, unset.statement), message, "LW108")


def _first_span(program: Program, array: Array) -> Span:
    """Where an array is first mentioned."""
    for statement in program.statements:
        if array.name in {a.array for a in (statement.write, *statement.reads)}:
            return _span(program, statement)
    return _nowhere(program)


def _span(program: Program, statement: Statement | None) -> Span:
    found = statement.span if statement is not None else None
    return _nowhere(program) if found is None else found


def _nowhere(program: Program) -> Span:
    return Span(f"<{program.name}>", 1, 1, 1, 2)


@dataclass(frozen=True, slots=True)
class UninitialisedRead:
    """An array that is read or returned before it is written, for some parameters."""

    array: str
    statement: Statement | None  # the reader; for a returned scalar the last writer, if any
    params: isl.Set  # [params] -> { : the value is missing }
    is_returned: bool


def uninitialised_scalars(program: Program) -> Iterator[UninitialisedRead]:
    """Every use of a local scalar, or return of one, that no assignment precedes."""
    scalars = [a for a in program.arrays if not a.shape and a.role in (Role.LOCAL, Role.OUT)]
    if not scalars:
        return
    yield from unset_reads(program, {scalar.name for scalar in scalars})
    for scalar in scalars:
        if scalar.role is Role.OUT:
            yield from _unset_result(program, scalar.name)


def uninitialised_locals(program: Program) -> isl.Set:
    """[params] -> { : some element of a local array is read that no statement has written }."""
    local = {array.name for array in program.arrays if array.role is Role.LOCAL}
    found = program.context.subtract(program.context)
    for unset in unset_reads(program, local):
        found = found.union(unset.params)
    return found.coalesce()


def unset_reads(program: Program, arrays: set[str]) -> Iterator[UninitialisedRead]:
    """Every read of an element of these arrays that no earlier instance has written."""
    empty = isl.UnionMap.empty(program.context.get_space())
    reads, writes = empty, empty
    for statement in program.statements:
        domain = statement.domain.intersect_params(program.context)
        if statement.write.array in arrays:
            written = affine_map(domain, statement.write.array, statement.write.index)
            writes = writes.union(isl.UnionMap.from_map(written))
        for access in statement.reads:
            if access.array in arrays:
                read = affine_map(domain, access.array, access.index)
                reads = reads.union(isl.UnionMap.from_map(read))
    # Not by isl's dataflow analysis: it fails on some domains with divisions (isl 0.28).
    time = program.schedule.get_map()
    later = time.intersect_domain(reads.domain()).lex_gt_union_map(
        time.intersect_domain(writes.domain())
    )
    missing = reads.subtract(later.apply_range(writes))
    for part in sorted(maps_in(missing), key=str):
        if not part.is_empty():
            reader = program.statement(part.get_tuple_name(isl.dim_type.in_))
            array = part.get_tuple_name(isl.dim_type.out)
            yield UninitialisedRead(array, reader, part.domain().params(), is_returned=False)


def _unset_result(program: Program, scalar: str) -> Iterator[UninitialisedRead]:
    missing = program.context
    last: Statement | None = None
    for statement in program.statements:
        if statement.write.array == scalar:
            missing = missing.subtract(statement.domain.params())
            last = statement
    if not missing.is_empty():
        yield UninitialisedRead(scalar, last, missing, is_returned=True)
