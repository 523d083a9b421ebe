"""From two descriptors to a conversion between them.

The map of the target is turned round (`inverse`), every index array of it gets a definition
(`definitions`), the source is read as a stream of entries (`source`), and stages are written that
count, make arrays and fill them (`assembly`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import DType
from loopwright.remembered import remembered
from loopwright.sparse.format import COORDINATES, SIZES, Format, Rule
from loopwright.sparse.formats.twins import is_verified
from loopwright.sparse.promises import loop_facts
from loopwright.sparse.room import require_room
from loopwright.sparse.synthesis.assembly import assemble
from loopwright.sparse.synthesis.definitions import Definition, define
from loopwright.sparse.synthesis.flat import flattened
from loopwright.sparse.synthesis.inverse import Inverse, invert
from loopwright.sparse.synthesis.parallel import InShares, in_shares
from loopwright.sparse.synthesis.pointers import RunEnds, only_ends
from loopwright.sparse.synthesis.ranges import Span
from loopwright.sparse.synthesis.recipe import (
    Ends,
    First,
    Found,
    Last,
    Turn,
    ends_of,
    turns_of,
    whole,
)
from loopwright.sparse.synthesis.rename import renamed
from loopwright.sparse.synthesis.source import stream_of
from loopwright.sparse.synthesis.stages import Builder, Stage
from loopwright.sparse.synthesis.stream import Sizes
from loopwright.sparse.synthesis.ways import Way
from loopwright.sparse.synthesis.widths import index_type
from loopwright.sparse.uf import Atom, Call, Conj, Linear, Sym, replace_atoms

__all__ = ["Conversion", "Request", "specialised", "synthesize"]

FROM, TO = "from_", "to_"


@dataclass(frozen=True)
class Request:
    """All that the code of a conversion depends on."""

    source: Format
    target: Format
    value: DType
    indices: tuple[tuple[str, DType], ...]  # index array of the source -> its type
    made: tuple[tuple[str, DType], ...]  # index array of the target -> its type
    counter: DType
    bits: tuple[int, ...]  # of the largest coordinate of each dimension
    wide: tuple[bool, ...]  # whether a dimension has too many coordinates to count each
    parts: int = 10  # bits by which unsorted entries are dealt out before the parts are sorted


@dataclass(frozen=True)
class Conversion:
    """The stages of a conversion, and where its results are after the last one."""

    request: Request
    inverse: Inverse
    definitions: tuple[Definition, ...]
    ways: tuple[tuple[str, Way], ...]
    stages: tuple[Stage, ...]
    defined: tuple[tuple[str, Linear], ...]  # symbols after the last stage
    arrays: Mapping[str, str]  # index array of the target -> array of the stages
    values: str

    @remembered
    def shared(self) -> tuple[InShares, ...]:
        """The stages for several threads."""
        return in_shares(self.stages, (*self.arrays.values(), self.values))

    @remembered
    def temporary(self) -> frozenset[str]:
        """Arrays made on the way that are no result, whatever stages are left out."""
        results = {*self.arrays.values(), self.values}
        for stage in reversed(self.stages):
            others = stage.same.arrays if stage.same is not None else ()
            results |= {old for new, old in others if new in results}
        made = {fresh.space.name for stage in self.stages for fresh in stage.fresh}
        return frozenset(made - results)

    @remembered
    def ends(self) -> RunEnds | None:
        """The pointer that is all that the stages make, where it tells runs of a source's array."""
        found = only_ends(self.stages)
        return found if found is not None and found.parents.startswith(FROM) else None

    @remembered
    def is_wide(self) -> bool:
        """Whether some index array is computed in another type than the one it should have."""
        request = self.request
        return any(
            dtype != index_type(request.target.index(name), request.counter)
            for name, dtype in request.made
        )

    @remembered
    def alone(self) -> Callable[..., Found]:
        """All stages by one thread, as a function of arrays, values, symbols and lent memory."""
        return whole(self.stages, self._ends, self.temporary)

    @remembered
    def turns(self) -> tuple[Turn, ...]:
        """The stages one by one, for several threads."""
        return turns_of(self.stages, self.temporary)

    @remembered
    def bare_turns(self) -> tuple[Turn, ...]:
        """The same for who fills every array: their elements are undefined before."""
        bare = (
            replace(stage, fresh=tuple(replace(fresh, fill=None) for fresh in stage.fresh))
            for stage in self.stages
        )
        return turns_of(tuple(bare), self.temporary)

    @remembered
    def frame(self) -> tuple[First, Last]:
        """What comes before the turns and after them."""
        return ends_of(self._ends)

    @remembered
    def _ends(self) -> Ends:
        source, target, format = self.request.source, self.request.target, self.inverse.format
        spaces = {s.name for stage in self.stages for s in stage.computation.spaces}
        spaces |= {self.values, *self.arrays.values()}
        given = sorted(name.removeprefix(FROM) for name in spaces if name.startswith(FROM))
        used = {name for stage in self.stages for name in stage.computation.symbols}
        own = {*source.counts, *(name for name, _ in source.defined)}
        own |= {name.removeprefix(FROM) for name in used if name.startswith(FROM)}
        sizes = zip(format.sizes, source.sizes, strict=True)
        return Ends(
            {FROM + n: "values" if n == "values" else f"arrays[{n!r}]" for n in given},
            {
                name: f"symbols[{n!r}]"
                for name, n in (*sizes, *((FROM + n, n) for n in sorted(own)))
            },
            self.defined,
            self.arrays,
            self.values,
            {
                **{name.removeprefix(TO): name for name in format.counts},
                **{name.removeprefix(TO): name for name, _ in format.defined},
                **dict(zip(target.sizes, format.sizes, strict=True)),
            },
        )


@lru_cache(maxsize=128)
def synthesize(request: Request) -> Conversion:
    """The conversion that a request asks for; UsageError when one cannot be found."""
    rank = request.source.rank
    if request.target.rank != rank:
        raise UsageError(
            f"{request.target.name} holds tensors of {request.target.rank} dimensions",
            found=f"{request.source.name} of {rank}",
        )
    require_room(request.target)
    coordinates, sizes = COORDINATES[:rank], SIZES[:rank]
    source = specialised(renamed(request.source, FROM, coordinates, sizes), request.bits)
    target = specialised(renamed(request.target, TO, coordinates, sizes), request.bits)
    try:
        inverse = invert(target)
        definitions = define(inverse)
    except UsageError:
        define(invert(request.target))  # refuses in the words of the descriptor
        raise
    facts = loop_facts(source)
    # Descriptors of the table have been verified, others may be wrong.
    is_sound = is_verified(request.target)
    builder = Builder(request.counter, facts, request.parts, is_sound=is_sound)
    for symbol, term in source.defined:
        builder.define(symbol, term)
    types = {FROM + name: dtype for name, dtype in request.indices}
    for index in source.indices:
        builder.given(index.name, types[index.name], index.extents)
    stream = stream_of(source, FROM + "values", request.value, builder)
    zero = Linear.of(0)
    spans = {c: Span(zero, Linear.of(Sym(s)) - 1) for c, s in zip(coordinates, sizes, strict=True)}
    bits = dict(zip(coordinates, request.bits, strict=True))
    wide = frozenset(c for c, is_wide in zip(coordinates, request.wide, strict=True) if is_wide)
    made = {TO + name: dtype for name, dtype in request.made}
    found = assemble(inverse, definitions, stream, builder, Sizes(spans, bits, wide), made)
    return Conversion(
        request,
        inverse,
        definitions,
        found.ways,
        tuple(flattened(stage, stream) for stage in builder.stages),
        tuple(builder.defined),
        {name.removeprefix(TO): array for name, array in found.arrays.items()},
        found.values,
    )


def specialised(format: Format, bits: tuple[int, ...]) -> Format:
    """The format with sizes in ALTO's arguments as powers of two, which say where bits go."""
    known = dict(zip(format.sizes, bits, strict=True))

    def change(atom: Atom) -> Linear | None:
        if not isinstance(atom, Call) or not atom.name.startswith("ALTO"):
            return None
        args = tuple(
            Linear.of(1 << known[a.atom.name])
            if isinstance(a.atom, Sym) and a.atom.name in known
            else a
            for a in atom.args
        )
        return Linear.of(Call(atom.name, args, atom.result))

    def conj(of: Conj) -> Conj:
        terms = (c.of_term(replace_atoms(c.term, change)) for c in of.constraints)
        return Conj.of(terms, of.exists)

    rules = tuple(
        Rule(r.variables, tuple(map(conj, r.premise)), tuple(map(conj, r.conclusion)), r.text)
        for r in format.rules
    )
    return replace(
        format,
        map=format.map.with_conjs(map(conj, format.map.conjs)),
        access=format.access.with_conjs(map(conj, format.access.conjs)),
        order=tuple(replace_atoms(term, change) for term in format.order),
        rules=rules,
    )
