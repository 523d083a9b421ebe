"""Selections in loops of vectors that C spells without branches.

    c ? x : y   ->   lw_choose_float32(c, x, y)

A compiler of C makes branches of a selection and undoes them to vectorise. Where it meets them
again in another order it asks whether numbers are "not less", which vectors of AArch64 answer in
six instructions instead of one, and selections that depend on each other become products of
conditions. Bits of both values under a mask are no branch from the beginning.

    max(x, c ? v : least)   ->   max(x, lw_admit_int32(c, v, least))

is one on every machine: gcc knows that nothing changes where the least number is chosen, and takes
the extreme under a branch on c, in which it finds no reduction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from loopwright.backends.c_text.c_subscripts import reads_ahead
from loopwright.ir.dtypes import BOOL
from loopwright.ir.expr import COMPARISONS, Binary, Call, Const, Expr, Load, Select
from loopwright.ir.fixed_conditions import has_fixed_part
from loopwright.ir.loops import Block, For, Let, LoopNest, Mark, Store
from loopwright.ir.visit import (
    constant_trips,
    expressions,
    loads,
    statements,
    unguarded_loads,
    walk,
)

__all__ = [
    "Choices",
    "any_admitted",
    "any_by_bits",
    "any_open",
    "any_updates",
    "choices_by_bits",
    "is_admission",
    "no_choices",
]

Choices: TypeAlias = Callable[[Expr], bool]  # whether a selection or condition is written by bits
_MOST_WRITTEN_OUT = 4  # iterations that take less than a branch before them that goes wrong
_IN_VECTORS = ("sqrt", "fma", "dot", "min_number", "max_number")


def no_choices(choice: Expr) -> bool:
    """No selection at all."""
    return False


def choices_by_bits(loop: For) -> Choices:
    """The selections of a loop of straight-line code that compilers will vectorise.

    Those of numbers of 32 and 64 bits by comparisons of floating numbers, or one in the other,
    those of which an extreme is taken (a minimum of the greatest number is known to be a branch),
    and those of conditions. Both values are computed: every element that they load must be one that
    an iteration loads in any case. Loops that read ahead of what they write are vectorised too.
    """
    inside = list(statements(loop.body))
    parts = [expr for stmt in inside for expr in expressions(stmt)]
    if (
        not _is_straight(loop)
        or not (loop.mark is not Mark.SERIAL or _is_lockstep(loop))
        or any(_is_call(node) for expr in parts for node in walk(expr))
    ):
        return no_choices
    certain = {load for expr in parts for load in unguarded_loads(expr)}
    compared = {
        operand
        for expr in parts
        for node in walk(expr)
        if isinstance(node, Binary) and node.op in ("min", "max") and node.dtype.is_integer
        for operand in (node.x, node.y)
    }

    is_short = (constant_trips(loop) or _MOST_WRITTEN_OUT + 1) <= _MOST_WRITTEN_OUT
    moving = {loop.var, *(stmt.name for stmt in inside if isinstance(stmt, Let))}

    def is_chosen(select: Expr) -> bool:
        if select.dtype == BOOL and not is_short and has_fixed_part(select, moving):
            return False
        if not isinstance(select, Select):
            return select.dtype == BOOL
        values = (select.x, select.y)
        if not all(load in certain for value in values for load in loads(value) if load.index):
            return False
        if select.dtype == BOOL:
            return True
        is_wide = select.dtype.bits >= 32 and not select.dtype.is_complex
        return is_wide and (
            _compares_floats(select.cond) or _is_nested(select) or select in compared
        )

    return is_chosen


def is_admission(select: Select) -> bool:
    """Whether an integer is chosen or the extreme one of its type, which changes no extreme."""
    dtype = select.dtype
    extremes = (dtype.least, dtype.greatest) if dtype.is_integer else ()
    return any(isinstance(x, Const) and x.value in extremes for x in (select.x, select.y))


def any_admitted(nest: LoopNest) -> bool:
    """Whether some loop takes an extreme of integers that a condition admits, by bits."""
    return _any_chosen(nest, is_admission)


def any_by_bits(nest: LoopNest) -> bool:
    """Whether some loop of a nest has a selection that is written by bits."""
    return _any_chosen(nest, lambda select: True)


def _any_chosen(nest: LoopNest, is_asked_for: Callable[[Select], bool]) -> bool:
    return any(
        isinstance(node, Select) and is_chosen(node) and is_asked_for(node)
        for loop in statements(nest.body)
        if isinstance(loop, For) and (is_chosen := choices_by_bits(loop)) is not no_choices
        for stmt in statements(loop.body)
        for expr in expressions(stmt)
        for node in walk(expr)
    )


def any_open(nest: LoopNest) -> bool:
    """Whether an iteration of straight-line code names a number that a comparison chooses.

    Which way it goes is open each time, and a branch that goes wrong costs more than both values:
    as names of a program, once written out, they are selections and no branches.
    """
    return any(
        isinstance(stmt, Let)
        and isinstance(stmt.value, Select)
        and stmt.value.dtype.is_float
        and _compares_floats(stmt.value.cond)
        and not any(_is_slow(node) for node in walk(stmt.value))
        for loop in statements(nest.body)
        if isinstance(loop, For) and _is_straight(loop)
        for stmt in statements(loop.body)
    )


def any_updates(nest: LoopNest) -> bool:
    """Whether a loop that reads ahead stores to an element, or leaves it, as data decide.

    With the old number stored again where it stays, compilers take such a loop in vectors.
    """
    return any(
        isinstance(stmt.value, Select)
        and Load(stmt.buffer, stmt.index, stmt.value.dtype) in (stmt.value.x, stmt.value.y)
        for loop in statements(nest.body)
        if isinstance(loop, For) and _is_straight(loop) and reads_ahead(loop)
        for stmt in statements(loop.body)
        if isinstance(stmt, Store)
    )


def _is_straight(loop: For) -> bool:
    return all(isinstance(stmt, Store | Let | Block) for stmt in statements(loop.body))


def _is_lockstep(loop: For) -> bool:
    """Whether a serial loop only gathers integers in variables, and reads ahead of its stores.

    Variables that an iteration sets before it reads them hand nothing on.
    """
    stores = [stmt for stmt in statements(loop.body) if isinstance(stmt, Store)]
    gathered = {store.buffer for store in stores if _is_sum(store)} | _set_first(loop)
    return all(store.buffer in gathered for store in stores) or reads_ahead(loop, gathered)


def _set_first(loop: For) -> set[str]:
    """The variables that straight-line code sets before it reads them."""
    found: set[str] = set()
    read: set[str] = set()
    for stmt in statements(loop.body):
        read |= {load.array for expr in expressions(stmt) for load in loads(expr)}
        if isinstance(stmt, Store) and not stmt.index and stmt.buffer not in read:
            found.add(stmt.buffer)
    return found


def _is_slow(expr: Expr) -> bool:
    """Whether an expression is better left out where it is not chosen."""
    return isinstance(expr, Call) or (isinstance(expr, Binary) and expr.op in ("div", "pow"))


def _is_sum(store: Store) -> bool:
    """Whether a store gathers integers in a variable."""
    match store.value:
        case Binary(op="add" | "sub" | "min" | "max", x=x) if (
            not store.index and store.value.dtype.is_integer
        ):
            return any(load.array == store.buffer for load in loads(x))
    return False


def _is_call(expr: Expr) -> bool:
    """Whether an expression calls a function that has no vectors."""
    return isinstance(expr, Call) and expr.function not in _IN_VECTORS


def _compares_floats(cond: Expr) -> bool:
    return any(
        isinstance(x, Binary) and x.op in COMPARISONS and x.x.dtype.is_float for x in walk(cond)
    )


def _is_nested(select: Select) -> bool:
    """Whether one of the values is a selection too, all by numbers as wide as they are."""
    if not any(isinstance(value, Select) for value in (select.x, select.y)):
        return False
    compared = [x.x for x in walk(select) if isinstance(x, Binary) and x.op in COMPARISONS]
    return all(x.dtype.bits == select.dtype.bits for x in compared)
