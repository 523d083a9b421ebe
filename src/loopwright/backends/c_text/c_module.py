"""A loop nest as C text: a function of its own, or a region between the lines of a user's file.

A function is preceded by the helpers it calls. A region is a block of C in terms of the user's own
variables, so that it may stand wherever a statement may.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from loopwright.backends.c_text.c_dialect import Dialect
from loopwright.backends.c_text.c_expression_printer import NamedBuffer
from loopwright.backends.c_text.c_printer import CPrinter, Origin
from loopwright.backends.c_text.c_syntax import (
    ATOM,
    INDENT,
    INDEX,
    UNARY,
    CText,
    NamesInUse,
    Width,
    c_type,
)
from loopwright.diagnostics import InternalError, UsageError
from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Expr
from loopwright.ir.intervals import limits
from loopwright.ir.loops import Alloc, Buffer, LoopNest, Space
from loopwright.ir.module import Module
from loopwright.ir.visit import statements
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "RegionSurroundings",
    "emit_c",
    "emit_call",
    "emit_functions",
    "emit_region",
    "name_integers",
    "print_function",
]

# -- functions ------------------------------------------------------------------------------------

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
    """One C file with a function for each nest; the module describes the first."""
    helpers: dict[str, str] = {}
    bodies: list[str] = []
    for nest in nests:
        printer = print_function(nest, dialect, shapes or {}, origin)
        helpers |= printer.vectors.types
        helpers |= {name: used.function() for name, used in printer.expressions.helpers.items()}
        bodies.append(str(printer.lines))
    text = "\n".join([*helpers.values(), *bodies])
    first = nests[0]
    arrays = tuple(b.name for b in first.buffers if b.space is Space.GLOBAL)
    scalars = first.scalars
    return Module("c", _HALVES + text if "_Float16" in text else text, first.name, arrays, scalars)


def print_function(
    nest: LoopNest,
    dialect: Dialect,
    shapes: Mapping[str, tuple[Expr, ...]],
    origin: Origin | None,
    *,
    head: str = "void",
) -> CPrinter:
    """A printer that has written the function of a nest, without the helpers that it calls."""
    names = NamesInUse([nest.name])
    printer = CPrinter(dialect, names, origin=origin)
    parameters: list[str] = []
    for scalar in nest.scalars:
        name = names.declare(scalar, is_own=False)
        printer.expressions.spelling[scalar] = CText(name, ATOM, Width.LONG)
        parameters.append(f"{INDEX} {name}")
    table = ""
    for buffer in nest.buffers:
        if buffer.space is Space.TABLE:
            if not table:
                table = names.declare("table")
                parameters.append(f"const {INDEX} *restrict {table}")
            printer.expressions.buffers[buffer.name] = NamedBuffer(
                table, buffer.dtype, buffer.strides
            )
            continue
        name = names.declare(buffer.name, is_own=False)
        parameters.append(_parameter(printer, buffer, name, shapes.get(buffer.name)))
        is_array = bool(buffer.strides) and buffer.name in shapes
        strides = None if is_array else buffer.strides
        printer.expressions.buffers[buffer.name] = NamedBuffer(name, buffer.dtype, strides)
    printer.lines.add(f"{head} {nest.name}({', '.join(parameters) or 'void'})")
    printer.lines.add("{")
    printer.lines.indent()
    printer.nest(nest)
    printer.lines.dedent()
    printer.lines.add("}")
    return printer


def _parameter(printer: CPrinter, buffer: Buffer, name: str, shape: tuple[Expr, ...] | None) -> str:
    """The declaration of an array argument: restrict, const where it is not written."""
    element = c_type(buffer.dtype) if buffer.writable else f"const {c_type(buffer.dtype)}"
    if not shape:
        return f"{element} *restrict {name}"
    first, *rest = (printer.expressions.index(extent) for extent in shape)
    return f"{element} {name}[restrict {first}]" + "".join(f"[{n}]" for n in rest)


# -- regions --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RegionSurroundings:
    """The declarations of the user's file that a region refers to."""

    arrays: Mapping[str, str]  # buffers of the nest -> arrays and variables of C
    integers: Mapping[str, tuple[str, DType]]  # of the nest -> integer variables of C
    memory: Mapping[str, tuple[str, tuple[Expr, ...]]] = field(default_factory=dict)  # local arrays
    # of the nest -> arrays declared there, and their extents
    names: Mapping[str, str] = field(default_factory=dict)  # loops, locals -> the user's names
    words: frozenset[str] = frozenset()  # names that occur somewhere in the file
    margin: str = ""  # white space before each line
    after: tuple[tuple[str, Expr], ...] = ()  # variables of C and their values behind the region
    # Strides of the buffers that are flat arrays in C; others have the nest's dimensions there.
    flat: Mapping[str, tuple[Expr, ...]] = field(default_factory=dict)


def emit_region(
    nest: LoopNest, dialect: Dialect, around: RegionSurroundings, origin: Origin | None = None
) -> str:
    """The lines of a nest: one block, so that it may stand wherever a statement may.

    Arrays are subscripted as the user declared them. What C has no operator for becomes a macro
    that is undefined again at the end of the block.
    """
    taken = set(around.arrays.values())
    taken |= {name for table in (around.integers, around.memory) for name, _ in table.values()}
    names = NamesInUse(taken, around.words)
    printer = CPrinter(dialect, names, from_c=True, margin=around.margin + INDENT, origin=origin)
    printer.scopes.wishes = dict(around.names)
    name_integers(printer, around)
    for stmt in statements(nest.body):
        if isinstance(stmt, Alloc) and stmt.buffer.name in around.memory:
            name, extents = around.memory[stmt.buffer.name]
            # Steps may have given a local array more dimensions: then it needs other memory.
            if stmt.shape == extents:
                printer.scopes.kept[stmt.buffer.name] = NamedBuffer(name, stmt.buffer.dtype, None)
    for buffer in nest.buffers:
        if buffer.name not in around.arrays:
            raise InternalError(f"array {buffer.name} has no name in C")
        printer.expressions.buffers[buffer.name] = NamedBuffer(
            around.arrays[buffer.name], buffer.dtype, around.flat.get(buffer.name)
        )
    printer.nest(nest)
    return _region_block(printer, around)


def emit_call(lines: Sequence[str], around: RegionSurroundings, dialect: Dialect) -> str:
    """A block of given lines in a region's place; variables get the values they have behind it."""
    printer = CPrinter(dialect, NamesInUse(), from_c=True, margin=around.margin + INDENT)
    name_integers(printer, around)
    for line in lines:
        printer.lines.add(line)
    return _region_block(printer, around)


def name_integers(printer: CPrinter, around: RegionSurroundings) -> None:
    """Let a printer call the integers of a program as the user's file does."""
    for name, (text, dtype) in around.integers.items():
        printer.expressions.spelling[name] = _integer(text, dtype)
        printer.expressions.ranges[name] = limits(dtype)


def _region_block(printer: CPrinter, around: RegionSurroundings) -> str:
    """The block of what was printed, with the macros that it uses."""
    for name, value in around.after:
        printer.lines.add(f"{name} = {printer.expressions.index(value)};")
    clash = around.words & printer.expressions.helpers.keys()
    if clash:
        hint = "other names: those that begin with lw_ are given to code that is generated"
        raise UsageError("the file uses names of ours", ", ".join(sorted(clash)), hint)
    defined = "".join(used.macro() for used in printer.expressions.helpers.values())
    undefined = "".join(f"#undef {name}\n" for name in printer.expressions.helpers)
    inner = around.margin + INDENT
    types = "".join(f"{inner}{line}" for line in printer.vectors.types.values())
    return f"{around.margin}{{\n{defined}{types}{printer.lines}{undefined}{around.margin}}}\n"


def _integer(name: str, dtype: DType) -> CText:
    """A variable of C as an index; unsigned ones are cast, lest sums with them be unsigned."""
    if dtype.kind == "u" and dtype.bits >= 32:
        return CText(f"({INDEX}){name}", UNARY, Width.LONG)
    return CText(name, ATOM, Width.LONG if dtype.bits == 64 else Width.INT)
