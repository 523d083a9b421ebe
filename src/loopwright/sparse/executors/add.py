"""Sums of sparse tensors of any two formats.

Two matrices in compressed rows are merged row by row in one pass:

    for r: while one has entries left:  the lesser column goes first, equal ones are combined

Which of two entries comes first is computed and not branched on: entries of different patterns
alternate in no order that a processor could predict. Past the end of its row a matrix takes part
with a column that is larger than all. Such an element is read and not used, so it must exist: rows
from the first one on that ends with the last entry of a matrix are handled by a careful loop. Other
formats are converted to sorted coordinates, merged as lists and converted back.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from loopwright import semirings
from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import INT64, DType, dtype_of
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load, Select, Var, cast
from loopwright.ir.loops import Alloc, Block, Buffer, For, Let, LoopNest, Space, Store
from loopwright.ir.loops import Stmt as LoopStmt
from loopwright.ir.program import Role
from loopwright.kernels import nest_kernel
from loopwright.runtime.array_arguments import Array
from loopwright.runtime.code_memory import keeps_code
from loopwright.runtime.kernel import CompiledKernel
from loopwright.runtime.thread_pool import thread_count
from loopwright.semirings.named import Semiring
from loopwright.sparse.convert_tensor import as_tensor, convert_tensor, convert_unfrozen
from loopwright.sparse.executors.executor import require_valid
from loopwright.sparse.formats import find
from loopwright.sparse.formats.coordinates import names
from loopwright.sparse.handover import handed_out
from loopwright.sparse.spf.compile_computation import CompiledComputation, compile_computation
from loopwright.sparse.spf.computation import Computation, DataSpace, Stmt
from loopwright.sparse.synthesis.index_widths import counter_type, made_types
from loopwright.sparse.tensor import SparseTensor, index_dtype, sparse_tensor
from loopwright.sparse.transposition import compressed

__all__ = ["add", "merge_rows", "merged_nest"]

_FAST, _ROWS = "FAST", "N"
_BEHIND = (1 << 63) - 1  # a column larger than all
_NO_TABLE = np.zeros(0, dtype=np.int64)
_PARTS = ("ptr", "col", "values")

Rows = tuple[Array, Array, Array]  # where each row begins and the last ends, columns, values


def merge_rows(one: Rows, other: Rows, out: Rows, ring: Semiring) -> int:
    """Write the entries of both to `out`, which has room for them, and return how many there are.

    Columns ascend in every row, and all three have as many rows; this is not checked.
    """
    sides = {"a": one, "b": other, "o": out}
    arrays = {
        f"{side}_{part}": array if side == "o" else np.ascontiguousarray(array)
        for side, rows in sides.items()
        for part, array in zip(_PARTS, rows, strict=True)
    }
    kernel = _kernel(ring, tuple((name, dtype_of(a.dtype)) for name, a in arrays.items()))
    fast = min(_rows_before_the_end(pointers) for pointers, _, _ in (one, other))
    bound = kernel.bind({_FAST: fast, _ROWS: len(out[0]) - 1}, _NO_TABLE)
    bound(*(arrays[name] for name in kernel.buffers))
    return int(out[0][-1])


def _rows_before_the_end(pointers: Array) -> int:
    """How many rows there are before the first one that ends with the last entry."""
    return max(int(np.searchsorted(pointers, pointers[-1])) - 1, 0)


@keeps_code
@lru_cache(maxsize=64)
def _kernel(ring: Semiring, types: tuple[tuple[str, DType], ...]) -> CompiledKernel:
    dtype = dict(types)["o_values"]
    plus = ring.plus_expr(dtype, Var("x", dtype), Var("y", dtype))
    return nest_kernel(f"merged rows {types!r} by {plus!r}", lambda: merged_nest(ring, types))


def merged_nest(ring: Semiring, types: tuple[tuple[str, DType], ...]) -> LoopNest:
    """The loops, for arrays <side>_<part> of these types: sides a, b and o, see `Rows`."""
    known = dict(types)
    dtype = known["o_values"]
    row, at, ends = Var("r"), _scalar("at"), {"a": Var("a_end"), "b": Var("b_end")}
    cursors = {"a": _scalar("i"), "b": _scalar("j")}

    def read(side: str, part: str, place: Expr) -> Expr:
        return Load(f"{side}_{part}", (place,), known[f"{side}_{part}"])

    def start(side: str, place: Expr) -> Expr:
        return cast(read(side, "ptr", place), INT64)

    def column(side: str, place: Expr) -> Expr:
        return cast(read(side, "col", place), INT64)

    def put(col: Expr, value: Expr) -> tuple[LoopStmt, ...]:
        return (
            Store("o_col", (at,), cast(col, known["o_col"])),
            Store("o_values", (at,), value),
            Store("at", (), at + 1),
        )

    def step(heads: dict[str, Expr]) -> LoopStmt:
        """The lesser of two columns goes to its place."""
        left, right = Var("left"), Var("right")
        x, y = (cast(read(side, "values", cursors[side]), dtype) for side in "ab")
        one = Select(Binary("le", left, right), x, y)
        value = Select(Binary("eq", left, right), ring.plus_expr(dtype, x, y), one)
        move_a = Store("i", (), cursors["a"] + Cast(Binary("le", left, right), INT64))
        move_b = Store("j", (), cursors["b"] + Cast(Binary("le", right, left), INT64))
        body = Block((*put(left.min(right), value), move_a, move_b))
        return Let("left", heads["a"], Let("right", heads["b"], body))

    def rows(first: Expr, stop: Expr, body: tuple[LoopStmt, ...]) -> LoopStmt:
        begin = (Store(cursors[side].array, (), start(side, row)) for side in "ab")
        done = Store("o_ptr", (row + 1,), cast(at, known["o_ptr"]))
        inner: LoopStmt = Block((*begin, *body, done))
        for side, end in ends.items():
            inner = Let(end.name, start(side, row + 1), inner)
        return For(row.name, first, stop, inner, Const(1))

    def rest(side: str) -> LoopStmt:
        """What is left of a row when the other one has ended."""
        k = Var(f"{side}_k")
        body = Block(put(column(side, k), cast(read(side, "values", k), dtype)))
        return For(k.name, cursors[side], ends[side], body, Const(1))

    is_over = {side: Binary("ge", cursors[side], ends[side]) for side in "ab"}
    most = (ends["a"] - start("a", row)) + (ends["b"] - start("b", row))
    ahead = {side: column(side, cursors[side]) for side in "ab"}
    heads: dict[str, Expr] = {s: Select(is_over[s], Const(_BEHIND), ahead[s]) for s in "ab"}
    # One comparison for both, so that one branch is taken wrong at the end of a row and not two.
    all_over = Binary("ge", cursors["a"] + cursors["b"], ends["a"] + ends["b"])
    any_over = Binary("or", is_over["a"], is_over["b"])
    together = For("t", Const(0), most, step(heads), Const(1), until=all_over)
    careful = For("t", Const(0), most, step(ahead), Const(1), until=any_over)
    whole: LoopStmt = Block(
        (
            Store("at", (), Const(0)),
            Store("o_ptr", (Const(0),), Const(0, known["o_ptr"])),
            rows(Const(0), Var(_FAST), (together,)),
            rows(Var(_FAST), Var(_ROWS), (careful, rest("a"), rest("b"))),
        )
    )
    for name in ("at", "j", "i"):
        whole = Alloc(Buffer(name, INT64, (), Space.STACK, writable=True), (), whole)
    buffers = tuple(
        Buffer(name, of, (Const(1),), writable=name.startswith("o_")) for name, of in types
    )
    return LoopNest("kernel", buffers, (_FAST, _ROWS), whole, leave_to_llvm=True)


def _scalar(name: str) -> Load:
    return Load(name, (), INT64)


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
        require_valid(tensor)
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
            require_valid(tensor)  # no conversion has validated it
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


@keeps_code
@lru_cache(maxsize=64)
def _code(
    ring: semirings.Semiring, dtype: DType, rank: int, types: tuple[tuple[str, DType], ...]
) -> CompiledComputation:
    """Merge two sorted lists: the lesser of their next entries is appended.

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
