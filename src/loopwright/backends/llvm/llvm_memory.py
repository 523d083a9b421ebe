"""Buffers in LLVM: addresses, contiguous and strided vectors, register files of vectors."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from loopwright.backends.llvm.llvm_arithmetic import broadcast
from loopwright.backends.llvm.llvm_builder import (
    WITH_SSE2,
    FunctionBuilder,
    SSAValue,
    int_literal,
    type_name,
)
from loopwright.diagnostics import InternalError
from loopwright.ir.dtypes import INT64, DType
from loopwright.ir.loops import Buffer, Space
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "PointerBuffer",
    "RegisterBuffer",
    "address",
    "extract",
    "gather",
    "index_binary",
    "keep_order",
    "load",
    "make_local",
    "make_registers",
    "moved",
    "prefetch",
    "read_across",
    "read_row",
    "splat_lane",
    "store",
    "write_lane",
    "write_row",
]


@dataclass(frozen=True, slots=True)
class PointerBuffer:
    """A buffer behind a pointer."""

    pointer: str
    dtype: DType
    tags: str = ""  # metadata of its accesses
    is_inside: bool = False  # whether every address is inbounds
    planes: int = 0  # see ir.loops.Buffer


@dataclass(frozen=True, slots=True)
class RegisterBuffer:
    """A buffer of constant shape held in vector registers, its last dimension in the lanes.

    Each row is a stack slot of vector type, which LLVM's SROA pass turns into SSA values.
    """

    dtype: DType
    lanes: int
    slots: dict[tuple[int, ...], tuple[str, str]]  # row -> slot, slot of the imaginary parts
    transposed: dict[str, list[SSAValue]]  # columns, by basic block; invalid after a store


def make_registers(code: FunctionBuilder, dtype: DType, shape: tuple[int, ...]) -> RegisterBuffer:
    *rows, lanes = shape or (1,)
    vector = type_name(dtype, lanes)
    slots = {
        row: (code.alloca(vector), code.alloca(vector) if dtype.is_complex else "")
        for row in itertools.product(*map(range, rows))
    }
    return RegisterBuffer(dtype, lanes, slots, {})


def make_local(
    code: FunctionBuilder, buffer: Buffer, shape: tuple[int, ...], reach: int
) -> PointerBuffer | RegisterBuffer:
    """A local array of constant shape: in registers, or `reach` elements of the stack."""
    if buffer.space is Space.REGISTER:
        return make_registers(code, buffer.dtype, shape)
    if buffer.space is Space.STACK:
        return PointerBuffer(code.alloca("i8", max(reach * buffer.dtype.bytes, 1)), buffer.dtype)
    raise InternalError(f"no {buffer.space.value} memory on a processor: '{buffer.name}'")


_INDEX_OPS = {"add": "add nsw", "sub": "sub nsw", "mul": "mul nsw"}


def index_binary(
    code: FunctionBuilder, op: str, x: SSAValue, y: SSAValue, wraps: bool = False
) -> SSAValue:
    """x op y for add, sub, mul of int64: constants fold; subscripts never overflow, data may."""
    a, b = int_literal(x), int_literal(y)
    if a is not None and b is not None:
        exact = {"add": a + b, "sub": a - b, "mul": a * b}[op]
        return SSAValue(str((exact + (1 << 63)) % (1 << 64) - (1 << 63)), INT64)
    if (op == "add" and a == 0) or (op == "mul" and a == 1):
        return y
    if (op in ("add", "sub") and b == 0) or (op == "mul" and b == 1):
        return x
    if op == "mul" and (a == 0 or b == 0):
        return SSAValue("0", INT64)
    return SSAValue(code.pure(f"{op if wraps else _INDEX_OPS[op]} {x}, {y.text}"), INT64)


def prefetch(
    code: FunctionBuilder, memory: PointerBuffer, offset: SSAValue, *, write: bool, level: int
) -> None:
    """Bring the element at `offset`, which may lie anywhere, into a level of the caches."""
    pointer = address(code, replace(memory, is_inside=False), offset)
    code.declarations["declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"] = None
    code.effect(
        f"call void @llvm.prefetch.p0(ptr {pointer}, i32 {int(write)}, i32 {max(0, 4 - level)}, "
        "i32 1)"
    )


def address(code: FunctionBuilder, memory: PointerBuffer, offset: SSAValue, part: int = 0) -> str:
    """Pointer to the element at `offset`; `part` 1 selects the imaginary part."""
    if memory.dtype.is_complex:
        doubled = index_binary(code, "mul", offset, SSAValue("2", INT64))
        offset = index_binary(code, "add", doubled, SSAValue(str(part), INT64))
    if int_literal(offset) == 0:
        return memory.pointer
    scalar = type_name(memory.dtype)
    inside = "inbounds " if memory.is_inside else ""
    return code.pure(f"getelementptr {inside}{scalar}, ptr {memory.pointer}, {offset}")


def moved(code: FunctionBuilder, memory: PointerBuffer, offset: SSAValue) -> PointerBuffer:
    """The buffer with its pointer advanced by `offset`, which need not stay inside."""
    anywhere = replace(memory, is_inside=False)
    return replace(anywhere, pointer=address(code, anywhere, offset))


def load(
    code: FunctionBuilder, memory: PointerBuffer, offset: SSAValue, stride: SSAValue, lanes: int
) -> SSAValue:
    """The elements at offset, offset + stride, ...; lanes of stride 1 are one vector load."""
    if lanes > 1 and int_literal(stride) == 0:
        return broadcast(code, load(code, memory, offset, stride, 1), lanes)
    if lanes == 1 or int_literal(stride) == 1:
        return _load_contiguous(code, memory, offset, lanes)
    if int_literal(stride) == -1:
        first = index_binary(code, "sub", offset, SSAValue(str(lanes - 1), INT64))
        return _reverse(code, _load_contiguous(code, memory, first, lanes))
    elements = []
    for _ in range(lanes):
        elements.append(_load_contiguous(code, memory, offset, 1))
        offset = index_binary(code, "add", offset, stride)
    return gather(code, elements)


def _load_contiguous(
    code: FunctionBuilder, memory: PointerBuffer, offset: SSAValue, lanes: int
) -> SSAValue:
    dtype = memory.dtype
    if memory.planes > 1 or (memory.planes and lanes == 1):
        return _load_planes(code, memory, offset, lanes)
    align = dtype.real.bytes
    pointer = address(code, memory, offset)
    end = f"align {align}{memory.tags}{code.tags}"
    if not dtype.is_complex:
        whole = code.emit(f"load {type_name(dtype, lanes)}, ptr {pointer}, {end}")
        return SSAValue(whole, dtype, lanes)
    if lanes == 1 and code.parts_apart:
        one, beside = type_name(dtype), address(code, memory, offset, 1)
        real = code.emit(f"load {one}, ptr {pointer}, {end}")
        return SSAValue(real, dtype, 1, code.emit(f"load {one}, ptr {beside}, {end}"))
    pair = type_name(dtype, 2 * lanes)
    both = code.emit(f"load {pair}, ptr {pointer}, {end}")
    if lanes == 1:
        parts = [code.emit(f"extractelement {pair} {both}, i64 {k}") for k in (0, 1)]
    else:
        parts = [
            code.emit(
                f"shufflevector {pair} {both}, {pair} poison, {_mask(range(k, 2 * lanes, 2))}"
            )
            for k in (0, 1)
        ]
    return SSAValue(parts[0], dtype, lanes, parts[1])


def store(
    code: FunctionBuilder,
    memory: PointerBuffer,
    offset: SSAValue,
    stride: SSAValue,
    value: SSAValue,
) -> None:
    """Write lanes to offset, offset + stride, ..."""
    lanes = value.lanes
    if lanes == 1 or int_literal(stride) == 1:
        _store_contiguous(code, memory, offset, value)
        return
    if int_literal(stride) == -1:
        first = index_binary(code, "sub", offset, SSAValue(str(lanes - 1), INT64))
        _store_contiguous(code, memory, first, _reverse(code, value))
        return
    for lane in range(lanes):
        _store_contiguous(code, memory, offset, extract(code, value, lane))
        offset = index_binary(code, "add", offset, stride)


def _store_contiguous(
    code: FunctionBuilder, memory: PointerBuffer, offset: SSAValue, value: SSAValue
) -> None:
    if memory.planes > 1:
        _store_planes(code, memory, offset, value)
        return
    align = memory.dtype.real.bytes
    pointer = address(code, memory, offset)
    end = f"align {align}{memory.tags}{code.tags}"
    if not memory.dtype.is_complex:
        code.effect(f"store {value}, ptr {pointer}, {end}")
        return
    if value.lanes == 1:
        beside = address(code, memory, offset, 1)
        code.effect(f"store {value}, ptr {pointer}, {end}")
        code.effect(f"store {value.type} {value.imag}, ptr {beside}, {end}")
        return
    order = [k + value.lanes * part for k in range(value.lanes) for part in (0, 1)]
    both = code.emit(f"shufflevector {value}, {value.type} {value.imag}, {_mask(order)}")
    code.effect(f"store {type_name(value.dtype, 2 * value.lanes)} {both}, ptr {pointer}, {end}")


def _in_planes(
    code: FunctionBuilder, memory: PointerBuffer, offset: SSAValue, lanes: int
) -> tuple[str, str]:
    """Where the real parts of one element, or of all elements of a group, begin; the imaginary."""
    planes = memory.planes
    assert lanes in (1, planes), "vectors of a buffer in planes are whole groups"
    real = replace(memory, dtype=memory.dtype.real, planes=0)
    within = SSAValue("0", INT64)
    if lanes < planes:
        known = int_literal(offset)
        text = str(known % planes) if known is not None else ""
        within = SSAValue(text or code.pure(f"and {offset}, {planes - 1}"), INT64)
    first = index_binary(code, "sub", offset, within)
    at = index_binary(code, "mul", first, SSAValue("2", INT64))
    at = index_binary(code, "add", at, within)
    beside = index_binary(code, "add", at, SSAValue(str(planes), INT64))
    return address(code, real, at), address(code, real, beside)


def _load_planes(
    code: FunctionBuilder, memory: PointerBuffer, offset: SSAValue, lanes: int
) -> SSAValue:
    one = type_name(memory.dtype, lanes)
    end = f"align {memory.dtype.real.bytes}{memory.tags}{code.tags}"
    pointers = _in_planes(code, memory, offset, lanes)
    real, imag = (code.emit(f"load {one}, ptr {pointer}, {end}") for pointer in pointers)
    return SSAValue(real, memory.dtype, lanes, imag)


def _store_planes(
    code: FunctionBuilder, memory: PointerBuffer, offset: SSAValue, value: SSAValue
) -> None:
    end = f"align {memory.dtype.real.bytes}{memory.tags}{code.tags}"
    pointers = _in_planes(code, memory, offset, value.lanes)
    for part, pointer in zip((value.text, value.imag), pointers, strict=True):
        code.effect(f"store {value.type} {part}, ptr {pointer}, {end}")


def keep_order(code: FunctionBuilder, features: frozenset[str]) -> None:
    """Keep LLVM from loading here what is used later, by a fence that is no instruction on x86.

    On POWER it would be one (lwsync), which waits.
    """
    if features & WITH_SSE2:
        code.effect('fence syncscope("singlethread") acq_rel')


def _mask(order: range | list[int]) -> str:
    entries = ", ".join(f"i32 {k}" for k in order)
    return f"<{len(order)} x i32> <{entries}>"


def _reverse(code: FunctionBuilder, value: SSAValue) -> SSAValue:
    mask = _mask(range(value.lanes - 1, -1, -1))

    def turn(text: str) -> str:
        return code.emit(f"shufflevector {value.type} {text}, {value.type} poison, {mask}")

    return SSAValue(
        turn(value.text), value.dtype, value.lanes, turn(value.imag) if value.imag else ""
    )


def gather(code: FunctionBuilder, elements: list[SSAValue]) -> SSAValue:
    dtype, lanes = elements[0].dtype, len(elements)
    vector, scalar = type_name(dtype, lanes), type_name(dtype)

    def pack(texts: list[str]) -> str:
        whole = "poison"
        for lane, text in enumerate(texts):
            whole = code.emit(f"insertelement {vector} {whole}, {scalar} {text}, i64 {lane}")
        return whole

    imag = pack([e.imag for e in elements]) if dtype.is_complex else ""
    return SSAValue(pack([e.text for e in elements]), dtype, lanes, imag)


def read_across(
    code: FunctionBuilder, registers: RegisterBuffer, places: list[tuple[tuple[int, ...], int]]
) -> SSAValue:
    """One element per lane from several register rows: lane k is element `places[k]`.

    A whole column of a square of rows is taken from the square's transposition, which is made
    once, by interleaving halves in log2(lanes) rounds. Other selections are trees of shuffles.
    """
    lanes = registers.lanes
    column = places[0][1]
    rows = list(registers.slots)
    square = len(rows) == lanes and lanes & (lanes - 1) == 0
    if square and places == [(row, column) for row in rows]:
        if code.block not in registers.transposed:
            registers.transposed[code.block] = _transposed(
                code, [read_row(code, registers, row) for row in rows]
            )
        return registers.transposed[code.block][column]
    used = list(dict.fromkeys(row for row, _ in places))
    vectors = [read_row(code, registers, row) for row in used]
    return _select_lanes(code, vectors, [(used.index(row), lane) for row, lane in places])


def _transposed(code: FunctionBuilder, rows: list[SSAValue]) -> list[SSAValue]:
    lanes = len(rows)
    half = lanes // 2
    low = [k // 2 + (k % 2) * lanes for k in range(lanes)]
    high = [half + k // 2 + (k % 2) * lanes for k in range(lanes)]
    for _ in range(lanes.bit_length() - 1):
        pairs = [(rows[k], rows[k + half]) for k in range(half)]
        rows = [_shuffled(code, x, y, order) for x, y in pairs for order in (low, high)]
    return rows


def _shuffled(
    code: FunctionBuilder, x: SSAValue, y: SSAValue, order: Sequence[int | None]
) -> SSAValue:
    """Lanes of x (numbered from 0) and y (from x.lanes) in a new order; None for any lane."""
    mask = ", ".join("i32 poison" if k is None else f"i32 {k}" for k in order)

    def mix(a: str, b: str) -> str:
        return code.emit(f"shufflevector {x.type} {a}, {y.type} {b}, <{len(order)} x i32> <{mask}>")

    imag = mix(x.imag, y.imag) if x.imag else ""
    return SSAValue(mix(x.text, y.text), x.dtype, len(order), imag)


def _select_lanes(
    code: FunctionBuilder, vectors: list[SSAValue], choice: Sequence[tuple[int, int] | None]
) -> SSAValue:
    """Any lanes of any vectors, by a tree of two-operand shuffles."""
    lanes = vectors[0].lanes
    if len(vectors) <= 2:
        order = [None if c is None else c[0] * lanes + c[1] for c in choice]
        return _shuffled(code, vectors[0], vectors[-1], order)
    half = len(vectors) // 2
    first = [c if c is not None and c[0] < half else None for c in choice]
    rest = [(c[0] - half, c[1]) if c is not None and c[0] >= half else None for c in choice]
    x = _select_lanes(code, vectors[:half], first)
    y = _select_lanes(code, vectors[half:], rest)
    width = len(choice)
    order = [None if c is None else (k if c[0] < half else k + width) for k, c in enumerate(choice)]
    return _shuffled(code, x, y, order)


def extract(code: FunctionBuilder, value: SSAValue, lane: int) -> SSAValue:
    """One lane as a scalar."""

    def take(text: str) -> str:
        return code.emit(f"extractelement {value.type} {text}, i64 {lane}")

    return SSAValue(take(value.text), value.dtype, 1, take(value.imag) if value.imag else "")


def splat_lane(code: FunctionBuilder, value: SSAValue, lane: int, lanes: int) -> SSAValue:
    """One lane of `value` in all of `lanes` lanes: the form that becomes a by-lane FMA on ARM."""
    mask = f"<{lanes} x i32> <{', '.join([f'i32 {lane}'] * lanes)}>"

    def spread(text: str) -> str:
        return code.emit(f"shufflevector {value.type} {text}, {value.type} poison, {mask}")

    return SSAValue(
        spread(value.text), value.dtype, lanes, spread(value.imag) if value.imag else ""
    )


def read_row(code: FunctionBuilder, registers: RegisterBuffer, row: tuple[int, ...]) -> SSAValue:
    """The whole vector of a register row."""
    slot, imag = registers.slots[row]
    vector = type_name(registers.dtype, registers.lanes)

    def read(at: str) -> str:
        return code.emit(f"load {vector}, ptr {at}, align 16")

    return SSAValue(read(slot), registers.dtype, registers.lanes, read(imag) if imag else "")


def write_row(
    code: FunctionBuilder, registers: RegisterBuffer, row: tuple[int, ...], value: SSAValue
) -> None:
    """Replace the whole vector of a register row."""
    registers.transposed.clear()
    slot, imag = registers.slots[row]
    code.effect(f"store {value}, ptr {slot}, align 16")
    if imag:
        code.effect(f"store {value.type} {value.imag}, ptr {imag}, align 16")


def write_lane(
    code: FunctionBuilder,
    registers: RegisterBuffer,
    row: tuple[int, ...],
    lane: int,
    value: SSAValue,
) -> None:
    """Replace one lane of a register row."""
    old = read_row(code, registers, row)
    if registers.lanes == 1:
        write_row(code, registers, row, value)
        return
    scalar = type_name(value.dtype)

    def put(whole: str, text: str) -> str:
        return code.emit(f"insertelement {old.type} {whole}, {scalar} {text}, i64 {lane}")

    imag = put(old.imag, value.imag) if old.imag else ""
    write_row(code, registers, row, SSAValue(put(old.text, value.text), old.dtype, old.lanes, imag))
