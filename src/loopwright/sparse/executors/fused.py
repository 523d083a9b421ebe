"""Fusion of a conversion and a product: one pass over the entries does both.

Some stage of a conversion takes the entries of the source one by one, in the loops of the source,
and puts each into its place. The product of one entry is inlined there for every point of these
loops, and moved behind the statement that reads the value:

    for each entry e:  to_values[p(e)] = values[e]
    for each entry e:  out[i(e)] = out[i(e)] plus values[e] times x[j(e)]      both in one loop

The move is checked like any other step. Where entries are shared and not copied, where the stage
may be left out, where the step would be illegal, or with several threads, one follows the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from loopwright import semirings
from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.frontends.einsum_syntax import EinsumSubscripts, parse_subscripts
from loopwright.ir.dtypes import DType, dtype_of
from loopwright.ir.expr import cast
from loopwright.ir.program import Role
from loopwright.lazy_dataclass import dataclass
from loopwright.runtime.code_memory import keeps_code
from loopwright.runtime.thread_pool import thread_count
from loopwright.sparse.convert_tensor import conversion, convert_unfrozen, with_sortedness
from loopwright.sparse.executors.operands import (
    dense_operands,
    sparse_position,
    tensor_of,
)
from loopwright.sparse.executors.sparse_einsum import einsum
from loopwright.sparse.format import COORDINATES, SIZES, Format
from loopwright.sparse.formats import find
from loopwright.sparse.handover import handed_out
from loopwright.sparse.spf.computation import Computation, DataSpace, Stmt
from loopwright.sparse.spf.inline_computation import inline
from loopwright.sparse.spf.rescheduling import reschedule
from loopwright.sparse.synthesis.conversion import (
    FROM,
    Conversion,
    ConversionRequest,
    run,
    specialised,
    synthesize,
)
from loopwright.sparse.synthesis.entry_iterator import EntryIterator, entry_iterator
from loopwright.sparse.synthesis.index_widths import narrowed
from loopwright.sparse.synthesis.renaming import rename_format
from loopwright.sparse.synthesis.stage_loops import collapse_loops
from loopwright.sparse.synthesis.stages import Builder, Stage, element
from loopwright.sparse.tensor import SparseTensor
from loopwright.sparse.uf import Conj, Constraint, IntegerSet, Sym, Term, TupleVar
from loopwright.sparse.unverified_formats import (
    require_faithful,
    require_storable,
    require_valid_source,
)
from loopwright.sparse.validate_arrays import require_valid_arrays

__all__ = ["convert_einsum", "explain_fused"]

_LAST = 1 << 20  # a time after all statements of a stage


@dataclass(frozen=True)
class FusedProduct:
    """An einsum to be fused with the conversion of its sparse operand."""

    subscripts: EinsumSubscripts
    at: int  # which operand is sparse
    dense: tuple[DType, ...]
    ring: semirings.Semiring
    dtype: DType


@dataclass(frozen=True)
class Fused:
    """A conversion whose stage `number` also multiplies; or why there is none."""

    conversion: Conversion
    number: int
    reason: str  # empty where it is fused


def convert_einsum(
    subscripts: str,
    *operands: Any,
    to: str | Format,
    semiring: str | semirings.Semiring = "plus_times",
    threads: int | None = None,
    copy: bool = True,
) -> tuple[Any, Any]:
    """The sparse operand in another format, and the einsum: one pass over the entries for both.

    `B, y = convert_einsum("ij,j->i", A, x, to="dia")` is `B = convert(A, "dia")` and
    `y = einsum("ij,j->i", A, x)`: sums are formed in the order of A, or of B where A has none.
    `copy` is that of `convert`.
    """
    call = _call(subscripts, operands, to, semiring)
    team = thread_count(threads)
    fused = call.fused if team == 1 else None
    product, tensor = call.product, call.tensor
    if fused is None or fused.reason:
        made = convert_unfrozen(tensor, call.target, team)
        # Unsorted entries are bound by memory: those of the target are faster to multiply. It has
        # repeated ones added up, so that only sums of products may be taken from it.
        best = made if _is_sum_of_products(product) and not tensor.format.order else tensor
        others = [best if n == product.at else x for n, x in enumerate(operands)]
        result = einsum(subscripts, *others, semiring=semiring, threads=threads)
        return handed_out(made, tensor, operands[product.at], team, copy=copy), result
    shape = tuple(call.extents[c] for c in product.subscripts.out)
    zero = product.ring.zero(product.dtype)
    out = np.full(shape, zero, product.dtype.numpy)
    arrays = {name: np.ascontiguousarray(array) for name, array in tensor.arrays.items()}
    arrays |= {f"x{n}": array for n, array in zip(_numbers(product), call.dense, strict=True)}
    symbols = dict(tensor.symbols) | {f"N_{c}": extent for c, extent in call.extents.items()}
    values = np.ascontiguousarray(tensor.values)
    found = fused.conversion
    indices, kept, counts = run(found, arrays | {"out": out}, values, symbols)
    indices = narrowed(call.target, indices, found.request.made, found.request.counter)
    made = SparseTensor(call.target, tensor.shape, indices, counts, kept)
    require_faithful(tensor, made)
    result = out if out.shape else out[()]
    return handed_out(made, tensor, operands[product.at], team, copy=copy), result


def explain_fused(
    subscripts: str,
    *operands: Any,
    to: str | Format,
    semiring: str | semirings.Semiring = "plus_times",
) -> str:
    """What `convert_einsum` makes of a call: the loops of both, or why they are not fused."""
    return _Report(_explanation(_call(subscripts, operands, to, semiring).fused))


class _Report(str):
    """Text whose repr is itself, for prompts."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _explanation(fused: Fused | None) -> str:
    if fused is None:
        return "not fused: the tensor has this format"
    if fused.reason:
        return f"not fused: {fused.reason}"
    stage = fused.conversion.stages[fused.number]
    code, names = stage.code
    known = {**names.arrays, **names.symbols}
    lines = [f"  {plain} is {name}" for name, plain in known.items()]
    head = f"stage {fused.number + 1} of {len(fused.conversion.stages)} of the conversion, with"
    return "\n".join([head, *lines, code.inspect("loops")])


@dataclass(frozen=True)
class _Call:
    """The operands of a call, validated."""

    product: FusedProduct
    tensor: SparseTensor
    target: Format
    dense: Sequence[Any]
    extents: dict[str, int]
    fused: Fused | None


def _call(
    subscripts: str, operands: Sequence[Any], to: str | Format, semiring: str | semirings.Semiring
) -> _Call:
    if not isinstance(subscripts, str):
        raise UsageError("sparse.einsum takes a string of subscripts", type(subscripts).__name__)
    ring = semirings.semiring(semiring)
    at = sparse_position(operands, f"sparse.convert_einsum '{subscripts}'")
    tensor = tensor_of(operands[at])
    target = find(to, tensor.ndim)
    ranks = tuple(tensor.ndim if n == at else np.ndim(x) for n, x in enumerate(operands))
    given = parse_subscripts(subscripts, ranks)
    names, dense, extents = dense_operands(given, operands, at, tensor.shape)
    types = (tensor.dtype, *(x.dtype for x in dense))
    dtype = dtype_of(np.result_type(*map(np.dtype, types)))
    ring.check_dtype(dtype)
    product = FusedProduct(names, at, tuple(dtype_of(x.dtype) for x in dense), ring, dtype)
    fused = None
    if tensor.format != target:
        require_valid_arrays(tensor)
        require_valid_source(tensor)
        require_storable(tensor, target)
        fused = _fused(conversion(with_sortedness(tensor), target).request, product)
    return _Call(product, tensor, target, dense, extents, fused)


def _numbers(product: FusedProduct) -> list[int]:
    return [n for n in range(len(product.subscripts.operands)) if n != product.at]


# -- the fused stage -----------------------------------------------------------------------------


@keeps_code
@lru_cache(maxsize=128)
def _fused(request: ConversionRequest, product: FusedProduct) -> Fused:
    found = synthesize(request)
    iterator = _iterator(found)
    reason = _refusal(found, product)
    if reason:
        return Fused(found, 0, reason)
    for number, stage in enumerate(found.stages):
        carrier = _carrier(stage, iterator)
        if carrier is None:
            continue
        try:
            both = _with_product(stage, carrier, iterator, product)
        except IllegalStep as error:
            return Fused(found, number, str(error))
        # Code for one thread was written for the entries alone.
        made = collapse_loops(replace(stage, computation=both, collapsed=None), iterator)
        stages = (*found.stages[:number], made, *found.stages[number + 1 :])
        return Fused(replace(found, stages=stages), number, "")
    return Fused(found, 0, "no stage takes every entry of the source to its place")


def _refusal(found: Conversion, product: FusedProduct) -> str:
    """Why a product cannot be fused with a conversion, whatever its stages are."""
    if not found.request.source.order:
        return "entries in no order are multiplied quicker when they have one: in the target"
    if product.dtype.name == "float16":
        return "sums of float16 are formed in float32"
    if not found.request.source.is_unique and product.ring.name != "plus_times":
        return "repeated entries are added up by the conversion, and combined by the semiring"
    sparse = product.subscripts.operands[product.at]
    if len(set(sparse)) < len(sparse):
        return "an index of the sparse operand stands twice"
    others = [product.subscripts.operands[n] for n in _numbers(product)]
    for term in (*others, product.subscripts.out):
        own = [c not in sparse for c in term]
        if own != sorted(own):
            return f"'{term}' has dense indices before those of the sparse operand"
    return ""


def _iterator(found: Conversion) -> EntryIterator:
    """The entries of the source, under the names of the stages."""
    request = found.request
    rank = request.source.rank
    source = rename_format(request.source, FROM, COORDINATES[:rank], SIZES[:rank])
    builder = Builder(request.counter)
    return entry_iterator(
        specialised(source, request.bits), FROM + "values", request.value, builder
    )


def _carrier(stage: Stage, iterator: EntryIterator) -> Stmt | None:
    """The statement of a stage that reads the value of every entry, in the loops of the source."""
    if stage.reuse is not None or stage.when:
        return None
    for stmt in stage.computation.statements:
        is_whole = stmt.domain == iterator.domain and stmt.guard == iterator.guard
        if is_whole and iterator.values in stmt.reads:
            return stmt
    return None


def _with_product(
    stage: Stage, carrier: Stmt, iterator: EntryIterator, product: FusedProduct
) -> Computation:
    """The computation of a stage with the product of each entry behind the carrier."""
    sparse = product.subscripts.operands[product.at]
    coordinate = dict(zip(sparse, iterator.coordinates.values(), strict=True))
    sizes = dict(zip(sparse, SIZES, strict=False))
    terms = {f"x{n}": product.subscripts.operands[n] for n in _numbers(product)}
    terms["out"] = product.subscripts.out
    types = dict(zip(terms, (*product.dense, product.dtype), strict=True))
    own = [c for c in dict.fromkeys("".join(terms.values())) if c not in sparse]

    def extent(letter: str) -> Term:
        return Term.of(Sym(sizes.get(letter, f"{FROM}N_{letter}")))

    spaces = tuple(
        DataSpace(
            FROM + name,
            types[name],
            tuple(map(extent, term)),
            Role.INOUT if name == "out" else Role.IN,
        )
        for name, term in terms.items()
    )
    wanted = {f"{FROM}N_{c}" for c in own}
    wanted |= {sizes[c] for term in terms.values() for c in term if c in sizes}
    before = stage.computation
    caller = replace(
        before,
        spaces=(*before.spaces, *spaces),
        symbols=tuple(sorted({*before.symbols, *wanted})),
    )
    callee = _one_entry(product, terms, types, own, dtype=_value_type(before, iterator))
    arguments = {"entry": _element(iterator.values, [iterator.place])}
    for name, term in terms.items():
        arguments[name] = _element(FROM + name, [coordinate[c] for c in term if c in coordinate])
    loops = [entry for entry in carrier.schedule if not entry.is_constant]
    behind = inline(
        caller,
        callee,
        (Term.of(_LAST), *loops, Term.of(0)),
        arguments,
        {f"N_{c}": Term.of(Sym(f"{FROM}N_{c}")) for c in own},
        over=carrier.domain,
    )
    name = behind.statements[-1].name
    moved = (*carrier.schedule[:-1], carrier.schedule[-1] + 1)
    steps = [
        Term.of(TupleVar(v)) for v in behind.statement(name).variables[len(carrier.variables) :]
    ]
    found = reschedule(behind, {name: (*moved, *steps)}, f"fuse({carrier.name}, {name})")
    if carrier.guard is None or _is_sum_of_products(
        product
    ):  # zeros are multiplied as by any kernel
        return found
    guarded = (replace(s, guard=carrier.guard) if s.name == name else s for s in found.statements)
    return replace(found, statements=tuple(guarded))


def _is_sum_of_products(product: FusedProduct) -> bool:
    return (product.ring.plus, product.ring.times) == ("add", "mul")


def _value_type(computation: Computation, iterator: EntryIterator) -> DType:
    return computation.by_name[iterator.values].dtype


def _element(name: str, index: Sequence[Term]) -> str:
    return f"{name}({', '.join(map(str, index))})" if index else name


def _one_entry(
    product: FusedProduct,
    terms: dict[str, str],
    types: dict[str, DType],
    own: list[str],
    dtype: DType,
) -> Computation:
    """out[d] = out[d] plus the product of one entry and the dense operands, for all dense d."""
    sparse = product.subscripts.operands[product.at]
    builder = Builder(product.dtype)
    builder.given("entry", dtype, ())

    def letters(term: str) -> list[str]:
        return [c for c in term if c not in sparse]

    for name, term in terms.items():
        builder.given(name, types[name], [Term.of(Sym(f"N_{c}")) for c in letters(term)])
    builder.spaces["out"] = replace(builder.spaces["out"], role=Role.INOUT)
    factors = []
    for number, term in enumerate(product.subscripts.operands):
        name = "entry" if number == product.at else f"x{number}"
        load = builder.load(element(name, *(Term.of(TupleVar(f"d_{c}")) for c in letters(term))))
        factors.append(cast(load, product.dtype))
    value = factors[0]
    for factor in factors[1:]:
        value = product.ring.times_expr(product.dtype, value, factor)
    index = tuple(Term.of(TupleVar(f"d_{c}")) for c in letters(product.subscripts.out))
    total = builder.load(element("out", *index))
    value = product.ring.plus_expr(product.dtype, total, value)
    bounds = [Constraint.ge(Term.of(TupleVar(f"d_{c}"))) for c in own]
    bounds += [Constraint.lt(Term.of(TupleVar(f"d_{c}")), Term.of(Sym(f"N_{c}"))) for c in own]
    names = tuple(f"d_{c}" for c in own)
    stmt = Stmt(
        "sum",
        IntegerSet(names, (Conj.of(bounds),)),
        tuple(Term.of(TupleVar(v)) for v in names),
        "out",
        index,
        value,
        None,
    )
    symbols = tuple(f"N_{c}" for c in own)
    return Computation("product", tuple(builder.spaces.values()), (stmt,), symbols)
