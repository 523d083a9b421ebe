"""A format as a stream: its tuples in their order, with coordinates and values."""

from __future__ import annotations

from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Const
from loopwright.sparse.format import Format
from loopwright.sparse.synthesis.stages import Builder, element
from loopwright.sparse.synthesis.stream import Stream, over
from loopwright.sparse.uf import (
    Atom,
    IntegerSet,
    Linear,
    Relation,
    Var,
    substitute,
    variables,
)

__all__ = ["stream_of"]


def stream_of(format: Format, values: str, dtype: DType, builder: Builder) -> Stream:
    """The entries of a tensor; in formats whose padding is mapped, values other than the fill."""
    if len(format.map.conjs) != 1:
        raise UsageError(f"{format.name} stores entries in several ways at once", str(format.map))
    solved = _outputs(format.map)
    (place,) = _outputs(format.access).values()
    coordinates: dict[Atom, Linear] = {Var(name): term for name, term in solved.items()}
    conj = format.map.conjs[0].substitute(coordinates)
    domain = IntegerSet(format.variables, (conj,))
    count = _count(domain)
    if count is not None:
        known = _defined(domain)
        solved = {name: substitute(term, known) for name, term in solved.items()}
        place, domain = substitute(place, known), over(domain.variables[0], count)
    builder.given(values, dtype, (format.places,))
    guard = None
    if format.padding is not None and format.padding.is_mapped:
        zero = bool(format.padding.fill) if dtype.kind == "b" else format.padding.fill
        guard = Binary("ne", builder.load(element(values, place)), Const(zero, dtype))
    return Stream(domain, solved, values, place, guard, format.order, format.is_unique, count)


def _outputs(relation: Relation) -> dict[str, Linear]:
    """Each output as a term over the inputs."""
    found: dict[str, Linear] = {}
    for name in relation.outputs:
        for constraint in relation.conjs[0].equalities:
            factor = constraint.term.coefficient(Var(name))
            rest = constraint.term.without(Var(name))
            if abs(factor) == 1 and variables(rest) <= set(relation.inputs):
                # Of several equal terms the plainest: a variable rather than a load.
                term = rest * -factor
                if name not in found or len(str(term)) < len(str(found[name])):
                    found[name] = term
        if name not in found:
            raise UsageError(f"'{name}' does not follow from the storage", found=str(relation))
    return found


def _defined(domain: IntegerSet) -> dict[Atom, Linear]:
    """The variables after the first, as terms of it."""
    first, *others = domain.variables
    found: dict[Atom, Linear] = {}
    for name in others:
        for constraint in domain.conjs[0].equalities:
            factor = constraint.term.coefficient(Var(name))
            rest = substitute(constraint.term.without(Var(name)), found)
            if abs(factor) == 1 and variables(rest) <= {first}:
                found.setdefault(Var(name), rest * -factor)
    return found


def _count(domain: IntegerSet) -> Linear | None:
    """n where the tuples are one for each of 0 .. n-1."""
    first, *others = domain.variables
    x = Linear.of(Var(first))
    upper = None
    defined = set()
    for constraint in domain.conjs[0].constraints:
        names = variables(constraint.term)
        if constraint.is_equality:
            own = [n for n in others if abs(constraint.term.coefficient(Var(n))) == 1]
            defined |= set(own[:1])
        elif names == {first} and constraint.term.coefficient(Var(first)) == -1:
            upper = constraint.term + x + 1
    is_bounded = upper is not None and not variables(upper)
    return upper if is_bounded and defined == set(others) else None
