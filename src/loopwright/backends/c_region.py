"""A loop nest as a block of C between the user's lines, in terms of the user's own variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from loopwright.backends.c_dialect import Dialect
from loopwright.backends.c_layout import INDENT
from loopwright.backends.c_memory import Place
from loopwright.backends.c_names import Names
from loopwright.backends.c_ranges import limits
from loopwright.backends.c_text import Origin, Printer
from loopwright.backends.c_types import ATOM, INDEX, UNARY, Code, Width
from loopwright.diagnostics import InternalError, UsageError
from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Expr
from loopwright.ir.loops import Alloc, LoopNest
from loopwright.ir.visit import statements

__all__ = ["Surroundings", "emit_region"]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What stands around a region and has a name there."""

    arrays: Mapping[str, str]  # buffers of the nest -> arrays and variables of C
    integers: Mapping[str, tuple[str, DType]]  # of the nest -> integer variables of C
    memory: Mapping[str, tuple[str, tuple[Expr, ...]]] = field(default_factory=dict)  # local arrays
    # of the nest -> arrays declared there, and their extents
    names: Mapping[str, str] = field(default_factory=dict)  # loops, locals -> the user's names
    words: frozenset[str] = frozenset()  # names that occur somewhere in the file
    margin: str = ""  # white space before each line
    after: tuple[tuple[str, Expr], ...] = ()  # variables of C and their values behind the region


def emit_region(
    nest: LoopNest, dialect: Dialect, around: Surroundings, origin: Origin | None = None
) -> str:
    """The lines of a nest: one block, so that it may stand wherever a statement may.

    Arrays are subscripted as the user declared them. What C has no operator for becomes a macro
    that is undefined again at the end of the block.
    """
    taken = set(around.arrays.values())
    taken |= {name for table in (around.integers, around.memory) for name, _ in table.values()}
    names = Names(taken, around.words)
    printer = Printer(dialect, names, from_c=True, margin=around.margin + INDENT, origin=origin)
    printer.wishes = dict(around.names)
    for name, (text, dtype) in around.integers.items():
        printer.spelling[name] = _integer(text, dtype)
        printer.ranges[name] = limits(dtype)
    for stmt in statements(nest.body):
        if isinstance(stmt, Alloc) and stmt.buffer.name in around.memory:
            name, extents = around.memory[stmt.buffer.name]
            # Steps may have given a local array more dimensions: then it needs other memory.
            if stmt.shape == extents:
                printer.kept[stmt.buffer.name] = Place(name, stmt.buffer.dtype, None)
    for buffer in nest.buffers:
        if buffer.name not in around.arrays:
            raise InternalError(f"array {buffer.name} has no name in C")
        printer.places[buffer.name] = Place(around.arrays[buffer.name], buffer.dtype, None)
    printer.nest(nest)
    for name, value in around.after:
        printer.lines.add(f"{name} = {printer.index(value)};")
    clash = around.words & printer.helpers.keys()
    if clash:
        hint = "other names: those that begin with lw_ are given to code that is generated"
        raise UsageError("the file uses names of ours", ", ".join(sorted(clash)), hint)
    defined = "".join(used.macro() for used in printer.helpers.values())
    undefined = "".join(f"#undef {name}\n" for name in printer.helpers)
    inner = around.margin + INDENT
    types = "".join(f"{inner}{line}" for line in printer.vectors.values())
    return f"{around.margin}{{\n{defined}{types}{printer.lines}{undefined}{around.margin}}}\n"


def _integer(name: str, dtype: DType) -> Code:
    """A variable of C as an index: unsigned ones would draw others into their arithmetic."""
    if dtype.kind == "u" and dtype.bits >= 32:
        return Code(f"({INDEX}){name}", UNARY, Width.LONG)
    return Code(name, ATOM, Width.LONG if dtype.bits == 64 else Width.INT)
