"""Predictive commoning: reuse what one iteration stores and the next one loads, in a register.

A recurrence through memory waits for a store to be forwarded to a load, which takes as long as two
or three operations, in every iteration. LLVM finds such recurrences by itself where one row of an
array is in sight; of unrolled copies of an outer loop it cannot tell that their rows differ.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from loopwright.ir.expr import Const, Expr, Load, Var
from loopwright.ir.loops import (
    Alloc,
    Block,
    Buffer,
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
from loopwright.ir.visit import (
    expressions,
    fresh_name,
    loads,
    names,
    rebuild,
    rewrite,
    statements,
    substitute,
    unguarded_loads,
)
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.build import bound_names
from loopwright.lower.linear_forms import linear

__all__ = ["carry_chosen", "predictive_commoning"]

_MOST = 16  # elements that one loop carries; more would be spilled


def predictive_commoning(nest: LoopNest) -> LoopNest:
    """Carry elements from one iteration of a serial loop of straight-line code to the next.

    They are elements that every iteration loads.

        for j in range(s, n): p[i, j] = c / (a * p[i, j - 1] + b)
    ->  if s < n:
            alloc p_c; p_c = p[i, s - 1]
            for j in range(s, n): p_c = c / (a * p_c + b); p[i, j] = p_c
    """
    taken = bound_names(nest)

    def visit(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For) or stmt.mark is not Mark.SERIAL:
            return stmt
        found = _carried(stmt, is_guessed=False)
        return _with_registers(stmt, found, taken) if found else stmt

    return replace(nest, body=rebuild(nest.body, visit))


def carry_chosen(nest: LoopNest, may_guess: Expr | None) -> LoopNest:
    """Carry elements of loops that load some of them only where data choose so.

        for j in range(s, n): p[i, j] = 0 if wall[i, j] else p[i, j - 1] + 1
    ->  if s < n:
            alloc p_c; p_c = p[i, s - 1]
            for j in range(s, n): p_c = 0 if wall[i, j] else p_c + 1; p[i, j] = p_c

    The first one is loaded whatever the data are, where the condition `may_guess` holds, of
    parameters; compilers must not, and leave such elements in memory.
    """
    if may_guess is None:
        return nest
    taken = bound_names(nest)

    def visit(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For) or stmt.mark is not Mark.SERIAL:
            return stmt
        found = _carried(stmt, is_guessed=True)
        if len(found) == len(_carried(stmt, is_guessed=False)):
            return stmt
        carrying = _with_registers(stmt, found, taken)
        return carrying if isinstance(may_guess, Const) else If(may_guess, carrying, stmt)

    return replace(nest, body=rebuild(nest.body, visit))


@dataclass(frozen=True, slots=True)
class _Carried:
    """An element that a store writes and the next iteration loads."""

    element: Load  # with the subscripts of the iteration that loads it
    writer: int  # number of the store in the body that writes it
    is_read_late: bool  # also loaded after that store, which writes the next iteration's element


def _carried(loop: For, *, is_guessed: bool) -> list[_Carried]:
    """The elements that a loop may carry; none where its body is not straight-line code.

    With those that data choose, or without.
    """
    row = list(statements(loop.body))
    if not all(isinstance(stmt, Store | Let | Block | Prefetch) for stmt in row):
        return []
    stores = [stmt for stmt in row if isinstance(stmt, Store)]
    written = {store.buffer for store in stores if store.index}
    bound = {stmt.name for stmt in row if isinstance(stmt, Let)}
    found = []
    for element, last_read in _last_reads(row, is_guessed=is_guessed).items():
        if element.array in written and _is_affine(element, bound):
            writer = _writer(loop, stores, element, bound)
            if writer is not None:
                found.append(_Carried(element, writer, last_read > writer))
    return found[:_MOST]


def _last_reads(row: Sequence[Stmt], *, is_guessed: bool) -> dict[Load, int]:
    """The loads of every iteration, each with the number of stores before its last use."""
    found: dict[Load, int] = {}
    number = 0
    certain: set[Load] = set()
    for stmt in row:
        for value in expressions(stmt):
            found.update(dict.fromkeys(loads(value), number))
            certain.update(unguarded_loads(value))
        number += isinstance(stmt, Store)
    return {load: at for load, at in found.items() if is_guessed or load in certain}


def _is_affine(place: Load | Store, bound: Collection[str]) -> bool:
    """Whether subscripts depend on loop variables only, not on data or on names in `bound`."""
    return not any(loads(index) or names(index) & set(bound) for index in place.index)


def _writer(
    loop: For, stores: Sequence[Store], element: Load, bound: Collection[str]
) -> int | None:
    """The store whose value an element has when the next iteration loads it; None if unknown.

    That is the last store of an iteration to the element. Stores after it, and those of the
    iteration that loads, must be to other elements for certain.
    """
    before = {loop.var: Var(loop.var) - loop.step}
    found = None
    for number, store in enumerate(stores):
        if store.buffer != element.array:
            continue
        if not _is_affine(store, bound) or len(store.index) != len(element.index):
            return None
        gaps = _gaps([substitute(index, before) for index in store.index], element.index)
        if gaps == [0] * len(element.index) and store.value.dtype == element.dtype:
            found = number
        elif not any(gaps):
            found = None if found is None else -1
        # The iteration that loads the element must not have written it.
        if not any(_gaps(store.index, element.index)):
            return None
    return None if found == -1 else found


def _gaps(here: Sequence[Expr], there: Sequence[Expr]) -> list[int | None]:
    """The difference of each pair of subscripts; None where it is not constant."""
    differences = [linear(x) - linear(y) for x, y in zip(here, there, strict=True)]
    return [None if gap.terms else gap.constant for gap in differences]


def _with_registers(loop: For, found: Sequence[_Carried], taken: set[str]) -> Stmt:
    """The loop with a register for each element, loaded before the first iteration.

    Where an element is loaded again after the store that writes the next one, the stored value is
    held in a register of its own until the iteration ends.
    """
    held: dict[Load, str] = {}
    targets: dict[int, str] = {}
    buffers: list[Buffer] = []
    ends: list[Stmt] = []

    def fresh(element: Load) -> str:
        name = fresh_name(f"{element.array}_c", taken)
        taken.add(name)
        buffers.append(Buffer(name, element.dtype, (), Space.STACK, writable=True))
        return name

    for writer in dict.fromkeys(carried.writer for carried in found):
        own = [carried for carried in found if carried.writer == writer]
        names_of = [fresh(carried.element) for carried in own]
        held.update(zip((carried.element for carried in own), names_of, strict=True))
        targets[writer] = names_of[0]
        if len(own) > 1 or own[0].is_read_late:
            targets[writer] = fresh(own[0].element)
            waiting = Load(targets[writer], (), own[0].element.dtype)
            ends += (Store(name, (), waiting) for name in names_of)
    inside = replace(loop, body=Block((_replaced(loop.body, held, targets), *ends)))
    first = {loop.var: loop.start}
    starts = [
        Store(name, (), replace(x, index=tuple(substitute(i, first) for i in x.index)))
        for x, name in held.items()
    ]
    # A loop without iterations must not touch memory.
    whole: Stmt = Block((*starts, inside))
    for buffer in reversed(buffers):
        whole = Alloc(buffer, (), whole)
    return If(loop.start < loop.stop, whole)


def _replaced(body: Stmt, held: dict[Load, str], targets: dict[int, str]) -> Stmt:
    """`body` with registers for the elements of `held`, and stores that fill those of `targets`."""

    def change(expr: Expr) -> Expr:
        if isinstance(expr, Load) and expr in held:
            return Load(held[expr], (), expr.dtype)
        return expr

    number = -1

    def visit(stmt: Stmt) -> Stmt:
        nonlocal number
        if not isinstance(stmt, Store):
            return stmt
        number += 1
        if number not in targets:
            return stmt
        name = targets[number]
        kept = Store(name, (), stmt.value, stmt.statement)
        return Block((kept, replace(stmt, value=Load(name, (), stmt.value.dtype))))

    return rebuild(body, visit, lambda value: rewrite(value, change))
