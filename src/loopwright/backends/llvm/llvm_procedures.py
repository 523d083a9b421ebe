"""Register tiles as procedures: compiled as they stand, and once where two are equal.

LLVM's whole pipeline improves plain loops, but spends seconds on loops whose vectors are explicit,
for nothing. So the outermost loops around register tiles become functions of their own, with what
they use from outside as arguments. Two of them that differ in names only are one function.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from loopwright.backends.llvm import llvm_memory as memory
from loopwright.backends.llvm.llvm_builder import SSAValue, type_name
from loopwright.backends.llvm.llvm_expressions import LLVMExpressions
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
    Interrupt,
    LabelledBlock,
    Leave,
    Let,
    LoopNest,
    Mark,
    Prefetch,
    Space,
    Stmt,
    Store,
)
from loopwright.ir.visit import expressions, rebuild, rewrite, statements, walk
from loopwright.lazy_dataclass import dataclass
from loopwright.memo import IdentityMap

__all__ = ["Invocation", "OutlinedLoop", "declaration", "invoke", "open_arguments", "outline"]

_OF_THE_KERNEL = (Space.SCRATCH, Space.PRIVATE, Space.SHARED)  # placed where the kernel begins


@dataclass(frozen=True, slots=True)
class OutlinedLoop:
    """Loops with all they use from outside as arguments, under canonical names."""

    variables: tuple[tuple[str, DType], ...]
    buffers: tuple[Buffer, ...]
    body: For


@dataclass(frozen=True, slots=True)
class Invocation:
    """A call of a procedure: the variables and buffers it is given."""

    procedure: OutlinedLoop
    variables: tuple[str, ...]
    buffers: tuple[str, ...]


def outline(nest: LoopNest) -> IdentityMap[For, Invocation]:
    """The loops of a nest that are procedures."""
    buffers = {buffer.name: buffer for buffer in nest.buffers}
    loops = _candidates(nest.body, buffers)
    return IdentityMap((loop, _invocation(loop, around)) for loop, around in loops)


def _candidates(
    stmt: Stmt, buffers: Mapping[str, Buffer]
) -> Iterator[tuple[For, Mapping[str, Buffer]]]:
    """The outermost loops with register tiles that can be procedures, and the buffers in scope."""
    match stmt:
        case For(mark=Mark.SERIAL) if _is_procedure(stmt):
            yield stmt, buffers
        case For(body=inner) | Let(body=inner) | LabelledBlock(body=inner):
            yield from _candidates(inner, buffers)
        case Alloc(buffer=buffer, body=inner):
            yield from _candidates(inner, {**buffers, buffer.name: buffer})
        case If(body=inner, orelse=orelse):
            yield from _candidates(inner, buffers)
            if orelse is not None:
                yield from _candidates(orelse, buffers)
        case Block(body=body):
            for child in body:
                yield from _candidates(child, buffers)


def _is_procedure(loop: For) -> bool:
    """Whether a loop holds a register tile, and neither threads nor memory of the kernel."""
    has_registers = False
    for stmt in statements(loop):
        match stmt:
            case Barrier() | Leave() | For(mark=Mark.PARALLEL | Mark.SIMD):
                return False
            case For(interrupt=Interrupt()):
                return False
            case Alloc(buffer=Buffer(space=space)):
                if space in _OF_THE_KERNEL:
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
    procedure = OutlinedLoop(
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


def open_arguments(procedure: OutlinedLoop, values: LLVMExpressions) -> str:
    """Bring the arguments of a procedure into scope, variables before buffers; their text."""
    arguments = []
    for name, dtype in procedure.variables:
        values.scope[name] = SSAValue(f"%{name}", dtype)
        arguments.append(str(values.scope[name]))
    for buffer in procedure.buffers:
        # Arrays do not overlap each other, and each is one argument.
        arguments.append(f"ptr noalias %{buffer.name}")
        pointer = f"%{buffer.name}"
        place = memory.PointerBuffer(pointer, buffer.dtype, planes=buffer.planes)
        values.declare(buffer, place)
    return ", ".join(arguments)


def invoke(name: str, invocation: Invocation, values: LLVMExpressions) -> None:
    """Call the procedure `name` with the arguments of one place."""
    given = [str(values.scope[variable]) for variable in invocation.variables]
    for buffer in invocation.buffers:
        place = values.buffers[buffer]
        assert isinstance(place, memory.PointerBuffer)
        given.append(f"ptr {place.pointer}")
    values.code.effect(f"call void @{name}({', '.join(given)})")


def declaration(name: str, procedure: OutlinedLoop) -> str:
    """How a module declares a procedure that another one defines."""
    types = [type_name(dtype) for _, dtype in procedure.variables]
    return f"declare void @{name}({', '.join(types + ['ptr'] * len(procedure.buffers))})"
