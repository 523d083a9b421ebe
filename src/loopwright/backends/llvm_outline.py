"""Register tiles of a plain nest as procedures: compiled apart, and once where they are equal.

LLVM's whole pipeline does plain loops good, but spends seconds on loops whose vectors are written
out, for nothing. So the outermost loops around register tiles become functions of their own, with
what they use from outside as arguments. Two of them that differ in names only are one function.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Expr, Load, Var
from loopwright.ir.loops import (
    Alloc,
    Barrier,
    Block,
    Buffer,
    Copy,
    For,
    If,
    Let,
    LoopNest,
    Mark,
    Prefetch,
    Space,
    Stmt,
    Store,
)
from loopwright.ir.visit import expressions, rebuild, rewrite, statements, walk

__all__ = ["Invocation", "Procedure", "outline"]

_APART = (Space.SCRATCH, Space.PRIVATE, Space.SHARED)  # what the kernel itself gives a place


@dataclass(frozen=True, slots=True)
class Procedure:
    """Loops with everything they use from outside as arguments, under names of no meaning."""

    variables: tuple[tuple[str, DType], ...]
    buffers: tuple[Buffer, ...]
    body: For


@dataclass(frozen=True, slots=True)
class Invocation:
    """What a procedure's arguments are at one place."""

    procedure: Procedure
    variables: tuple[str, ...]
    buffers: tuple[str, ...]


def outline(nest: LoopNest) -> dict[int, Invocation]:
    """The loops of a nest that are procedures, by their identity in it."""
    found: dict[int, Invocation] = {}
    for loop, buffers in _tiled(nest.body, {buffer.name: buffer for buffer in nest.buffers}):
        found[id(loop)] = _invocation(loop, buffers)
    return found


def _tiled(stmt: Stmt, buffers: Mapping[str, Buffer]) -> Iterator[tuple[For, Mapping[str, Buffer]]]:
    """The outermost loops with register tiles inside that stand for themselves, and their scope."""
    match stmt:
        case For(mark=Mark.SERIAL) if _is_whole(stmt):
            yield stmt, buffers
        case For(body=inner) | Let(body=inner):
            yield from _tiled(inner, buffers)
        case Alloc(buffer=buffer, body=inner):
            yield from _tiled(inner, {**buffers, buffer.name: buffer})
        case If(body=inner, orelse=orelse):
            yield from _tiled(inner, buffers)
            if orelse is not None:
                yield from _tiled(orelse, buffers)
        case Block(body=body):
            for child in body:
                yield from _tiled(child, buffers)


def _is_whole(loop: For) -> bool:
    """Whether a loop holds registers, and neither threads nor memory of the kernel."""
    has_registers = False
    for stmt in statements(loop):
        match stmt:
            case Barrier() | For(mark=Mark.PARALLEL | Mark.SIMD):
                return False
            case Alloc(buffer=Buffer(space=space)):
                if space in _APART:
                    return False
                has_registers |= space is Space.REGISTER
    return has_registers


def _invocation(loop: For, buffers: Mapping[str, Buffer]) -> Invocation:
    """`loop` as a procedure: names in order of appearance, those from outside are arguments."""
    variables: dict[str, DType] = {}
    arrays: dict[str, None] = {}
    inside: set[str] = set()

    def meet(expr: Expr) -> None:
        for node in walk(expr):
            match node:
                case Var(name=name):
                    variables.setdefault(name, node.dtype)
                case Load(array=name):
                    arrays.setdefault(name)

    for stmt in statements(loop):
        for expr in expressions(stmt):
            meet(expr)
        match stmt:
            case For(var=name) | Let(name=name):
                inside.add(name)
                variables.setdefault(name, Var(name).dtype)
            case Alloc(buffer=buffer):
                inside.add(buffer.name)
                arrays.setdefault(buffer.name)
                for stride in buffer.strides:
                    meet(stride)
            case Store(buffer=name) | Prefetch(buffer=name):
                arrays.setdefault(name)
            case Copy(target=target, source=source):
                arrays.update({target: None, source: None})
    outside = [name for name in arrays if name not in inside]
    for name in outside:
        for stride in buffers[name].strides:
            meet(stride)
    names = {name: f"v{k}" for k, name in enumerate(variables)}
    places = {name: f"b{k}" for k, name in enumerate(arrays)}
    given = [name for name in variables if name not in inside]
    procedure = Procedure(
        tuple((names[name], variables[name]) for name in given),
        tuple(_renamed_buffer(buffers[name], names, places) for name in outside),
        _renamed(loop, names, places),
    )
    return Invocation(procedure, tuple(given), tuple(outside))


def _renamed_buffer(buffer: Buffer, names: Mapping[str, str], places: Mapping[str, str]) -> Buffer:
    strides = tuple(_renamed_expr(stride, names, places) for stride in buffer.strides)
    return replace(buffer, name=places[buffer.name], strides=strides, space=Space.GLOBAL)


def _renamed_expr(expr: Expr, names: Mapping[str, str], places: Mapping[str, str]) -> Expr:
    def change(node: Expr) -> Expr:
        match node:
            case Var(name=name):
                return Var(names[name], node.dtype)
            case Load(array=name):
                return Load(places[name], node.index, node.dtype)
        return node

    return rewrite(expr, change)


def _renamed(loop: For, names: Mapping[str, str], places: Mapping[str, str]) -> For:
    def change(node: Stmt) -> Stmt:
        match node:
            case For(var=name):
                return replace(node, var=names[name])
            case Let(name=name):
                return replace(node, name=names[name])
            case Alloc(buffer=buffer):
                own = _renamed_buffer(buffer, names, places)
                return replace(node, buffer=replace(own, space=buffer.space))
            case Store(buffer=name) | Prefetch(buffer=name):
                return replace(node, buffer=places[name])
            case Copy(target=target, source=source):
                return replace(node, target=places[target], source=places[source])
        return node

    renamed = rebuild(loop, change, lambda expr: _renamed_expr(expr, names, places))
    assert isinstance(renamed, For)
    return renamed
