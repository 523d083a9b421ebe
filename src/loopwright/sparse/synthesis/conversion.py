"""From two descriptors to a conversion between them, and how it is run.

The map of the target is inverted (`inverse`), each of its index arrays gets a definition
(`definitions`), the source becomes an entry iterator (`entry_iterator`), and stages that count,
allocate and fill are emitted (`assembly`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from numpy.typing import NDArray

from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import DType
from loopwright.lazy_dataclass import dataclass
from loopwright.memo import computed_once
from loopwright.runtime.code_memory import keeps_code
from loopwright.runtime.scratch import Loan
from loopwright.sparse.bounds_proof import require_bounds
from loopwright.sparse.format import COORDINATES, SIZES, Format, Invariant
from loopwright.sparse.formats.canonical_formats import is_verified
from loopwright.sparse.invariants import loop_facts
from loopwright.sparse.spf.chunk_plan import may_be_chunked
from loopwright.sparse.synthesis.assembly import SegmentEnds, assemble, pointer_only
from loopwright.sparse.synthesis.definitions import Definition, define_arrays
from loopwright.sparse.synthesis.driver import (
    ConversionResult,
    ConversionSignature,
    Epilogue,
    Prologue,
    StageStep,
    prologue_and_epilogue,
    single_thread_driver,
    stage_steps,
)
from loopwright.sparse.synthesis.entry_iterator import KeySizes, entry_iterator
from loopwright.sparse.synthesis.index_widths import index_type
from loopwright.sparse.synthesis.inverse import InverseMap, invert
from loopwright.sparse.synthesis.numbering_strategy import NumberingStrategy
from loopwright.sparse.synthesis.renaming import rename_format
from loopwright.sparse.synthesis.stage_loops import (
    ChunkedStage,
    chunk_stages,
    collapse_loops,
    run_chunked,
)
from loopwright.sparse.synthesis.stages import Builder, Stage
from loopwright.sparse.synthesis.value_intervals import Interval
from loopwright.sparse.uf import Atom, Conj, Sym, Term, UFCall, replace_atoms

__all__ = ["Conversion", "ConversionRequest", "run", "specialised", "synthesize"]

FROM, TO = "from_", "to_"


@dataclass(frozen=True)
class ConversionRequest:
    """All that the code of a conversion depends on."""

    source: Format
    target: Format
    value: DType
    indices: tuple[tuple[str, DType], ...]  # index array of the source -> its type
    made: tuple[tuple[str, DType], ...]  # index array of the target -> its type
    counter: DType
    bits: tuple[int, ...]  # of the largest coordinate of each dimension
    wide: tuple[bool, ...]  # whether a dimension has too many coordinates to count each
    bucket_bits: int = 10  # unsorted entries are partitioned into 2^bits buckets


@dataclass(frozen=True)
class Conversion:
    """The stages of a conversion, and where its results are after the last one."""

    request: ConversionRequest
    inverse: InverseMap
    definitions: tuple[Definition, ...]
    strategies: tuple[tuple[str, NumberingStrategy], ...]
    stages: tuple[Stage, ...]
    defined: tuple[tuple[str, Term], ...]  # symbols after the last stage
    arrays: Mapping[str, str]  # index array of the target -> array of the stages
    values: str

    @computed_once
    def chunked_stages(self) -> tuple[ChunkedStage, ...]:
        """The stages for several threads."""
        return chunk_stages(self.stages, (*self.arrays.values(), self.values))

    @computed_once
    def temporary(self) -> frozenset[str]:
        """Intermediate arrays that are never results, whatever stages are skipped."""
        results = {*self.arrays.values(), self.values}
        for stage in reversed(self.stages):
            others = stage.reuse.arrays if stage.reuse is not None else ()
            results |= {old for new, old in others if new in results}
        made = {fresh.space.name for stage in self.stages for fresh in stage.fresh}
        return frozenset(made - results)

    @computed_once
    def pointer(self) -> SegmentEnds | None:
        """The pointer that is all the stages compute, if it delimits segments of an array."""
        found = pointer_only(self.stages)
        return found if found is not None and found.parents.startswith(FROM) else None

    @computed_once
    def is_wide(self) -> bool:
        """Whether some index array is computed in another type than the one it should have."""
        request = self.request
        return any(
            dtype != index_type(request.target.index(name), request.counter)
            for name, dtype in request.made
        )

    @computed_once
    def alone(self) -> Callable[..., ConversionResult]:
        """All stages by one thread, as a function of arrays, values, symbols and lent memory."""
        return single_thread_driver(self.stages, self._signature, self.temporary)

    @computed_once
    def steps(self) -> tuple[StageStep, ...]:
        """The stages one by one, for several threads."""
        return stage_steps(self.stages, self.temporary)

    @computed_once
    def bare_steps(self) -> tuple[StageStep, ...]:
        """The same for who fills every array: their elements are undefined before."""
        bare = (
            replace(stage, fresh=tuple(replace(fresh, fill=None) for fresh in stage.fresh))
            for stage in self.stages
        )
        return stage_steps(tuple(bare), self.temporary)

    @computed_once
    def frame(self) -> tuple[Prologue, Epilogue]:
        """The code before the steps and after them."""
        return prologue_and_epilogue(self._signature)

    @computed_once
    def _signature(self) -> ConversionSignature:
        source, target, format = self.request.source, self.request.target, self.inverse.format
        spaces = {s.name for stage in self.stages for s in stage.computation.spaces}
        spaces |= {self.values, *self.arrays.values()}
        given = sorted(name.removeprefix(FROM) for name in spaces if name.startswith(FROM))
        used = {name for stage in self.stages for name in stage.computation.symbols}
        own = {*source.counts, *(name for name, _ in source.defined)}
        own |= {name.removeprefix(FROM) for name in used if name.startswith(FROM)}
        sizes = zip(format.sizes, source.sizes, strict=True)
        return ConversionSignature(
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


@keeps_code
@lru_cache(maxsize=128)
def synthesize(request: ConversionRequest) -> Conversion:
    """The conversion that a request asks for; UsageError when one cannot be found."""
    rank = request.source.rank
    if request.target.rank != rank:
        raise UsageError(
            f"{request.target.name} holds tensors of {request.target.rank} dimensions",
            found=f"{request.source.name} of {rank}",
        )
    require_bounds(request.target)
    coordinates, sizes = COORDINATES[:rank], SIZES[:rank]
    source = specialised(rename_format(request.source, FROM, coordinates, sizes), request.bits)
    target = specialised(rename_format(request.target, TO, coordinates, sizes), request.bits)
    try:
        inverse = invert(target)
        definitions = define_arrays(inverse)
    except UsageError:
        define_arrays(invert(request.target))  # refuses in the words of the descriptor
        raise
    facts = loop_facts(source)
    # Descriptors of the table have been verified, others may be wrong.
    is_sound = is_verified(request.target)
    builder = Builder(request.counter, facts, request.bucket_bits, is_sound=is_sound)
    for symbol, term in source.defined:
        builder.define(symbol, term)
    types = {FROM + name: dtype for name, dtype in request.indices}
    for index in source.indices:
        builder.given(index.name, types[index.name], index.extents)
    iterator = entry_iterator(source, FROM + "values", request.value, builder)
    zero = Term.of(0)
    spans = {
        c: Interval(zero, Term.of(Sym(s)) - 1) for c, s in zip(coordinates, sizes, strict=True)
    }
    bits = dict(zip(coordinates, request.bits, strict=True))
    wide = frozenset(c for c, is_wide in zip(coordinates, request.wide, strict=True) if is_wide)
    made = {TO + name: dtype for name, dtype in request.made}
    found = assemble(inverse, definitions, iterator, builder, KeySizes(spans, bits, wide), made)
    return Conversion(
        request,
        inverse,
        definitions,
        found.strategies,
        tuple(collapse_loops(stage, iterator) for stage in builder.stages),
        tuple(builder.defined),
        {name.removeprefix(TO): array for name, array in found.arrays.items()},
        found.values,
    )


def specialised(format: Format, bits: tuple[int, ...]) -> Format:
    """The format with sizes in ALTO's arguments as powers of two, which say where bits go."""
    known = dict(zip(format.sizes, bits, strict=True))

    def change(atom: Atom) -> Term | None:
        if not isinstance(atom, UFCall) or not atom.name.startswith("ALTO"):
            return None
        args = tuple(
            Term.of(1 << known[a.atom.name])
            if isinstance(a.atom, Sym) and a.atom.name in known
            else a
            for a in atom.args
        )
        return Term.of(UFCall(atom.name, args, atom.result))

    def conj(of: Conj) -> Conj:
        terms = (c.of_term(replace_atoms(c.term, change)) for c in of.constraints)
        return Conj.of(terms, of.exists)

    invariants = tuple(
        Invariant(r.variables, tuple(map(conj, r.premise)), tuple(map(conj, r.conclusion)), r.text)
        for r in format.invariants
    )
    return replace(
        format,
        map=format.map.with_conjs(map(conj, format.map.conjs)),
        access=format.access.with_conjs(map(conj, format.access.conjs)),
        order=tuple(replace_atoms(term, change) for term in format.order),
        invariants=invariants,
    )


Array = NDArray[Any]


def run(
    conversion: Conversion,
    arrays: Mapping[str, Array],
    values: Array,
    symbols: Mapping[str, int],
    threads: int = 1,
) -> tuple[dict[str, Array], Array, dict[str, int]]:
    """Index arrays, values and symbols of the target; arrays of the source may be among them."""
    memory = Loan()
    try:
        # A small tensor is converted before a team of threads has started.
        if threads == 1 or not may_be_chunked(max(len(values), *symbols.values())):
            return conversion.alone(arrays, values, symbols, memory.lend)
        return _by_team(conversion, arrays, values, symbols, threads, memory)
    finally:
        memory.give_back()


def _by_team(
    conversion: Conversion,
    arrays: Mapping[str, Array],
    values: Array,
    symbols: Mapping[str, int],
    threads: int,
    memory: Loan,
) -> tuple[dict[str, Array], Array, dict[str, int]]:
    first, last = conversion.frame
    held, known = first(arrays, values, symbols)
    for step, chunked_stages in zip(conversion.steps, conversion.chunked_stages, strict=True):
        if step.prepare(held, known, memory.lend):
            if not run_chunked(chunked_stages, held, known, threads):
                step.call(held, known)
            step.read_symbols(held, known)
    return last(held, known)
