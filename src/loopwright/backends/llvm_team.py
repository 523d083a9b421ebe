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

from loopwright.ir import team
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

__all__ = ["TEAM_FUNCTIONS", "can_claim", "is_for_teams"]

# The team's functions are those of the thread pool; a thread that is alone needs none of them.
TEAM_FUNCTIONS = f"""
define internal void @lw_barrier(ptr %team, i64 %thread) noinline {{
entry:
  %threads = load i64, ptr %team, align 8
  %alone = icmp eq i64 %threads, 1
  br i1 %alone, label %done, label %arrive
arrive:
  %at = getelementptr i64, ptr %team, i64 {team.BARRIER}
  %barrier = load ptr, ptr %at, align 8
  call void %barrier(ptr %team, i64 %thread)
  br label %done
done:
  ret void
}}

define internal void @lw_meet(ptr %team, i64 %thread) noinline {{
entry:
  %threads = load i64, ptr %team, align 8
  %alone = icmp eq i64 %threads, 1
  br i1 %alone, label %done, label %arrive
arrive:
  %at = getelementptr i64, ptr %team, i64 {team.MEET}
  %meet = load ptr, ptr %at, align 8
  call void %meet(ptr %team, i64 %thread)
  br label %done
done:
  ret void
}}

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
        if _is_parallel(stmt) and not all(_is_made_here(stmt, name) for name in lasting):
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
    """`stmt` and what stands below it, but not in parallel loops."""
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
    """The expressions of a statement that decide where a thread goes or which element it meets."""
    if not isinstance(stmt, Store):
        yield from expressions(stmt)
        return
    yield from stmt.index
    for load in loads(stmt.value):
        yield from load.index


def _is_made_here(loop: Stmt, name: str) -> bool:
    """Whether a parallel loop fills a buffer of its thread before it reads it, or only reads it."""
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
