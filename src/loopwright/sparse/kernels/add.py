"""Sums of sparse tensors of any two formats."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from loopwright import semirings
from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import INT64, DType, dtype_of
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load, Select, Var
from loopwright.ir.program import Role
from loopwright.runtime.array_arguments import Array
from loopwright.runtime.thread_pool import thread_count
from loopwright.sparse.convert import as_tensor, convert_tensor, convert_unfrozen
from loopwright.sparse.formats import find
from loopwright.sparse.formats.coordinates import names
from loopwright.sparse.handover import handed_out
from loopwright.sparse.kernels.executor import require_safe
from loopwright.sparse.kernels.merge import merge_rows
from loopwright.sparse.spf.compile import CompiledComputation, compile_computation
from loopwright.sparse.spf.computation import Computation, DataSpace, Stmt
from loopwright.sparse.synthesis.stream import cast
from loopwright.sparse.synthesis.widths import counter_type, made_types
from loopwright.sparse.tensor import SparseTensor, index_dtype, sparse_tensor
from loopwright.sparse.transposition import compressed

__all__ = ["add"]


def add(
    one: Any,
    other: Any,
    *,
    semiring: str | semirings.Semiring = "plus_times",
    threads: int | None = None,
) -> Any:
    """The entries of two tensors in the format of the first; common ones are combined by plus.

    Sums that happen to be zero stay entries, but in formats whose padding is mapped. The result
    shares nothing that can be written.
    """
    ring = semirings.semiring(semiring)
    tensors = as_tensor(one), as_tensor(other)
    if tensors[0].shape != tensors[1].shape:
        raise UsageError(
            "sparse tensors of different shapes cannot be added",
            found=f"{tensors[0].shape} and {tensors[1].shape}",
        )
    dtype = dtype_of(np.result_type(tensors[0].dtype, tensors[1].dtype))
    ring.check_dtype(dtype)
    target = tensors[0].format
    if compressed(target) is not None and tensors[1].format.is_unique:
        merged = _merged_rows(*tensors, ring, dtype, threads)
        return handed_out(merged, tensors[0], one, thread_count(threads), copy=True)
    summed = _merged(tensors, ring, dtype, threads)
    _require_entries(summed, target, ring)
    result = convert_unfrozen(summed, target, thread_count(threads))
    return handed_out(result, tensors[0], one, thread_count(threads), copy=True)


def _merged_rows(
    one: SparseTensor,
    other: SparseTensor,
    ring: semirings.Semiring,
    dtype: DType,
    threads: int | None,
) -> SparseTensor:
    """The entries of both in the format of the first, which is compressed."""
    format, shape = one.format, one.shape
    alike = one, convert_tensor(other, format, threads=threads)
    for tensor in alike:
        require_safe(tensor)
    rows_of = compressed(format)
    assert rows_of is not None
    pointer, index = rows_of.pointer, rows_of.index
    rows = [(t.arrays[pointer], t.arrays[index], t.values) for t in alike]
    room = len(one.values) + len(alike[1].values)
    types = dict(made_types(format, shape, room, counter_type(shape, room)))
    out = (
        np.empty(len(one.arrays[pointer]), types[pointer].numpy),
        np.empty(room, types[index].numpy),
        np.empty(room, dtype.numpy),
    )
    count = merge_rows(rows[0], rows[1], out, ring)
    arrays = {pointer: out[0], index: out[1][:count]}
    return sparse_tensor(format, shape, arrays, out[2][:count])


def _merged(
    tensors: tuple[SparseTensor, SparseTensor],
    ring: semirings.Semiring,
    dtype: DType,
    threads: int | None,
) -> SparseTensor:
    """The entries of both as a sorted list, those of equal coordinates combined in their order."""
    shape, rank = tensors[0].shape, tensors[0].ndim
    lists = [convert_tensor(tensor, find("scoo", rank), threads=threads) for tensor in tensors]
    for tensor in tensors:
        if any(tensor is listed for listed in lists):
            require_safe(tensor)  # no conversion has looked at it
    counts = [len(tensor.values) for tensor in lists]
    index = index_dtype(max(*shape, sum(counts)))
    arrays: dict[str, Array] = {"count": np.zeros(1, np.int64)}
    for side, tensor in zip("ab", lists, strict=True):
        for number, name in enumerate(names(rank)):
            arrays[f"{side}{number}"] = _readable(tensor.arrays[name])
        arrays[f"{side}_values"] = _readable(tensor.values)
    made = {f"o{number}": np.empty(sum(counts), index) for number in range(rank)}
    values = np.empty(sum(counts), dtype.numpy)
    types = tuple((name, dtype_of(array.dtype)) for name, array in (arrays | made).items())
    code = _code(ring, dtype, rank, types)
    code.run(arrays | made | {"values": values}, dict(zip(("NA", "NB"), counts, strict=True)))
    count = int(arrays["count"][0])
    kept = {name: made[f"o{number}"][:count] for number, name in enumerate(names(rank))}
    return sparse_tensor(find("scoo", rank), shape, kept, values[:count])


def _readable(array: Array) -> Array:
    """The array with an element to read, which the end of a list is taken for."""
    return np.ascontiguousarray(array) if array.size else np.zeros(1, array.dtype)


@lru_cache(maxsize=64)
def _code(
    ring: semirings.Semiring, dtype: DType, rank: int, types: tuple[tuple[str, DType], ...]
) -> CompiledComputation:
    """Two sorted lists as one: the lesser of their next entries goes to the place of its own.

    for t in range(NA + NB):
        take = i < NA and (j >= NB or a[i] <= b[j])      whether the next one is of the first list
        at = at + 1 if it differs from the last one
        o[at] = it;  values[at] = its value, or values[at] plus its value
        i = i + take;  j = j + (1 - take)
    """
    lengths: dict[str, tuple[str | int, ...]]
    lengths = {"a": ("NA",), "b": ("NB",), "o": ("NA+NB",), "c": (1,)}
    spaces = [
        DataSpace.of(name, of, lengths[name[0]], Role.INOUT if name[0] in "oc" else Role.IN)
        for name, of in types
    ]
    spaces.append(DataSpace.of("values", dtype, ("NA+NB",), Role.INOUT))
    local = [
        "i",
        "j",
        "take",
        "new",
        "at",
        *(f"{x}{k}" for k in range(rank) for x in ("it", "was")),
    ]
    spaces += [DataSpace.of(name, INT64, (), Role.LOCAL) for name in local]
    known = dict(types)

    def scalar(name: str) -> Expr:
        return Load(name, (), INT64)

    def entry(side: str, name: str) -> Expr:
        # Behind the end of a list its last entry is read, and not taken.
        cursor, count = (scalar("i"), Var("NA")) if side == "a" else (scalar("j"), Var("NB"))
        return Load(name, ((count - 1).max(0).min(cursor),), known[name])

    def both(x: Expr, y: Expr) -> Expr:
        return Binary("and", x, y)

    def either(x: Expr, y: Expr) -> Expr:
        return Binary("or", x, y)

    heads = [(_wide(entry("a", f"a{k}")), _wide(entry("b", f"b{k}"))) for k in range(rank)]
    no_later: Expr = heads[-1][0] <= heads[-1][1]
    for one, other in reversed(heads[:-1]):
        no_later = either(one < other, both(Binary("eq", one, other), no_later))
    take = both(scalar("i") < Var("NA"), either(scalar("j") >= Var("NB"), no_later))
    is_first = Binary("ne", scalar("take"), Const(0))
    differs: Expr = Binary("ne", scalar("it0"), scalar("was0"))
    for k in range(1, rank):
        differs = either(differs, Binary("ne", scalar(f"it{k}"), scalar(f"was{k}")))
    value = Select(
        is_first, cast(entry("a", "a_values"), dtype), cast(entry("b", "b_values"), dtype)
    )
    total = Load("values", (scalar("at"),), dtype)
    is_new = Binary("ne", scalar("new"), Const(0))
    steps: list[tuple[str, Expr]] = [("take()", Cast(take, INT64))]
    steps += [(f"it{k}()", Select(is_first, *heads[k])) for k in range(rank)]
    steps += [("new()", Cast(differs, INT64)), ("at()", scalar("at") + scalar("new"))]
    steps += [(f"o{k}(at())", cast(scalar(f"it{k}"), known[f"o{k}"])) for k in range(rank)]
    steps += [("values(at())", Select(is_new, value, ring.plus_expr(dtype, total, value)))]
    steps += [(f"was{k}()", scalar(f"it{k}")) for k in range(rank)]
    steps += [("i()", scalar("i") + scalar("take")), ("j()", scalar("j") + 1 - scalar("take"))]
    begin = [("i()", 0), ("j()", 0), ("at()", -1), *((f"was{k}()", -1) for k in range(rank))]
    statements = [
        Stmt.of(f"begin{n}", "{[]}", (0, n), target, Const(number))
        for n, (target, number) in enumerate(begin)
    ]
    statements += [
        Stmt.of(f"step{n}", "{[t] : 0 <= t < NA+NB}", (1, "t", n), target, step)
        for n, (target, step) in enumerate(steps)
    ]
    statements.append(Stmt.of("end", "{[]}", (2,), "count(0)", scalar("at") + 1))
    return compile_computation(Computation("merge", tuple(spaces), tuple(statements), ("NA", "NB")))


def _wide(x: Expr) -> Expr:
    return cast(x, INT64)


def _require_entries(summed: SparseTensor, target: Any, ring: semirings.Semiring) -> None:
    """Refuse sums that a format with mapped padding would take for padding."""
    padding = target.padding
    if padding is None or not padding.is_mapped or ring.name == "plus_times":
        return
    lost = summed.values == padding.fill
    if lost.any():
        at = int(np.argmax(lost))
        place = tuple(int(summed.arrays[name][at]) for name in names(summed.ndim))
        raise UsageError(
            f"{target.name} cannot hold the value {padding.fill} as an entry: it is padding",
            found=f"the sum at {place}",
            hint="convert the first tensor to a format without padding, such as csr",
        )
