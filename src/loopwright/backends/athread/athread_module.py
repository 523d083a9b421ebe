"""Programs for a mesh as files of C for Athread: header, functions of the host and of the cores.

    void lw_prog_f_0(long long n, double alpha, const void *A, void *C)     on the host
    void lw_prog_f_0_cores(void *arguments)                                 on every compute core

The host fills one block of arguments, starts all cores, and waits for them. Where there is little
work, and under LW_NO_ATHREAD, it runs the loops in source order itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from loopwright.backends.athread.athread_broadcast import BROADCAST_PART
from loopwright.backends.athread.athread_messages import MESSAGE_PART
from loopwright.backends.athread.athread_profile import (
    CORE_TIMES,
    HOST_TIMES,
    TIMES_FIELD,
    profile_function,
)
from loopwright.backends.athread.athread_text import HEADER_END, HEADER_START, SLAVE_PART
from loopwright.backends.athread.athread_vectors import VECTOR_PART
from loopwright.backends.c_text.c_dialect import ATHREAD, C
from loopwright.backends.c_text.c_expression_printer import CExpressions, NamedBuffer
from loopwright.backends.c_text.c_module import print_function
from loopwright.backends.c_text.c_printer import CPrinter, Origin
from loopwright.backends.c_text.c_syntax import (
    ATOM,
    INDENT,
    CText,
    IndentedText,
    NamesInUse,
    Width,
    as_identifier,
    c_type,
)
from loopwright.backends.device_text.device_host import HostFunction, parameter_types
from loopwright.diagnostics import UsageError
from loopwright.ir.device import is_by_value
from loopwright.ir.expr import Const, Expr
from loopwright.ir.loops import (
    Alloc,
    Axis,
    Block,
    Buffer,
    Copy,
    For,
    LoopNest,
    Mark,
    MeshBroadcast,
    MeshMessage,
    Space,
    Stmt,
    Store,
)
from loopwright.ir.mesh_program import MeshProgram, scratchpad_need, scratchpad_part
from loopwright.ir.visit import statements
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "MeshFunction",
    "emit_header",
    "emit_master",
    "emit_slave",
    "require_scratchpad",
    "scratchpad_report",
]

_WORDS = tuple(
    """athread_get athread_put athread_syn athread_spawn athread_join athread_init athread_halt
    dma_wait PE_MODE ARRAY_SCOPE slave lw_boxes lw_row lw_column lw_id lw_a lw_p lw_argument lw_work
    lw_times lw_region lw_from lw_now lw_clock lw_count
    """.split()  # noqa: SIM905, a list of words is easier to read so
)
_FAR = "1L << 40"  # the row of cores that take no part: their loops have no iteration


@dataclass(frozen=True, slots=True)
class MeshFunction:
    """A program for a mesh, and the function of C that runs it."""

    host: HostFunction  # its name, arguments and place in the source; it has no kernels
    program: MeshProgram
    source: LoopNest  # the same loops in source order, for the host
    shapes: dict[str, tuple[Expr, ...]]  # of the arrays of `source`
    # For each statement the extents of a box around its instances, over the parameters.
    work: tuple[tuple[Expr, ...], ...]
    least_work: int  # instances for which cores are started
    origin: Origin

    @property
    def cores(self) -> str:
        """The function that every core runs."""
        return f"{self.host.name}_cores"

    @property
    def block(self) -> str:
        """The structure of its arguments."""
        return f"{self.host.name}_arguments"


def scratchpad_report(function: MeshFunction) -> list[str]:
    """Who takes the scratchpad, in lines."""
    program = function.program
    need = scratchpad_need(program.body)
    lines = [f"{program.rows} x {program.columns} cores, {need} bytes of LDM for boxes"]
    read = {s.target for s in statements(program.body) if isinstance(s, Copy)}
    put = {s.source for s in statements(program.body) if isinstance(s, Copy)}
    handed = {s.buffer for s in statements(program.body) if isinstance(s, MeshMessage)}
    for stmt in statements(program.body):
        if isinstance(stmt, Alloc) and stmt.buffer.space is Space.SCRATCHPAD:
            name = stmt.buffer.name
            shape = " x ".join(str(int(x.value.real)) for x in stmt.shape if isinstance(x, Const))
            ways = [word for word, names in (("in", read), ("out", put)) if name in names]
            ways = ["from core to core"] if name in handed else ways
            size = scratchpad_part(stmt)
            lines.append(
                f"  {name}: {shape} {c_type(stmt.buffer.dtype)}, {size} bytes, {' and '.join(ways)}"
            )
    return lines


def emit_header(functions: Sequence[MeshFunction], guard: str) -> str:
    """The header that both sides include: blocks of arguments, functions of the cores."""
    parts = [HEADER_START.replace("@GUARD@", guard), CORE_TIMES]
    for function in functions:
        lines = IndentedText()
        lines.add(f"struct {function.block} {{")
        lines.indent()
        for kind, name in _fields(function):
            lines.add(f"{kind}{name};")
        for line in TIMES_FIELD:
            lines.add(line)
        lines.dedent()
        lines.add("};")
        parts.append(str(lines))
    parts.append(SLAVE_PART)
    if any(_is_shared(function) for function in functions):
        parts.append(BROADCAST_PART)
    if any(_has_messages(function) for function in functions):
        parts.append(MESSAGE_PART)
    if any(_has_vectors(function) for function in functions):
        parts.append(VECTOR_PART)
    return "\n".join([*parts, HEADER_END])


def _is_shared(function: MeshFunction) -> bool:
    """Whether cores give boxes to others of their row or column."""
    return any(isinstance(stmt, MeshBroadcast) for stmt in statements(function.program.body))


def _has_messages(function: MeshFunction) -> bool:
    """Whether cores hand boxes on to the next one of a circle."""
    return any(isinstance(stmt, MeshMessage) for stmt in statements(function.program.body))


def _has_vectors(function: MeshFunction) -> bool:
    loops = (stmt for stmt in statements(function.program.body) if isinstance(stmt, For))
    return any(loop.mark is Mark.VECTOR for loop in loops)


def _fields(function: MeshFunction) -> list[tuple[str, str]]:
    """Type and name of every argument of the cores."""
    program = function.program
    names = NamesInUse(_WORDS)
    found = [("long ", names.declare(scalar, is_own=False)) for scalar in program.scalars]
    for buffer in (*program.buffers, *(memory for memory, _ in program.memory)):
        name = names.declare(buffer.name, is_own=False)
        kind = c_type(buffer.dtype)
        if is_by_value(buffer):
            found.append((f"{kind} ", name))
        else:
            is_written = buffer.writable or buffer.space is Space.SCRATCH
            found.append((f"{'' if is_written else 'const '}{kind} *", name))
    return found


# -- cores ----------------------------------------------------------------------------------------


def emit_slave(functions: Sequence[MeshFunction], header: str) -> str:
    """The file of the cores' functions."""
    helpers: dict[str, str] = {}
    bodies: list[str] = []
    need = max(scratchpad_need(function.program.body) for function in functions)
    for function in functions:
        used, text = _core_functions(function)
        helpers |= used
        bodies.append(text)
    ldm = (
        f'#define LW_SLAVE\n#include "{header}"\n\n'
        "/* Boxes of arrays, those of one loop behind those of the loops around it. */\n"
        f"static __thread_local char lw_boxes[{max(need, 4)}] __attribute__((aligned(128)));\n"
    )
    return "\n".join([ldm, *helpers.values(), *bodies])


def _core_functions(function: MeshFunction) -> tuple[dict[str, str], str]:
    """What the cores run, and the functions that it needs: phases, then the one that is started."""
    program = function.program
    body = program.body
    children = body.body if isinstance(body, Block) and phases_apart(body) else (body,)
    places = phases_apart(body)
    names = {at: f"{function.cores}_{at}" for at in places}
    helpers: dict[str, str] = {}

    def printed(parts: Sequence[Stmt | str], place: str, start: Sequence[str], end: str) -> str:
        """A function whose statements are parts of the region, or calls."""
        taken = NamesInUse([*names.values(), function.cores, *_WORDS])
        printer = CPrinter(ATHREAD, taken, from_c=True, origin=function.origin)
        declared = _arguments(function, printer, taken, place)
        printer.lines.indent()
        _declare_coordinates(program, printer, taken)
        for part in parts:
            if isinstance(part, str):
                printer.lines.add(part)
            else:
                arguments = (*program.buffers, *(memory for memory, _ in program.memory))
                printer.nest(LoopNest(program.name, arguments, program.scalars, part))
        if end:
            printer.lines.add(end)
        printer.lines.dedent()
        printer.lines.add("}")
        used = {n: one.function() for n, one in printer.expressions.helpers.items()}
        helpers.update(used)
        text = str(printer.lines)
        words = frozenset(re.findall(r"\w+", text)) if places else frozenset()
        head = IndentedText(INDENT)
        for line in start:
            head.add(line)
        for name, line in declared:
            # A region that is one function has all arguments.
            if not places or name in words:
                head.add(line)
        return f"{{\n{head}{text}"

    made: list[str] = []
    for at, name in names.items():
        what = f"static __attribute__((noinline)) void {name}(const struct {function.block} *lw_p)"
        made.append(f"{what}\n{printed([children[at]], 'lw_p->', (), '')}")
    parts = [f"{names[at]}(&lw_a);" if at in names else s for at, s in enumerate(children)]
    first, *others = scratchpad_report(function)
    report = [f"/* {function.host.place}: {first}", *(f" * {line}" for line in others), " */"]
    start = (
        f"static __thread_local struct {function.block} lw_a;",
        "lw_get(&lw_a, lw_argument, 1, sizeof lw_a, 0);",
        "LW_BEGIN_TIMES();",
    )
    text = printed(parts, "lw_a.", start, "LW_END_TIMES();")
    comment = IndentedText()
    for line in report:
        comment.add(line)
    made.append(f"{comment}void {function.cores}(void *lw_argument)\n{text}")
    return helpers, "\n".join(made)


def phases_apart(body: Stmt) -> tuple[int, ...]:
    """Which statements of a region have functions of their own: several that use registers.

    Compilers keep what finds no register on the stack, and stacks of functions that are called one
    after another take the same bytes of a scratchpad; those of loops in one function need not.
    """
    if not isinstance(body, Block):
        return ()
    found = tuple(
        at
        for at, child in enumerate(body.body)
        if any(isinstance(s, Alloc) and s.buffer.space is Space.REGISTER for s in statements(child))
    )
    return found if len(found) > 1 else ()


def _arguments(
    function: MeshFunction, printer: CPrinter, taken: NamesInUse, place: str
) -> list[tuple[str, str]]:
    """The arguments of the cores: names and declarations, which the printer knows from now on."""
    program, expressions = function.program, printer.expressions
    found: list[tuple[str, str]] = []
    fields = iter(_fields(function))
    for scalar in program.scalars:
        _, field = next(fields)
        name = taken.declare(scalar, is_own=False)
        expressions.spelling[scalar] = CText(name, ATOM, Width.LONG)
        found.append((name, f"const long {name} = {place}{field};"))
    for buffer in (*program.buffers, *(memory for memory, _ in program.memory)):
        kind, field = next(fields)
        name = taken.declare(buffer.name, is_own=False)
        is_value = is_by_value(buffer)
        words = f"{'const ' if is_value else ''}{kind}{'' if is_value else 'const '}"
        found.append((name, f"{words}{name} = {place}{field};"))
        expressions.buffers[buffer.name] = NamedBuffer(
            name, buffer.dtype, None if is_value else buffer.strides
        )
    return found


def _declare_coordinates(program: MeshProgram, printer: CPrinter, taken: NamesInUse) -> None:
    rows, columns = program.rows, program.columns
    printer.lines.add("const int lw_id = lw_core();")
    row, column = f"lw_id / {columns}", f"lw_id % {columns}"
    if rows * columns < 64:
        # Other cores come to all barriers, and have nothing to do between them.
        row = f"lw_id < {rows * columns} ? {row} : {_FAR}"
    for axis, name, value in ((Axis.ROW, "lw_row", row), (Axis.COLUMN, "lw_column", column)):
        variable = f"{Mark.THREAD.value}.{axis.value}"
        printer.lines.add(f"const long {name} = {value};")
        printer.lines.add(f"(void){name};")
        printer.expressions.spelling[variable] = CText(name, ATOM, Width.LONG)
        printer.expressions.ranges[variable] = (0, (1 << 41) - 1)


# -- the host -------------------------------------------------------------------------------------

_MASTER = """#include <stdlib.h>
#include "@HEADER@"
#ifndef LW_NO_ATHREAD
#include <athread.h>

static void lw_halt(void)
{
    athread_halt();
}

static void lw_start(void)
{
    static int is_started;
    if (!is_started) {
        athread_init();
        atexit(lw_halt);
        is_started = 1;
    }
}

@TIMES@
#endif
"""


def emit_master(functions: Sequence[MeshFunction], header: str) -> str:
    """The file of the host's functions."""
    printed = profile_function(as_identifier(header.removesuffix("_athread.h")))
    times = HOST_TIMES.replace("@PRINT@", printed)
    parts = [_MASTER.replace("@HEADER@", header).replace("@TIMES@\n", times)]
    least = min(function.least_work for function in functions)
    parts.append(
        f"#ifndef LW_LEAST_WORK /* instances of statements for which cores are started */\n"
        f"#define LW_LEAST_WORK {least}\n#endif\n"
    )
    helpers: dict[str, str] = {}
    bodies: list[str] = []
    for function in functions:
        nest = replace(function.source, name=f"{function.host.name}_on_host")
        printer = print_function(nest, C, function.shapes, function.origin, head="static void")
        expressions = CExpressions(C, from_c=True)
        text = _host_function(function, expressions)
        helpers |= printer.vectors.types
        for used in (printer.expressions.helpers, expressions.helpers):
            helpers |= {name: found.function() for name, found in used.items()}
        bodies.append(str(printer.lines))
        if _has_head(function):
            head = _head_function(function)
            helpers |= {name: found.function() for name, found in head.expressions.helpers.items()}
            bodies.append(str(head.lines))
        bodies.append(text)
    return "\n".join([*parts, *helpers.values(), *bodies])


def _has_head(function: MeshFunction) -> bool:
    """Whether the host does a part of the region before it starts the cores."""
    return any(isinstance(stmt, Store) for stmt in statements(function.program.before))


def _head_function(function: MeshFunction) -> CPrinter:
    """The function of what the host does before it starts the cores."""
    program = function.program
    arguments = (*program.buffers, *(memory for memory, _ in program.memory))
    name = f"{function.host.name}_before"
    nest = LoopNest(name, arguments, program.scalars, program.before)
    return print_function(nest, C, function.shapes, function.origin, head="static void")


def _host_function(function: MeshFunction, expressions: CExpressions) -> str:
    host, program = function.host, function.program
    lines = IndentedText()
    names = NamesInUse([host.name, *_WORDS])
    given = [names.declare(scalar, is_own=False) for scalar in host.given]
    for scalar, name in zip(host.given, given, strict=True):
        expressions.spelling[scalar] = CText(name, ATOM, Width.LONG)
    places = {b.name: names.declare(b.name, is_own=False) for b in program.buffers}
    types = parameter_types(host)
    parameters = [
        f"{kind}{'' if kind.endswith('*') else ' '}{name}"
        for kind, name in zip(types, (*given, *places.values()), strict=True)
    ]
    head = f"void {host.name}({', '.join(parameters) or 'void'})"
    lines.add(f"{head};")
    lines.add(f"{head} /* {host.place} */")
    lines.add("{")
    lines.indent()
    for scalar, value in host.computed.items():
        name = names.declare(scalar, is_own=False)
        lines.add(f"const long {name} = {expressions.index(value)};")
        expressions.spelling[scalar] = CText(name, ATOM, Width.LONG)
    scalars = [str(expressions.spelling[s].text) for s in program.scalars]
    lines.add("#ifndef LW_NO_ATHREAD")
    lines.add(f'LW_REGION("{host.place}");')
    lines.add(f"const double lw_work = {_work(function, expressions)};")
    lines.add("if (lw_work >= LW_LEAST_WORK) { /* else it takes longer to start cores */")
    lines.indent()
    _spawn(function, lines, expressions, scalars, places)
    lines.add("return;")
    lines.dedent()
    lines.add("}")
    lines.add("LW_NOT_STARTED();")
    lines.add("#endif")
    values = [f"&{places[b.name]}" if is_by_value(b) else places[b.name] for b in program.buffers]
    lines.add(f"{host.name}_on_host({', '.join([*scalars, *values])});")
    lines.dedent()
    lines.add("}")
    return str(lines)


def _spawn(
    function: MeshFunction,
    lines: IndentedText,
    expressions: CExpressions,
    scalars: Sequence[str],
    places: dict[str, str],
) -> None:
    program = function.program
    lines.add(f"extern void SLAVE_FUN({function.cores})(void *);")
    lines.add(f"struct {function.block} lw_a;")
    values = [*scalars, *places.values()]
    allocated = [
        f"malloc({_bytes(memory, shape, expressions)})" for memory, shape in program.memory
    ]
    fields = _fields(function)
    for (_, name), value in zip(fields, (*values, *allocated), strict=True):
        lines.add(f"lw_a.{name} = {value};")
    for (_, name), _ in zip(fields[len(values) :], allocated, strict=True):
        lines.add(f"if (!lw_a.{name})")
        lines.add("    abort();")
    if _has_head(function):
        own = [f"lw_a.{name}" for _, name in fields[len(values) :]]
        given = [
            f"&{places[b.name]}" if is_by_value(b) else places[b.name] for b in program.buffers
        ]
        lines.add(f"{function.host.name}_before({', '.join([*scalars, *given, *own])});")
    lines.add("lw_start();")
    lines.add("LW_BEGIN_TIMES();")
    lines.add(f"athread_spawn({function.cores}, &lw_a);")
    lines.add("athread_join();")
    lines.add("LW_END_TIMES();")
    for (_, name), _ in zip(fields[len(values) :], allocated, strict=True):
        lines.add(f"free(lw_a.{name});")


def _bytes(memory: Buffer, shape: tuple[Expr, ...], expressions: CExpressions) -> str:
    size: Expr = Const(memory.dtype.bytes)
    for extent in shape:
        size = size * extent.max(0)
    return str(expressions.index(size + 128))


def _work(function: MeshFunction, expressions: CExpressions) -> str:
    """Instances of all statements, about: boxes around them."""
    terms: list[str] = []
    for extents in function.work:
        factors = [f"(double)({expressions.index(extent.max(0))})" for extent in extents]
        terms.append(" * ".join(factors) or "1.0")
    return " + ".join(terms)


def require_scratchpad(function: MeshFunction, room: int, machine: str) -> None:
    """Refuse boxes that do not fit into the scratchpad."""
    need = scratchpad_need(function.program.body)
    if need > room:
        raise UsageError(
            f"{function.host.place}: the boxes of the region do not fit on {machine}",
            found=f"{need} bytes of LDM, of at most {room}",
            hint="a plan of smaller tiles",
        )
