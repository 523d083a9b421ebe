"""A dense statement composed with the map of a sparse format.

The statement `out[o] = out[o] plus (A[s] times x[d] times ...)` runs over all values of its
letters. Where A is sparse, its letters s take the values that the map of the format gives to the
tuples of the storage; the other letters stay loops from 0 to their extents. Entries that are not
stored take no part: they stand for the zero of the semiring.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from loopwright.frontends.einsum_syntax import EinsumSubscripts
from loopwright.ir.dtypes import INT64, DType
from loopwright.ir.expr import Binary, Expr, cast
from loopwright.ir.program import Role
from loopwright.lazy_dataclass import dataclass
from loopwright.semirings.named import Semiring
from loopwright.sparse.format import COORDINATES, SIZES, Format
from loopwright.sparse.invariants import loop_facts
from loopwright.sparse.spf.computation import DataSpace
from loopwright.sparse.synthesis.conversion import specialised
from loopwright.sparse.synthesis.entry_iterator import EntryIterator, entry_iterator
from loopwright.sparse.synthesis.renaming import rename_format
from loopwright.sparse.synthesis.stages import Builder, element
from loopwright.sparse.uf import (
    Atom,
    Conj,
    Constraint,
    Facts,
    Floor,
    Sym,
    Term,
    TupleVar,
    UFCall,
    calls,
    substitute,
    variables,
)

__all__ = [
    "OUT",
    "REFUSED",
    "SPARSE",
    "ComposedStatement",
    "KernelRequest",
    "compose",
    "dense_name",
    "extent_name",
    "named_format",
    "rounded_up",
]

SPARSE, OUT = "A_", "out"
REFUSED = "refused"  # one number, not 0 once code has found index arrays to be wrong
_MOST_STEPS = 16  # iterations of a loop that is fully unrolled


@dataclass(frozen=True)
class KernelRequest:
    """All that the code of a kernel depends on."""

    format: Format
    value: DType
    indices: tuple[tuple[str, DType], ...]  # index array of the format -> its type
    bits: tuple[int, ...]  # of the largest coordinate of each dimension
    fixed: tuple[tuple[str, int], ...]  # counts of the format whose value the code may rely on
    exact: tuple[str, ...]  # symbols of the format that are a size divided without a rest
    subscripts: EinsumSubscripts
    at: int  # which operand is sparse
    dense: tuple[DType, ...]  # types of the others, in their order
    ring: Semiring
    dtype: DType  # of products, sums and the result
    interior_ranges: tuple[tuple[int, int], ...] = ()  # steps in rows that code is written for
    is_sampled: bool = False  # the result has a place for each entry, not for each coordinate
    is_validated: bool = False  # the code validates index arrays, block by block


@dataclass(frozen=True)
class ComposedStatement:
    """The statement over tuples of the storage and dense letters."""

    builder: Builder
    walked: tuple[str, ...]  # variables of the storage, in their order
    steps: tuple[str, ...]  # those among the storage's with few values, known beforehand
    summed: tuple[str, ...]  # letters of dense operands alone that are not in the result
    kept: tuple[str, ...]  # letters of dense operands alone that are in the result
    conj: Conj  # over all these
    index: tuple[Term, ...]  # of the result
    entry: Expr  # the value of the sparse operand
    factors: tuple[Expr, ...]  # all operands in their order, in the type of the result
    guard: Expr | None
    extents: tuple[tuple[str, int], ...]  # variable of `steps` -> how many values it has
    relies_on_invariants: bool  # of the format: numbers that they bound are used without a test


def dense_name(number: int) -> str:
    """The space of a dense operand."""
    return f"x{number}"


def extent_name(letter: str) -> str:
    """The symbol of the extent of a letter that the sparse operand does not have."""
    return f"N_{letter}"


def named_format(format: Format) -> Format:
    """A format under the names that code has for its arrays and sizes."""
    return rename_format(format, SPARSE, COORDINATES[: format.rank], SIZES[: format.rank])


def compose(request: KernelRequest) -> ComposedStatement:
    """Compose the statement of a request with the map of its format."""
    sizes = SIZES[: request.format.rank]
    format = specialised(named_format(request.format), request.bits)
    fixed: dict[Atom, Term] = {Sym(SPARSE + name): Term.of(value) for name, value in request.fixed}
    builder = Builder(INT64, _facts(format, fixed, request.exact))
    types = {SPARSE + name: dtype for name, dtype in request.indices}
    for array in format.indices:
        builder.given(array.name, types[array.name], array.extents)
    iterator = entry_iterator(format, SPARSE + "values", request.value, builder)
    conj, put = _settled(iterator.domain.variables, iterator.domain.conjs[0], fixed)
    conj, relies_on_invariants = _tested(format, conj, fixed)
    letters, more = _letters(request, iterator, put, sizes)
    conj = conj.conjoined(more)
    spelled = {v for v in iterator.domain.variables if TupleVar(v) not in put}
    walked = tuple(v for v in iterator.domain.variables if v in spelled)
    extents = _steps(walked, conj)
    place = substitute(iterator.place, put)
    entry = builder.load(element(iterator.values, place))
    factors = _factors(request, builder, letters, sizes, entry)
    guard = None
    is_sum_of_products = (request.ring.plus, request.ring.times) == ("add", "mul")
    if iterator.guard is not None and (request.is_sampled or not is_sum_of_products):
        assert isinstance(iterator.guard, Binary), "padding is recognised by its value"
        guard = Binary("ne", entry, iterator.guard.y)
    own = [c for c in letters if c not in request.subscripts.operands[request.at]]
    out = request.subscripts.out
    if request.is_sampled:
        index: tuple[Term, ...] = (place,)
        shape: tuple[Term, ...] = (format.places,)
    else:
        index = tuple(letters[c] for c in out)
        shape = tuple(_extent(request, c, sizes) for c in out)
    builder.spaces[OUT] = DataSpace(OUT, request.dtype, shape, Role.INOUT)
    return ComposedStatement(
        builder,
        tuple(v for v in walked if v not in extents),
        tuple(extents),
        tuple(f"d_{c}" for c in own if c not in out),
        tuple(f"d_{c}" for c in out if c in own),
        conj,
        index,
        cast(entry, request.dtype),
        factors,
        guard,
        tuple(extents.items()),
        relies_on_invariants,
    )


def _facts(format: Format, fixed: dict[Atom, Term], exact: tuple[str, ...]) -> Facts:
    facts = loop_facts(format)
    known = [Constraint.eq(Term.of(symbol), value) for symbol, value in fixed.items()]
    for name, term in format.defined:
        found = rounded_up(term)
        if found is not None and name.removeprefix(SPARSE) in exact:
            size, by = found
            known.append(Constraint.eq(Term.of(Sym(size)), Term.of(Sym(name)) * by))
    # A permutation sends the rows of different threads to different places.
    turned = {index.name for index in format.indices if index.inverse}
    functions = (replace(f, is_injective=f.name in turned) for f in facts.functions)
    return Facts(tuple(functions), facts.further, (*facts.known, *known))


def rounded_up(term: Term) -> tuple[str, int] | None:
    """(N, c) where a term is floor((N + c-1) / c): how many blocks of c cover a size."""
    floor = term.atom
    if not isinstance(floor, Floor) or not floor.by.is_constant:
        return None
    by = floor.by.constant
    size = (floor.x - (by - 1)).atom
    return (size.name, by) if isinstance(size, Sym) else None


def _settled(
    names: tuple[str, ...], conj: Conj, fixed: dict[Atom, Term]
) -> tuple[Conj, dict[Atom, Term]]:
    """The domain over variables that no equality gives, and the terms of the others.

    Of the variables in an equality the last one is a function of those before it: jj = col(k).
    """
    conj = conj.substitute(fixed)
    put: dict[Atom, Term] = dict(fixed)
    for position in reversed(range(len(names))):
        name = names[position]
        for constraint in conj.equalities:
            factor = constraint.term.coefficient(TupleVar(name))
            rest = constraint.term.without(TupleVar(name))
            if abs(factor) == 1 and variables(rest) <= set(names[:position]):
                value: dict[Atom, Term] = {TupleVar(name): rest * -factor}
                conj = conj.substitute(value)
                put = {atom: substitute(term, value) for atom, term in put.items()} | value
                break
    return conj, put


def _tested(format: Format, conj: Conj, fixed: dict[Atom, Term]) -> tuple[Conj, bool]:
    """The domain without constraints that follow from the declared ranges of index arrays.

    Ranges are checked before code runs, and that loops read inside domains. The second part of the
    result says whether the invariants of the format must have been, too: where they alone imply
    that a number of the map needs no test.
    """
    whole, _ = _settled(format.variables, _map_domain(format), fixed)
    ranges = _ranges(format, conj) | _ranges(format, whole)
    invariants: set[Constraint] = set()
    for rule in format.invariants:
        if {c for premise in rule.premise for c in premise.constraints} <= {*conj.constraints}:
            invariants |= {c for end in rule.conclusion for c in end.constraints}
    # A number in other constraints is bounded there: its own bounds may be what those follow from.
    used = {call for c in conj.constraints if not _is_bound(c) for call in calls(c.term)}
    bounds = {c for c in conj.constraints if _is_bound(c) and not used & {*calls(c.term)}}
    left = Conj.of(c for c in conj.constraints if c not in bounds & (ranges | invariants))
    untested = {c for c in whole.constraints if any(True for _ in calls(c.term))}
    return left, bool(untested - ranges - {*left.constraints})


def _map_domain(format: Format) -> Conj:
    """The constraints of the map of a format over the variables of the storage alone."""
    outputs: dict[Atom, Term] = {}
    conj = format.map.conjs[0]
    for name in format.map.outputs:
        for constraint in conj.equalities:
            factor, rest = (
                constraint.term.coefficient(TupleVar(name)),
                constraint.term.without(TupleVar(name)),
            )
            if abs(factor) == 1 and not variables(rest) & {*format.map.outputs}:
                outputs[TupleVar(name)] = rest * -factor
                break
    return conj.substitute(outputs)


def _ranges(format: Format, conj: Conj) -> set[Constraint]:
    """The constraints that declared ranges give for the calls in a conjunction.

    A domain that depends on other index arrays must be among the constraints.
    """
    found: set[Constraint] = set()
    for call in {call for c in conj.constraints for call in calls(c.term)}:
        index = next((index for index in format.indices if index.name == call.name), None)
        if index is None or len(index.range.conjs) != 1 or len(index.domain.conjs) != 1:
            continue
        (name,), inside = index.range.variables, dict(_arguments(index.domain.variables, call))
        domain = index.domain.conjs[0]
        is_box = not any(True for c in domain.constraints for _ in calls(c.term))
        if is_box or {*domain.substitute(inside).constraints} <= {*conj.constraints}:
            value: dict[Atom, Term] = {TupleVar(name): Term.of(call)}
            found |= {*index.range.conjs[0].substitute(value).constraints}
    return found


def _arguments(names: Sequence[str], call: UFCall) -> Iterator[tuple[Atom, Term]]:
    return ((TupleVar(name), term) for name, term in zip(names, call.args, strict=True))


def _is_bound(constraint: Constraint) -> bool:
    """Whether a constraint bounds one number that is read, and nothing else."""
    read = [atom for atom, _ in constraint.term.terms if not isinstance(atom, Sym)]
    return not constraint.is_equality and len(read) == 1 and isinstance(read[0], UFCall)


def _letters(
    request: KernelRequest, iterator: EntryIterator, put: dict[Atom, Term], sizes: tuple[str, ...]
) -> tuple[dict[str, Term], list[Constraint]]:
    """The value of each letter, and their constraints besides the map."""
    letters: dict[str, Term] = {}
    more: list[Constraint] = []
    coordinates = COORDINATES[: len(sizes)]
    for c, name in zip(request.subscripts.operands[request.at], coordinates, strict=True):
        term = substitute(iterator.coordinates[name], put)
        if c in letters:
            more.append(Constraint.eq(letters[c], term))
        letters.setdefault(c, term)
    for c in "".join(request.subscripts.operands):
        if c not in letters:
            letters[c] = Term.of(TupleVar(f"d_{c}"))
            extent = Term.of(Sym(extent_name(c)))
            more += [Constraint.ge(letters[c]), Constraint.lt(letters[c], extent)]
    return letters, more


def _extent(request: KernelRequest, letter: str, sizes: tuple[str, ...]) -> Term:
    sparse = request.subscripts.operands[request.at]
    name = sizes[sparse.index(letter)] if letter in sparse else extent_name(letter)
    return Term.of(Sym(name))


def _factors(
    request: KernelRequest,
    builder: Builder,
    letters: dict[str, Term],
    sizes: tuple[str, ...],
    entry: Expr,
) -> tuple[Expr, ...]:
    """The operands of the product in their order."""
    found: list[Expr] = []
    types = iter(request.dense)
    for number, term in enumerate(request.subscripts.operands):
        if number == request.at:
            found.append(cast(entry, request.dtype))
            continue
        shape = tuple(_extent(request, c, sizes) for c in term)
        name = builder.given(dense_name(number), next(types), shape)
        load = builder.load(element(name, *(letters[c] for c in term)))
        found.append(cast(load, request.dtype))
    return tuple(found)


def _steps(names: tuple[str, ...], conj: Conj) -> dict[str, int]:
    """The last variables that go from 0 to a small constant, and how many values each has."""
    found: dict[str, int] = {}
    for name in reversed(names):
        own = [c.term for c in conj.constraints if variables(c.term) == {name}]
        rests = [
            term.without(TupleVar(name)) for term in own if term.coefficient(TupleVar(name)) == -1
        ]
        extents = [rest.constant + 1 for rest in rests if rest.is_constant]
        if Term.of(TupleVar(name)) not in own or not extents or not 0 < min(extents) <= _MOST_STEPS:
            break
        found[name] = min(extents)
    return dict(reversed(found.items()))
