"""A format as a stream: its tuples in their order, with coordinates and values."""

from __future__ import annotations

from collections.abc import Mapping

from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import FLOAT64, INT64, DType
from loopwright.ir.expr import Binary, Const
from loopwright.sparse.format import Format
from loopwright.sparse.promises import loop_facts
from loopwright.sparse.synthesis.numbering import numbered, told_by
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

__all__ = ["plain_stream", "stream_of"]


def stream_of(format: Format, values: str, dtype: DType, builder: Builder) -> Stream:
    """The entries of a tensor; in formats whose padding is mapped, values other than the fill."""
    if len(format.map.conjs) != 1:
        raise UsageError(f"{format.name} stores entries in several ways at once", str(format.map))
    solved = _outputs(format.map)
    (place,) = _outputs(format.access).values()
    coordinates: dict[Atom, Linear] = {Var(name): term for name, term in solved.items()}
    conj = format.map.conjs[0].substitute(coordinates)
    domain = IntegerSet(format.variables, (conj,))
    numbering = numbered(format, domain)
    count = None
    if numbering is not None and numbering.number == Linear.of(Var(domain.variables[0])):
        first, count = domain.variables[0], numbering.total
        known = told_by(first, domain)
        solved = {name: substitute(term, known) for name, term in solved.items()}
        place, domain = substitute(place, known), over(first, count)
    builder.given(values, dtype, (format.places,))
    guard = None
    if format.padding is not None and format.padding.is_mapped:
        zero = bool(format.padding.fill) if dtype.kind == "b" else format.padding.fill
        guard = Binary("ne", builder.load(element(values, place)), Const(zero, dtype))
    return Stream(
        domain, solved, values, place, guard, format.order, format.is_unique, count, numbering
    )


def plain_stream(format: Format) -> Stream | None:
    """The entries of a tensor whatever its types, for questions about a format.

    None where the format is refused by who reads it.
    """
    builder = Builder(INT64, loop_facts(format))
    for index in format.indices:
        builder.given(index.name, INT64, index.extents)
    try:
        return stream_of(format, "values", FLOAT64, builder)
    except UsageError:
        return None


def _outputs(relation: Relation) -> dict[str, Linear]:
    """Each output as a term over the inputs, by equalities in any order."""
    solved: dict[Atom, Linear] = {}
    left = list(relation.outputs)
    while left:
        # What inputs alone give is taken first: it is plainer than what other outputs give.
        ready = {name: term for name in left if (term := _output(relation, name, {})) is not None}
        if not ready:
            ready = {n: term for n in left if (term := _output(relation, n, solved)) is not None}
        if not ready:
            about = [str(c) for c in relation.conjs[0].constraints if left[0] in variables(c.term)]
            raise UsageError(
                f"'{left[0]}' does not follow from the storage",
                found=f"{' && '.join(about) or 'no constraint'}, of {relation}",
                hint=f"an equality that gives '{left[0]}' by {', '.join(relation.inputs)}",
            )
        solved |= {Var(name): term for name, term in ready.items()}
        left = [name for name in left if name not in ready]
    return {name: solved[Var(name)] for name in relation.outputs}


def _output(relation: Relation, name: str, solved: Mapping[Atom, Linear]) -> Linear | None:
    """An output as a term over the inputs, by one equality and what is solved already."""
    found: Linear | None = None
    for constraint in relation.conjs[0].equalities:
        factor = constraint.term.coefficient(Var(name))
        rest = substitute(constraint.term.without(Var(name)), solved)
        if abs(factor) == 1 and variables(rest) <= set(relation.inputs):
            # Of several equal terms the plainest: a variable rather than a load.
            term = rest * -factor
            if found is None or len(str(term)) < len(str(found)):
                found = term
    return found
