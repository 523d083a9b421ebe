"""Readable text for every noun of `ir`: what golden tests, dumps and error messages show.

Nouns have no `__str__`: this file imports them, so they cannot import it. Write `text(x)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from loopwright.ir.contraction import ACCUMULATOR, Contraction, LoopRange
from loopwright.ir.dtypes import DType
from loopwright.ir.expr import (
    BINARY_OPS,
    COMPARISONS,
    UNARY_OPS,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Unary,
    Var,
)
from loopwright.ir.islkit import inside
from loopwright.ir.kernel_variant import Algorithm, Packing
from loopwright.ir.loops import (
    Alloc,
    Barrier,
    BarrierScope,
    Block,
    Buffer,
    Commit,
    Copy,
    For,
    If,
    LabelledBlock,
    Leave,
    Let,
    LoopNest,
    Mark,
    MeshBroadcast,
    MeshMessage,
    Prefetch,
    Stmt,
    Store,
    Wait,
    WarpMma,
)
from loopwright.ir.program import (
    Access,
    Array,
    DeclaredReduction,
    Program,
    Statement,
    apply_operator,
)
from loopwright.ir.schedule import Schedule, ScheduledContraction
from loopwright.ir.schedule_tree import tree_lines

__all__ = [
    "access_text",
    "contraction_text",
    "expr_text",
    "nest_text",
    "program_text",
    "schedule_text",
    "statement_text",
    "stmt_text",
    "text",
]

INDENT = "    "

# How tightly an operator binds, as in Python; a higher number binds more.
_SELECT, _COMPARE, _SHIFT, _SUM, _PRODUCT, _SIGN, _POWER, _ATOM = 1, 2, 6, 7, 8, 9, 10, 11
_BINDING: dict[str, int] = {
    **dict.fromkeys(COMPARISONS, _COMPARE),
    "or": 3,
    "xor": 4,
    "and": 5,
    "shl": _SHIFT,
    "shr": _SHIFT,
    "add": _SUM,
    "sub": _SUM,
    "mul": _PRODUCT,
    "div": _PRODUCT,
    "floordiv": _PRODUCT,
    "mod": _PRODUCT,
    "pow": _POWER,
}


def text(noun: Program | LoopNest | Schedule | Contraction | Statement | Expr) -> str:
    """The text of any noun."""
    match noun:
        case Program():
            return program_text(noun)
        case LoopNest():
            return nest_text(noun)
        case Schedule():
            return schedule_text(noun)
        case Contraction():
            return contraction_text(noun)
        case Statement():
            return statement_text(noun)
        case _:
            return expr_text(noun)


def expr_text(expr: Expr) -> str:
    """An expression as Python writes it, with as few parentheses as its meaning allows."""
    return _expr(expr)[0]


def access_text(access: Access | Load) -> str:
    """`A[i, j]`; an element of an array of rank 0 is `s[]`."""
    return _element(access.array, access.index)


def _element(name: str, index: tuple[Expr, ...]) -> str:
    return f"{name}[{', '.join(map(expr_text, index))}]"


def _expr(expr: Expr) -> tuple[str, int]:
    """The text of `expr` and how tightly its outermost operator binds."""
    match expr:
        case Const(value=value, dtype=dtype):
            return _number(value, dtype)
        case Var(name=name):
            return name, _ATOM
        case Load():
            return access_text(expr), _ATOM
        case Unary(op="neg" | "not" as op, x=x):
            return UNARY_OPS[op] + _within(x, _SIGN), _SIGN
        case Unary(op=op, x=x):
            return f"{op}({expr_text(x)})", _ATOM
        case Binary(op=op, x=x, y=y) if op in _BINDING:
            return _operation(op, x, y), _BINDING[op]
        case Binary(op=op, x=x, y=y):
            return f"{op}({expr_text(x)}, {expr_text(y)})", _ATOM
        case Select(cond=cond, x=x, y=y):
            first, then = _within(x, _SELECT + 1), _within(cond, _SELECT + 1)
            return f"{first} if {then} else {_within(y, _SELECT)}", _SELECT
        case Cast(x=x, dtype=dtype):
            return f"{dtype}({expr_text(x)})", _ATOM
        case Call(function=function, args=args):
            return f"{function}({', '.join(map(expr_text, args))})", _ATOM
        case _:
            assert_never(expr)


def _operation(op: str, x: Expr, y: Expr) -> str:
    binding = _BINDING[op]
    # Operators group to the left; comparisons would chain, and powers group to the right.
    left = _ATOM if op == "pow" else binding + 1 if op in COMPARISONS else binding
    right = _SIGN if op == "pow" else binding + 1
    return f"{_within(x, left)} {BINARY_OPS[op]} {_within(y, right)}"


def _within(expr: Expr, binding: int) -> str:
    """The text of `expr`, in parentheses when it binds less tightly than its place asks for."""
    shown, own = _expr(expr)
    return shown if own >= binding else f"({shown})"


def _number(value: complex, dtype: DType) -> tuple[str, int]:
    if dtype.is_complex:
        return repr(complex(value)), _ATOM
    shown = repr(float(value.real)) if dtype.is_float else repr(value)
    return shown, _SIGN if shown.startswith("-") else _ATOM


def program_text(program: Program) -> str:
    """Arrays, statements with their domains, and the order, in a form close to the source."""
    return "\n".join(_program_lines(program))


def _program_lines(program: Program) -> Iterator[str]:
    yield f"program {program.name}({', '.join(program.params)}):"
    if known := inside(program.context):
        yield f"{INDENT}where {known}"
    if program.reassoc:
        yield f"{INDENT}reassociation allowed"
    for array in program.arrays:
        yield INDENT + _array(array)
    for statement in program.statements:
        yield from _indented(statement_text(statement))
    yield f"{INDENT}order:"
    for line in tree_lines(program.schedule, {}):
        yield 2 * INDENT + line


def _array(array: Array) -> str:
    return f"{array.role.value} {array.name}: {array.dtype}{_list(array.shape)}"


def _list(items: tuple[Expr, ...]) -> str:
    return f"[{', '.join(map(expr_text, items))}]"


def statement_text(statement: Statement) -> str:
    """The domain, then the assignment."""
    what = f"{access_text(statement.write)} = {expr_text(statement.value)}"
    return f"{inside(statement.domain)}:\n{INDENT}{what}"


def schedule_text(schedule: Schedule) -> str:
    """The loops in execution order with their marks, then the contractions."""
    marks = {loop: _mark_word(schedule, loop, mark) for loop, mark in schedule.marks}
    lines = [f"schedule of {schedule.program.name}:"]
    if schedule.whole_contraction is None:
        lines += (INDENT + line for line in tree_lines(schedule.tree, marks))
    for contraction in schedule.contractions:
        lines += _indented(_kernel_text(contraction))
    lines += (f"{INDENT}{staged}" for staged in (*schedule.staged, *schedule.boxes))
    lines += (f"{INDENT}{joined}" for joined in schedule.joined)
    return "\n".join(lines)


def _mark_word(schedule: Schedule, loop: str, mark: Mark) -> str:
    factor, axis = dict(schedule.factors).get(loop), schedule.axis(loop)
    word = mark.value if factor is None else f"{mark.value}({factor})"
    return word if axis is None else f"{word} {axis.value}"


def _kernel_text(scheduled: ScheduledContraction) -> str:
    """The loops of the kernel that runs a contraction, its decisions, and what it computes."""
    head = f"kernel of {', '.join(scheduled.statements)}"
    if scheduled.grid is not None:
        loops = f"the loops {', '.join(scheduled.loops)}" if scheduled.loops else "all loops"
        return f"{head} in place of {loops}: {scheduled.grid}"
    if scheduled.loops:
        head += f" in place of the loops {', '.join(scheduled.loops)}"
    lines = [f"{head}:", *_indented(_kernel_loops(scheduled))]
    lines += (f"{INDENT}{variant}" for variant in dict.fromkeys(scheduled.variants))
    if isinstance(scheduled.contraction, Contraction):
        lines += _indented(contraction_text(scheduled.contraction))
    return "\n".join(lines)


def _kernel_loops(scheduled: ScheduledContraction) -> str:
    """The loops over blocks and register tiles, outermost first."""
    variant, (mc, nc, kc) = scheduled.variants[0], scheduled.blocks
    shared = {variant.parallel: "parallel "} if scheduled.shares == 1 else {"j": "parallel "}
    rows, columns = variant.rows, variant.columns

    def loop(bundle: str, text: str) -> str:
        return f"{shared.get(bundle, '')}for {text}:"

    nest = [] if scheduled.loops else [loop("batch", "every element of the batch loops")]
    match variant.algorithm:
        case Algorithm.PRODUCT:
            nest += [
                loop("j", f"j in blocks of {nc}"),
                f"for p in blocks of {kc}:{_packs('right', variant.right_packing)}",
                f"{loop('i', f'i in blocks of {mc}')}{_packs('left', variant.left_packing)}",
                f"for j in tiles of {columns}:",
                f"for i in tiles of {rows}:",
                f"for p by {variant.unroll * variant.group}: {rows} x {columns} sums in registers",
            ]
        case Algorithm.ROWS:
            nest += [
                loop("i", f"i by {rows}"),
                f"for p by {columns * variant.unroll}: {rows} x {columns} partial sums",
            ]
        case Algorithm.COLUMNS:
            nest += [loop("j", f"j in blocks of {nc}"), f"for p by {rows}:", f"for j by {columns}"]
        case Algorithm.ELEMENTS:
            nest += [f"for the nearest loop by {columns}"]
    return "\n".join(INDENT * depth + line for depth, line in enumerate(nest))


def _packs(side: str, packing: Packing) -> str:
    return "" if packing is Packing.DIRECT else f" pack {side}"


def contraction_text(contraction: Contraction) -> str:
    """The bundles and the generalised product they span."""
    c = contraction
    factors = (c.left.value,) if c.right is None else (c.left.value, c.right.value)
    sum_ = DeclaredReduction(c.plus, c.times, c.zero, factors, c.scale)
    update = apply_operator(c.plus, Var(ACCUMULATOR, c.dtype), sum_.term)
    order = f" over p in {'any' if c.reassoc else 'this'} order" if c.p else ""
    lines = [f"contraction {c.statement} in {c.dtype}:"]
    for word, bundle in (("batch", c.batch), ("i", c.i), ("j", c.j), ("p", c.p)):
        if bundle:
            lines.append(f"{INDENT}{word}: {', '.join(map(_range, bundle))}")
    lines.append(f"{INDENT}{ACCUMULATOR} = {expr_text(c.initial)}")
    lines.append(f"{INDENT}{ACCUMULATOR} = {expr_text(update)}{order}")
    lines.append(f"{INDENT}{access_text(c.out)} = {expr_text(c.final)}")
    if c.covers != (c.statement,):
        lines.append(f"{INDENT}replaces {', '.join(c.covers)}")
    return "\n".join(lines)


def _range(loop: LoopRange) -> str:
    return f"{loop.name} in {_bounds(loop.start, loop.stop, Const(1))}"


def _bounds(start: Expr, stop: Expr, step: Expr) -> str:
    """`range(...)` with Python's defaults left out."""
    if step != Const(1):
        return f"range({expr_text(start)}, {expr_text(stop)}, {expr_text(step)})"
    if start != Const(0):
        return f"range({expr_text(start)}, {expr_text(stop)})"
    return f"range({expr_text(stop)})"


def nest_text(nest: LoopNest) -> str:
    """The arguments and the loops, indented as Python does."""
    lines = [f"nest {nest.name}({', '.join(nest.scalars)}):"]
    lines += (INDENT + _argument(buffer) for buffer in nest.buffers)
    lines += (INDENT + line for line in _stmt_lines(nest.body))
    return "\n".join(lines)


def stmt_text(stmt: Stmt) -> str:
    """A statement of a loop nest."""
    return "\n".join(_stmt_lines(stmt))


def _argument(buffer: Buffer) -> str:
    role = "inout" if buffer.writable else "in"
    return f"{role} {buffer.name}: {buffer.dtype} strides {_list(buffer.strides)}"


def _stmt_lines(stmt: Stmt) -> Iterator[str]:
    match stmt:
        case Block(body=()):
            yield "pass"
        case Block(body=body):
            for child in body:
                yield from _stmt_lines(child)
        case For(var=var, body=inner, mark=mark):
            word = "" if mark is Mark.SERIAL else f"{mark.value} "
            if stmt.axis is not None:
                word += f"{stmt.axis.value} "
            ends = "" if stmt.until is None else f" until {expr_text(stmt.until)}"
            if stmt.interrupt is not None:
                ends += f" or interrupt leaves {stmt.interrupt.scope}"
            yield f"{word}for {var} in {_bounds(stmt.start, stmt.stop, stmt.step)}{ends}:"
            yield from _body(inner)
        case If(cond=cond, body=inner, orelse=orelse):
            yield f"if {expr_text(cond)}:"
            yield from _body(inner)
            if orelse is not None:
                yield "else:"
                yield from _body(orelse)
        case LabelledBlock(name=name, body=inner):
            yield f"scope {name}:"
            yield from _body(inner)
        case Leave(name=name):
            yield f"leave {name}"
        case Let(name=name, value=value, body=inner):
            # Printed flat, else chains of bindings drift to the right; names are unique in scope.
            word = "let anew" if stmt.is_anew else "let"
            most = f" for {stmt.parts} parts" if stmt.parts else ""
            yield f"{word} {name}: {value.dtype} = {expr_text(value)}{most}"
            yield from _stmt_lines(inner)
        case Alloc(buffer=buffer, shape=shape, body=inner):
            size = f"{buffer.dtype}{_list(shape)} strides {_list(buffer.strides)}"
            yield f"alloc {buffer.space.value} {buffer.name}: {size}"
            yield from _stmt_lines(inner)
        case Store(buffer=name, index=index, value=value):
            way = "atomically " if stmt.is_atomic else ""
            yield f"{way}{_element(name, index)} = {expr_text(value)}"
        case Copy(target=target, source=source, shape=shape):
            to, origin = _element(target, stmt.target_start), _element(source, stmt.source_start)
            way = "async copy" if stmt.is_async else "copy"
            by = f" by {stmt.width}" if stmt.width > 1 else ""
            late = ", after puts" if stmt.after_puts else ", lands" if stmt.lands else ""
            yield f"{way} {_list(shape)}{by} to {to} from {origin}{late}"
        case MeshBroadcast(target=target, source=source, shape=shape, axis=axis):
            to, origin = _element(target, stmt.target_start), _element(source, stmt.source_start)
            root = expr_text(stmt.root)
            way = f"{'give' if stmt.is_kept else 'broadcast'} {_list(shape)} along the {axis.value}"
            yield f"{way} to {to} from {origin} of {root}"
        case MeshMessage(buffer=name, start=start, shape=shape):
            way = "hand on {} from" if stmt.is_sent else "take over {} to"
            yield f"{way.format(_list(shape))} {_element(name, start)}"
        case Commit():
            yield "commit"
        case Wait(pending=pending):
            yield f"wait for all but {pending}" if pending else "wait"
        case Barrier(scope=scope):
            yield "barrier" if scope is BarrierScope.TEAM else f"barrier of the {scope.value}"
        case WarpMma(sums=sums, left=left, right=right):
            factors = f"{_element(left, stmt.left_start)} * {_element(right, stmt.right_start)}"
            yield f"warp mma {_element(sums, stmt.sums_start)} += {factors}"
        case Prefetch(buffer=name, index=index, write=write, level=level):
            yield f"prefetch L{level} {'write ' if write else ''}{_element(name, index)}"
        case _:
            assert_never(stmt)


def _body(stmt: Stmt) -> Iterator[str]:
    for line in _stmt_lines(stmt):
        yield INDENT + line


def _indented(block: str) -> list[str]:
    return [INDENT + line for line in block.split("\n")]
