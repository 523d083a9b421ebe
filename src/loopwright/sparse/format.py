"""The descriptor of a sparse format: what is stored, where, in which order; its invariants.

A Format is data. Its map R takes the tuples of the storage to dense coordinates, its access D takes
the same tuples to a place in the array of values; both are relations with uninterpreted functions,
each of which is an index array. `declare` builds one from texts:

    csr = declare(
        "csr",
        "{[ii,k,jj] -> [i,j] : i=ii && j=jj && 0<=ii<NR && rowptr(ii)<=k<rowptr(ii+1)"
        " && jj=col(k)}",
        "{[ii,k,jj] -> [k]}",
        index("rowptr", "{[x] : 0<=x<=NR}", "{[y] : 0<=y<=NNZ}", monotone="increasing"),
        index("col", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NC}"),
        places="NNZ", order=("i", "j"), invariants=("rowptr(0) = 0", "rowptr(NR) = NNZ"),
    )
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from loopwright.diagnostics import UsageError
from loopwright.lazy_dataclass import dataclass

from .curves import CURVES
from .uf import (
    Conj,
    Formula,
    IntegerSet,
    Relation,
    Sym,
    Term,
    TupleVar,
    UFCall,
    atoms,
    parse_implication,
    parse_linear,
    parse_relation,
    parse_set,
)
from .uf.linear_terms import CachedHash

__all__ = ["COORDINATES", "SIZES", "Format", "Index", "Invariant", "Padding", "declare", "index"]

# The usual names of dense coordinates and of their extents, by dimension.
COORDINATES = ("i", "j", "k", "l", "i4", "i5", "i6", "i7")
SIZES = ("NR", "NC", "NZ", "S3", "S4", "S5", "S6", "S7")

Monotone = Literal["", "increasing", "strictly increasing", "decreasing", "strictly decreasing"]
_MONOTONE = ("", "increasing", "strictly increasing", "decreasing", "strictly decreasing")
_WIDTHS = ("", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


@dataclass(frozen=True, slots=True)
class Index:
    """An index array: an uninterpreted function of as many integers as the array has dimensions."""

    name: str
    domain: IntegerSet  # where it has a meaning; the rest of the array is padding
    range: IntegerSet  # of one variable: the values it may have there
    extents: tuple[Term, ...]  # the shape of the array, in terms of the symbols
    monotone: Monotone = ""  # in its last argument, the others fixed
    inverse: str = ""  # the name of the inverse of a bijection of its domain
    dtype: str = ""  # of the array; without one, the narrowest of int32 and int64
    pad: int | None = None  # what stands outside the domain

    @property
    def rank(self) -> int:
        return len(self.extents)

    @property
    def is_strict(self) -> bool:
        return self.monotone.startswith("strictly")


@dataclass(frozen=True, slots=True)
class Invariant:
    """An invariant of the index arrays: forall variables: premise => conclusion."""

    variables: tuple[str, ...]
    premise: Formula
    conclusion: Formula
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Padding:
    """How places of the values that hold no entry are filled."""

    fill: int = 0
    is_mapped: bool = False  # whether the map reaches such places: what equals `fill` is absent

    def __post_init__(self) -> None:
        if self.is_mapped and self.fill != 0:
            raise UsageError(
                f"padding that the map reaches must be 0, not {self.fill}: "
                f"an entry of value {self.fill} would vanish",
                found=f"Padding(fill={self.fill}, is_mapped=True)",
                hint="fill=0, or a map that does not reach places without an entry",
            )


@dataclass(frozen=True)
class Format(CachedHash):
    """A way to store a sparse tensor."""

    name: str  # with its parameters: bcsr(3,3)
    map: Relation  # R: tuples of the storage -> dense coordinates
    access: Relation  # D: the same tuples -> [place in the values]
    indices: tuple[Index, ...]
    places: Term  # how many places the values have
    order: tuple[Term, ...]  # the key of dense coordinates by which the tuples of R ascend
    is_unique: bool  # False: several places may hold one coordinate, their sum is meant
    padding: Padding | None
    invariants: tuple[Invariant, ...]
    sizes: tuple[str, ...]  # the symbols of the extents of the dense tensor
    defined: tuple[tuple[str, Term], ...]  # symbols that follow from the sizes
    counts: tuple[str, ...]  # symbols that depend on the data: NNZ, ND

    def __hash__(self) -> int:
        return self._hash

    @property
    def rank(self) -> int:
        """The number of dense coordinates."""
        return len(self.map.outputs)

    @property
    def variables(self) -> tuple[str, ...]:
        """The tuple of the storage."""
        return self.map.inputs

    @property
    def coordinates(self) -> tuple[str, ...]:
        return self.map.outputs

    def index(self, name: str) -> Index:
        """The index array called `name`."""
        for found in self.indices:
            if found.name == name:
                return found
        raise UsageError(
            f"the format {self.name} has no index array '{name}'",
            hint=f"one of {', '.join(i.name for i in self.indices)}",
        )

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def index(
    name: str,
    domain: str,
    range: str,
    *,
    extents: Sequence[str] = (),
    monotone: Monotone = "",
    inverse: str = "",
    dtype: str = "",
    pad: int | None = None,
) -> Index:
    """Declare an index array; the extents follow from a domain that is a box from 0 on."""
    if monotone not in _MONOTONE:
        hint = f"one of {', '.join(_MONOTONE[1:])}"
        raise UsageError(f"index array {name}: unknown monotone '{monotone}'", hint=hint)
    if dtype not in _WIDTHS:
        hint = f"one of {', '.join(_WIDTHS[1:])}"
        raise UsageError(f"index array {name}: unknown dtype '{dtype}'", hint=hint)
    if pad is not None and pad < 0 and dtype.startswith("u"):
        hint = "a signed dtype, or another pad"
        raise UsageError(f"index array {name}: {dtype} cannot hold the pad {pad}", hint=hint)
    over = parse_set(domain)
    values = parse_set(range)
    if len(values.variables) != 1:
        raise UsageError(f"index array {name}: its range has one variable", found=range)
    shape = tuple(map(parse_linear, extents)) or tuple(
        _extent(name, over, variable) for variable in over.variables
    )
    if len(shape) != len(over.variables):
        raise UsageError(f"index array {name}: as many extents as variables of its domain")
    return Index(name, over, values, shape, monotone, inverse, dtype, pad)


def _extent(name: str, domain: IntegerSet, variable: str) -> Term:
    """E where the domain says 0 <= variable < E and nothing else of it."""
    constraints = domain.conjs[0].constraints if len(domain.conjs) == 1 else ()
    for constraint in constraints:
        rest = constraint.term.without(TupleVar(variable))
        is_upper = (
            constraint.term.coefficient(TupleVar(variable)) == -1 and not constraint.is_equality
        )
        if is_upper and not any(isinstance(a, TupleVar | UFCall) for a in atoms(rest)):
            return rest + 1
    raise UsageError(
        f"index array {name}: the extent of its array along {variable} does not follow",
        found=str(domain),
        hint="pass extents=('NR', 'W')",
    )


def declare(
    name: str,
    map: str,
    access: str,
    *indices: Index,
    places: str,
    order: Sequence[str] = (),
    is_unique: bool = True,
    padding: Padding | None = None,
    invariants: Sequence[str] = (),
    sizes: Sequence[str] = (),
    defined: Mapping[str, str] | None = None,
) -> Format:
    """Build a format from texts; see this module for the syntax. Refuses names without a meaning.

    `sizes` names the extents of the dense tensor, NR and NC by default; `defined` gives
    symbols that follow from them; any other symbol is found from the data.
    """
    relation = parse_relation(map)
    data = parse_relation(access)
    rank = len(relation.outputs)
    extents = tuple(sizes) or SIZES[:rank]
    if len(extents) != rank:
        raise UsageError(f"format {name}: {rank} dense coordinates need as many sizes")
    if len(data.inputs) != len(relation.inputs) or len(data.outputs) != 1:
        raise UsageError(
            f"format {name}: the access must take the tuple of the map to one place",
            found=access,
            hint=f"{{[{','.join(relation.inputs)}] -> [p] : ...}}",
        )
    given = tuple((key, parse_linear(text)) for key, text in (defined or {}).items())
    built = Format(
        name,
        relation,
        _with_inputs(data, relation.inputs),
        indices,
        parse_linear(places),
        tuple(parse_linear(text, relation.outputs) for text in order),
        is_unique,
        padding,
        tuple(Invariant(*parse_implication(text), text) for text in invariants),
        extents,
        given,
        (),
    )
    return _completed(built)


def _with_inputs(relation: Relation, inputs: tuple[str, ...]) -> Relation:
    """The relation with its inputs called as those of the map."""
    names = dict(zip(relation.inputs, inputs, strict=True))
    clash = set(relation.outputs) & set(inputs)
    names |= {name: f"{name}_place" for name in clash}
    outputs = tuple(names.get(name, name) for name in relation.outputs)
    return Relation(inputs, outputs, tuple(conj.rename(names) for conj in relation.conjs))


def _completed(format: Format) -> Format:
    """The format with its counts, after every name has been found to mean something."""
    import dataclasses  # lazy: only `replace` is needed, and only here

    names = [i.name for i in format.indices]
    if len(set(names)) != len(names):
        raise UsageError(f"format {format.name}: an index array is declared twice", str(names))
    inverses = {i.inverse for i in format.indices if i.inverse}
    arity = {i.name: i.rank for i in format.indices} | dict.fromkeys(inverses, 1)
    for call in _calls(format):
        if call.name in arity and arity[call.name] != len(call.args):
            raise UsageError(
                f"format {format.name}: {call} has {len(call.args)} arguments",
                hint=f"{call.name} was declared with {arity[call.name]}",
            )
        if call.name not in arity and call.name not in CURVES:
            raise UsageError(
                f"format {format.name}: the function {call.name} is not declared",
                found=str(call),
                hint=f"add index('{call.name}', domain, range), or use {', '.join(CURVES)}",
            )
    settled = {*format.sizes, *(name for name, _ in format.defined)}
    for key in format.order:
        strange = {a.name for a in atoms(key) if isinstance(a, Sym)} - settled
        if strange:
            raise UsageError(
                f"format {format.name}: the order names {min(strange)}, no coordinate and no size",
                found=str(key),
                hint=f"the coordinates are {', '.join(format.map.outputs)}",
            )
    counts = sorted(_symbols(format) - settled)
    return dataclasses.replace(format, counts=tuple(counts))


def _terms(format: Format) -> Iterator[Term]:
    yield format.places
    yield from format.order
    for found in format.indices:
        yield from found.extents
    yield from (term for _, term in format.defined)
    for conj in _conjs(format):
        yield from (constraint.term for constraint in conj.constraints)


def _conjs(format: Format) -> Iterator[Conj]:
    yield from format.map.conjs
    yield from format.access.conjs
    for found in format.indices:
        yield from found.domain.conjs
        yield from found.range.conjs
    for rule in format.invariants:
        yield from rule.premise
        yield from rule.conclusion


def _calls(format: Format) -> Iterator[UFCall]:
    for term in _terms(format):
        yield from (atom for atom in atoms(term) if isinstance(atom, UFCall))


def _symbols(format: Format) -> set[str]:
    return {a.name for term in _terms(format) for a in atoms(term) if isinstance(a, Sym)}


def _lines(format: Format) -> Iterator[str]:
    yield f"{format.name}: {format.map}"
    yield f"  values: {format.access}, {format.places} places"
    for found in format.indices:
        notes = [found.monotone, found.dtype, f"inverse {found.inverse}" if found.inverse else ""]
        notes.append("" if found.pad is None else f"pad {found.pad}")
        text = ", ".join(note for note in notes if note)
        yield f"  {found.name}: {found.domain} -> {found.range}{': ' + text if text else ''}"
    for name, term in format.defined:
        yield f"  {name} = {term}"
    for rule in format.invariants:
        yield f"  {rule}"
    ties = "" if format.is_unique else ", coordinates may repeat"
    yield f"  order: {', '.join(map(str, format.order)) or 'any'}{ties}"
    if format.padding is not None:
        yield f"  padded with {format.padding.fill}"
