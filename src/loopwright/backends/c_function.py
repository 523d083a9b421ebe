"""A loop nest as a C function of its own: helpers, signature, body."""

from __future__ import annotations

from collections.abc import Mapping

from loopwright.backends.c_dialect import Dialect
from loopwright.backends.c_memory import Place
from loopwright.backends.c_names import Names
from loopwright.backends.c_text import Origin, Printer
from loopwright.backends.c_types import ATOM, INDEX, Code, Width, c_type
from loopwright.ir.expr import Expr
from loopwright.ir.loops import Buffer, LoopNest, Space
from loopwright.ir.module import Module

__all__ = ["emit_c", "emit_functions"]

_HALVES = """#ifndef __FLT16_MANT_DIG__
#error "this code needs a compiler with the type _Float16"
#endif
"""


def emit_c(
    nest: LoopNest,
    dialect: Dialect,
    *,
    shapes: Mapping[str, tuple[Expr, ...]] | None = None,
    origin: Origin | None = None,
) -> Module:
    """The C file of a nest: `void name(scalars..., table, buffers...)`.

    Buffers named in `shapes` are arrays of these extents without gaps, and are declared so; the
    strides of the others are among the scalars. The table of offsets is there only where the nest
    has one.
    """
    return emit_functions([nest], dialect, shapes=shapes, origin=origin)


def emit_functions(
    nests: list[LoopNest],
    dialect: Dialect,
    *,
    shapes: Mapping[str, tuple[Expr, ...]] | None = None,
    origin: Origin | None = None,
) -> Module:
    """One C file with a function for each nest; the module tells of the first."""
    helpers: dict[str, str] = {}
    bodies: list[str] = []
    for nest in nests:
        printer = _function(nest, dialect, shapes or {}, origin)
        helpers |= printer.vectors
        helpers |= {name: used.function() for name, used in printer.helpers.items()}
        bodies.append(str(printer.lines))
    text = "\n".join([*helpers.values(), *bodies])
    first = nests[0]
    arrays = tuple(b.name for b in first.buffers if b.space is Space.GLOBAL)
    scalars = first.scalars
    return Module("c", _HALVES + text if "_Float16" in text else text, first.name, arrays, scalars)


def _function(
    nest: LoopNest,
    dialect: Dialect,
    shapes: Mapping[str, tuple[Expr, ...]],
    origin: Origin | None,
) -> Printer:
    names = Names([nest.name])
    printer = Printer(dialect, names, origin=origin)
    parameters: list[str] = []
    for scalar in nest.scalars:
        name = names.declare(scalar, is_own=False)
        printer.spelling[scalar] = Code(name, ATOM, Width.LONG)
        parameters.append(f"{INDEX} {name}")
    table = ""
    for buffer in nest.buffers:
        if buffer.space is Space.TABLE:
            if not table:
                table = names.declare("table")
                parameters.append(f"const {INDEX} *restrict {table}")
            printer.places[buffer.name] = Place(table, buffer.dtype, buffer.strides)
            continue
        name = names.declare(buffer.name, is_own=False)
        parameters.append(_parameter(printer, buffer, name, shapes.get(buffer.name)))
        is_array = bool(buffer.strides) and buffer.name in shapes
        strides = None if is_array else buffer.strides
        printer.places[buffer.name] = Place(name, buffer.dtype, strides)
    printer.lines.add(f"void {nest.name}({', '.join(parameters) or 'void'})")
    printer.lines.add("{")
    printer.lines.indent()
    printer.nest(nest)
    printer.lines.dedent()
    printer.lines.add("}")
    return printer


def _parameter(printer: Printer, buffer: Buffer, name: str, shape: tuple[Expr, ...] | None) -> str:
    """The declaration of an array argument, which no other one overlaps where it is written."""
    element = c_type(buffer.dtype) if buffer.writable else f"const {c_type(buffer.dtype)}"
    if not shape:
        return f"{element} *restrict {name}"
    first, *rest = (printer.index(extent) for extent in shape)
    return f"{element} {name}[restrict {first}]" + "".join(f"[{n}]" for n in rest)
