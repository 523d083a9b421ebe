"""How emitted code uses the thread team (see ir/team): whether threads may claim their work.

Where they may, any thread takes any piece of a parallel loop, and a thread that comes late runs
through what the others have finished already. It then reads shared memory that later parts of the
kernel may have overwritten, or are overwriting. That does no harm as long as it

  - goes the same way: outside parallel loops, loads decide on no branch, bound or subscript, but
    for those of arrays that nobody writes;
  - writes nothing that others see: outside parallel loops, it stores to its own memory only;
  - uses nothing of what it so made: values that it makes for itself between two barriers are
    right whenever it gets a piece between the same two, because the memory they came from is
    overwritten only after all pieces there are done. So they must not outlast the next barrier, and
    a piece must not use what its thread has kept from another one.

Other kernels have fixed shares: thread t of T takes the iterations from ceil(trips * t / T) on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from loopwright.backends.llvm.llvm_builder import FunctionBuilder, SSAValue
from loopwright.ir import team
from loopwright.ir.dtypes import INT64
from loopwright.ir.expr import Expr
from loopwright.ir.loops import (
    Alloc,
    Barrier,
    Block,
    Copy,
    For,
    If,
    Let,
    LoopNest,
    Mark,
    Space,
    Stmt,
    Store,
)
from loopwright.ir.visit import expressions, loads, statements

__all__ = ["TEAM_FUNCTIONS", "can_claim", "claimed_pieces", "fixed_share", "is_for_teams"]


def _waiting_function(name: str, word: int) -> str:
    """LLVM text of a function that waits by calling word `word` of the team; one thread returns."""
    return f"""
define internal void @{name}(ptr %team, i64 %thread) noinline {{
entry:
  %threads = load i64, ptr %team, align 8
  %alone = icmp eq i64 %threads, 1
  br i1 %alone, label %done, label %arrive
arrive:
  %at = getelementptr i64, ptr %team, i64 {word}
  %{name.removeprefix("lw_")} = load ptr, ptr %at, align 8
  call void %{name.removeprefix("lw_")}(ptr %team, i64 %thread)
  br label %done
done:
  ret void
}}
"""


# The team's functions are those of the thread pool; a thread that is alone needs none of them.
_CLAIMING = f"""
; Pieces per thread of a parallel loop; a thread that is alone takes the loop in one piece.
define internal i64 @lw_pieces(ptr %team, i64 %trips) noinline {{
entry:
  %threads = load i64, ptr %team, align 8
  %alone = icmp eq i64 %threads, 1
  %most = select i1 %alone, i64 1, i64 {team.PIECES_PER_THREAD}
  %less = sub i64 %threads, 1
  %rounded = add i64 %trips, %less
  %each = sdiv i64 %rounded, %threads
  %many = icmp sgt i64 %each, %most
  %some = select i1 %many, i64 %most, i64 %each
  %none = icmp sle i64 %trips, 0
  %count = select i1 %none, i64 0, i64 %some
  ret i64 %count
}}

define internal i64 @lw_claim(ptr %team, i64 %thread, i64 %count, i64 %last) noinline {{
entry:
  %threads = load i64, ptr %team, align 8
  %alone = icmp eq i64 %threads, 1
  br i1 %alone, label %next, label %claim
next:
  %following = add i64 %last, 1
  ret i64 %following
claim:
  %at = getelementptr i64, ptr %team, i64 {team.CLAIM}
  %function = load ptr, ptr %at, align 8
  %piece = call i64 %function(ptr %team, i64 %thread, i64 %count, i64 %last)
  ret i64 %piece
}}
"""
TEAM_FUNCTIONS = (
    _waiting_function("lw_barrier", team.BARRIER)
    + _waiting_function("lw_meet", team.MEET)
    + _CLAIMING
)


def is_for_teams(nest: LoopNest) -> bool:
    """Whether a nest has parallel loops or barriers."""
    return any(isinstance(s, Barrier) or _is_parallel(s) for s in statements(nest.body))


def can_claim(nest: LoopNest) -> bool:
    """Whether threads may claim the pieces of the parallel loops of a nest."""
    fixed = {buffer.name for buffer in nest.buffers if not buffer.writable}
    allocated = [s for s in statements(nest.body) if isinstance(s, Alloc)]
    own = {s.buffer.name for s in allocated if s.buffer.space not in (Space.SCRATCH, Space.SHARED)}
    outer = list(_outside(nest.body))
    lasting = {
        s.buffer.name
        for s in outer
        if isinstance(s, Alloc) and s.buffer.name in own and any(map(_is_parallel, _outside(s)))
    }
    for stmt in outer:
        if _is_parallel(stmt) and not all(_is_defined_inside(stmt, name) for name in lasting):
            return False
        deciding = _deciding(stmt)
        if not all(load.array in fixed for expr in deciding for load in loads(expr)):
            return False
        match stmt:
            case Store(buffer=name, value=value):
                read = {load.array for load in loads(value)}
                if name not in own or read & lasting:
                    return False
            case Copy(target=target, source=source):
                if target not in own or source in lasting:
                    return False
    return True


def _is_parallel(stmt: Stmt) -> bool:
    return isinstance(stmt, For) and stmt.mark is Mark.PARALLEL


def _outside(stmt: Stmt) -> Iterator[Stmt]:
    """`stmt` and the statements inside it, without those of parallel loops."""
    yield stmt
    match stmt:
        case For(mark=Mark.PARALLEL):
            return
        case For(body=inner) | Let(body=inner) | Alloc(body=inner):
            yield from _outside(inner)
        case If(body=inner, orelse=orelse):
            yield from _outside(inner)
            if orelse is not None:
                yield from _outside(orelse)
        case Block(body=body):
            for child in body:
                yield from _outside(child)


def _deciding(stmt: Stmt) -> Iterator[Expr]:
    """The expressions of a statement that determine control flow or which element is accessed."""
    if not isinstance(stmt, Store):
        yield from expressions(stmt)
        return
    yield from stmt.index
    for load in loads(stmt.value):
        yield from load.index


def _is_defined_inside(loop: Stmt, name: str) -> bool:
    """Whether a parallel loop writes a private buffer before reading it, or only reads it."""
    is_read = False
    for stmt in statements(loop):
        used: set[str] = {load.array for expr in expressions(stmt) for load in loads(expr)}
        if isinstance(stmt, Copy):
            used.add(stmt.source)
        is_read = is_read or name in used
        match stmt:
            case Store(buffer=target) | Copy(target=target) if target == name:
                return not is_read
    return True


# -- the iterations of a parallel loop that a thread runs ------------------------------------------

Bounds = tuple[SSAValue, SSAValue, SSAValue]  # start, stop, step


def fixed_share(code: FunctionBuilder, bounds: Bounds) -> tuple[SSAValue, SSAValue]:
    """The iterations of this thread where every thread has a fixed share: start and stop."""
    threads = code.emit("load i64, ptr %team, align 8")
    return _part(code, bounds, _trip_count(code, bounds), "%thread", threads)


@contextmanager
def claimed_pieces(code: FunctionBuilder, bounds: Bounds) -> Iterator[tuple[SSAValue, SSAValue]]:
    """A loop over the pieces that this thread claims; inside, start and stop of one piece."""
    trips = _trip_count(code, bounds)
    count = code.emit(f"call i64 @lw_pieces(ptr %team, i64 {trips})")
    pieces = code.emit(f"mul nsw i64 {count}, {code.emit('load i64, ptr %team, align 8')}")
    head, body, done = (code.label(x) for x in ("claim.", "piece.", "claimed."))
    entered = code.block
    code.branch(head)
    code.start(head)
    last, piece = code.name("last."), code.name("piece.")
    phi_line = len(code.lines)
    code.lines.append("")
    code.effect(f"{piece} = call i64 @lw_claim(ptr %team, i64 %thread, i64 {count}, i64 {last})")
    more = code.emit(f"icmp slt i64 {piece}, {pieces}")
    code.effect(f"br i1 {more}, label %{body}, label %{done}")
    code.start(body)
    with code.scope():
        yield _part(code, bounds, trips, piece, pieces)
    code.lines[phi_line] = f"  {last} = phi i64 [ -1, %{entered} ], [ {piece}, %{code.block} ]"
    code.branch(head)
    code.start(done)


def _trip_count(code: FunctionBuilder, bounds: Bounds) -> str:
    """How many iterations a loop has; zero or less where it has none."""
    start, stop, step = bounds
    span = code.emit(f"sub nsw i64 {stop.text}, {start.text}")
    rounded = code.emit(f"add nsw i64 {span}, {step.text}")
    less = code.emit(f"sub nsw i64 {rounded}, 1")
    return code.emit(f"sdiv i64 {less}, {step.text}")


def _part(
    code: FunctionBuilder, bounds: Bounds, trips: str, number: str, parts: str
) -> tuple[SSAValue, SSAValue]:
    """Part `number` of the iterations, from ceil(trips * number / parts) on: start and stop."""
    start, stop, step = bounds

    def edge(part: str, spare: str) -> str:
        scaled = code.emit(f"mul nsw i64 {trips}, {part}")
        above = code.emit(f"add nsw i64 {scaled}, {spare}")
        first = code.emit(f"sdiv i64 {above}, {parts}")
        distance = code.emit(f"mul nsw i64 {first}, {step.text}")
        return code.emit(f"add nsw i64 {start.text}, {distance}")

    spare = code.emit(f"sub nsw i64 {parts}, 1")
    low, high = edge(number, spare), edge(code.emit(f"add nsw i64 {number}, 1"), spare)
    nearer = code.call("i64", "llvm.smin.i64", SSAValue(high, INT64), stop)
    return SSAValue(low, INT64), SSAValue(nearer, INT64)
