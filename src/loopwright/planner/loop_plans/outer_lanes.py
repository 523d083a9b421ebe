"""Which outer loops to take in vectors, because their inner loops keep an order that has none.

Looked for are nests in the order of the source whose statements have a form for all lanes: sums,
products, selections, and of floating numbers quotients and roots. Of the loops of a nest that one
is taken which the model of cost/outer_cost finds fastest, where it is clearly faster than the
source order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import Any

from loopwright.ir.dtypes import BOOL, DType
from loopwright.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var
from loopwright.ir.loops import Mark
from loopwright.ir.machine import Machine
from loopwright.ir.program import Statement
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import (
    Band,
    Node,
    bands,
    nodes_of,
    perfect_nest,
    statements_in,
)
from loopwright.ir.schedule_tree import Sequence as InOrder
from loopwright.ir.visit import children, fresh_name, walk
from loopwright.planner.cost.outer_cost import OuterCost, Shape
from loopwright.planner.draft import Draft
from loopwright.planner.loop_plans.short_loops import repeated, unrolled_whole
from loopwright.transform.interchange import Interchange
from loopwright.transform.loop_marks import Parallel, Unroll
from loopwright.transform.outer_vectors import OuterVectors, runs_alike
from loopwright.transform.step import Step
from loopwright.transform.tiling import StripMine

__all__ = ["offers_lanes", "take_outer_vectors"]

Pairs = Any  # isl.UnionMap, { S[i] -> T[j] }

_WORTH = 0.9  # of the time of the source order: what vectors along another loop may take
_COPIES = (1, 2, 4)
_ENOUGH = 1.02  # times the least time: fewer copies are taken that come as near to it
# Iterations of a loop that is worth vectors: compilers write shorter ones out, with what is around
# them (measured, N1: loops of 4 and 8 iterations in vectors take a third longer).
_LEAST = 32
# Bits of the narrowest integers of all lanes: fewer bytes than a register holds are no vector that
# gcc widens (measured, N1: eight bytes added up in 32 bits take three times as long as sixteen; for
# AVX-512 it takes registers of 256 bits, and sixteen bytes one by one).
_WHOLE_BITS = 256
_LEAST_LANES = 4  # of vectors that are narrower than registers
_LONG = 64  # iterations inside of one of a shorter loop
_ENDS = 8  # times the iterations of a loop at once: those of loops inside whose ranges differ
# Bytes of a row that a thread's strip takes: what is asked for ahead ends with a page, so that
# parts of rows arrive late (measured, N1: rows of 4800 bytes in two take 1.2 times as long).
_LEAST_PART = 4096
_MOST_STRIP = 2048  # iterations of a strip: loops may be shorter than is likely
_COMPARED = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
_ARITHMETIC = frozenset({"add", "sub", "mul", "div"})
_WHOLE = frozenset({"add", "sub", "mul", "min", "max", "and", "or", "xor"})  # of integers
_FUNCTIONS = frozenset({"sqrt", "fma"})


def take_outer_vectors(
    draft: Draft,
    machine: Machine,
    sizes: Mapping[str, int],
    pairs: Pairs,
    closed: Collection[str],
    *,
    is_free: bool = False,
    is_ragged: bool = False,
    parallel: bool = False,
    text: bool = False,
) -> frozenset[str]:
    """Take the loops that pay in vectors; the statements inside of them.

    `pairs` are the instances that stay in order where scalars have copies; `closed` statements
    belong to others. With `is_free` no loop around those taken carries a value; with `is_ragged`
    those are taken only inside of which loops have ranges that differ. For `parallel` runs strips
    of a loop inside serial ones are moved around them: threads then meet once. `text`: for C
    compilers.
    """
    if not machine.vector_registers:
        return frozenset()
    model = OuterCost(draft.schedule.analyses, machine, sizes)
    done: set[str] = set()

    def visit(node: Node, names: frozenset[str], inside: Pairs) -> None:
        match node:
            case Band(child=child):
                if names & set(closed):
                    return
                found = _best(
                    draft, model, node, inside, is_ragged=is_ragged, parallel=parallel, text=text
                )
                if found:
                    done.update(found)
                elif not (is_free and model.known.carries(inside, node)):
                    visit(child, names, model.known.unordered(inside, node))
            case InOrder(filters=filters):
                for branch in filters:
                    own = names & statements_in(branch.instances)
                    visit(branch.child, own, model.known.among(inside, own))

    every = frozenset(s.name for s in model.program.statements)
    visit(nodes_of(draft.schedule), every, pairs)
    return frozenset(done)


def offers_lanes(schedule: Schedule, closed: Collection[str]) -> bool:
    """Whether all statements of some loop around others have lanes and share a condition on data.

    Another order would spread the condition and all that it chooses from. No proof is asked for.
    """
    program = schedule.program
    for band in bands(nodes_of(schedule)):
        own = [program.statement(name) for name in band.statements]
        has_loops = any(True for _ in bands(band.child))
        is_chosen = any(statement.write.dtype == BOOL for statement in own)
        if has_loops and is_chosen and not band.statements & set(closed) and _have_lanes(own):
            return True
    return False


def _best(
    draft: Draft,
    model: OuterCost,
    nest: Band,
    pairs: Pairs,
    *,
    is_ragged: bool,
    parallel: bool,
    text: bool,
) -> frozenset[str]:
    """Take the best loop of a nest in vectors; its statements, none where no loop is taken.

    Where short loops inside of it are unrolled whole later, nothing else is done to the nest.
    `pairs` are those inside of an iteration of the loops around.
    """
    names = nest.statements
    own = [band for band in bands(nest) if band.statements == names and _is_offered(draft, band)]
    own = [b for b in own if _is_long(model, b) and not model.has_far(b)]
    statements = [model.program.statement(name) for name in names]
    if is_ragged:
        own = [b for b in own if runs_alike(draft.schedule, b)]
    if not own or not _have_lanes(statements):
        return frozenset()
    offers: list[tuple[float, int, Band, Shape]] = []
    for band in own:
        shapes = [
            shape
            for shape in _shapes(model, band, statements)
            if model.has_room(band, shape.lanes * shape.copies)
        ]
        if not shapes:
            continue
        costs = [model.cycles(nest, pairs, shape) for shape in shapes]
        enough = _ENOUGH * min(costs)
        cost, shape = next(x for x in zip(costs, shapes, strict=True) if x[0] <= enough)
        offers.append((cost, len(offers), band, shape))
    before = model.cycles(nest, pairs)
    for cost, _, band, shape in sorted(offers, key=lambda offer: offer[:2]):
        if cost > _WORTH * before:
            break
        is_cut = parallel and model.known.carries(pairs, nest)
        if not is_cut and max(unrolled_whole(draft, band).values(), default=1) > 1:
            # Written out, the loops inside leave it plain vectors: chains of sums lie side by side.
            # A loop of few iterations inside vectors waits for each sum (27 points and rays of
            # four, on Neoverse N1: a fourth longer).
            return names
        width = shape.lanes * shape.copies
        is_short = _ENDS * width > _inner_trips(model, band)
        if is_short and runs_alike(draft.schedule, band) and not model.has_windows(band):
            continue  # ranges that differ by lane have ends that run lane by lane
        step = OuterVectors(shape.loop, shape.lanes, shape.copies)
        copies = draft.copies(band)
        strips = _strips(model, nest, band, step) if is_cut else ()
        if text and strips and not _are_shared(draft, copies, strips):
            strips = ()
        if draft.take(*copies, *strips, step) or draft.take(*copies, step):
            _write_out(draft, model, band)
            return names
    return frozenset()


def _is_long(model: OuterCost, band: Band) -> bool:
    """Whether a loop has iterations enough for vectors.

    A few of them, a vector at least, where the loops inside are long: points of a cell beside all
    those of the cells around, channels beside the taps of filters.
    """
    count = model.count(band)
    if count >= _LEAST:
        return True
    bits = max(model.program.statement(name).write.dtype.bits for name in band.statements)
    lanes = model.machine.lanes(bits)
    is_filled = count >= lanes or _narrower(model, band, lanes) > 0
    return is_filled and _runs_inside(model, band) >= _LONG


def _narrower(model: OuterCost, band: Band, lanes: int) -> int:
    """Lanes of vectors that a short loop is made of where it is not of whole ones; 0: of none.

    Under conditions on data the iterations that are left over take their time: they have branches
    that nobody foretells, or compute each number alone (twelve points of a cell: half of it).
    """
    count = model.count(band)
    values = (model.program.statement(name).value for name in band.statements)
    is_chosen = any(
        isinstance(x, Select) or x.dtype == BOOL for value in values for x in walk(value)
    )
    if count >= _LEAST or not count % lanes or not is_chosen:
        return 0
    halves = (lanes // 2, lanes // 4)
    return next((n for n in halves if n >= _LEAST_LANES and not count % n), 0)


def _runs_inside(model: OuterCost, band: Band) -> float:
    """How often the innermost loops inside of one run in an iteration of it, at most."""
    return max((model.count(b) * _runs_inside(model, b) for b in bands(band.child)), default=1.0)


def _shapes(model: OuterCost, band: Band, statements: Sequence[Statement]) -> list[Shape]:
    """Vectors along a loop that registers have room for, the narrowest first.

    Floating numbers of one width fill vectors, of which some copies lie beside each other. Integers
    are of several widths, bytes that are added up in 32 bits: all lanes are one vector, which is as
    many registers as its elements take in each width.
    """
    written = {statement.write.dtype for statement in statements}
    lanes = model.machine.lanes(max(dtype.bits for dtype in written))
    if lanes > 1 and all(dtype.is_integer for dtype in written):
        filled = min(_WHOLE_BITS, 8 * model.machine.vector_bytes)
        first = max(lanes, filled // model.least_bits(band))
        widths = [first * copies for copies in _COPIES]
        return [
            Shape(band.loop, n, 1) for n in widths if n == first or model.fits(band, n // lanes)
        ]
    if lanes < 2:
        return []
    shapes = [Shape(band.loop, lanes, n) for n in _COPIES if n == 1 or model.fits(band, n)]
    narrow = _narrower(model, band, lanes)
    if narrow:
        copies = range(1, int(model.count(band)) // narrow + 1)
        whole = [n for n in copies if not model.count(band) % (n * narrow)]
        shapes += [Shape(band.loop, narrow, n) for n in whole if n == 1 or model.fits(band, n)]
    return shapes


def _write_out(draft: Draft, model: OuterCost, band: Band) -> None:
    """Write the short loops inside out that walk along small arrays, which then are registers."""
    for inner in bands(band.child):
        used = {r.array for name in inner.statements for r in model.references[name]}
        counts = repeated(draft.schedule.analyses, (inner,), max(model.small.values(), default=0))
        if used & model.small.keys() and counts and counts[0] > 1:
            draft.take(Unroll(inner.loop, counts[0]))


def _inner_trips(model: OuterCost, band: Band) -> float:
    """The iterations of the shortest loop inside that is not written out."""
    counts = [model.count(inner) for inner in bands(band.child)]
    return min((count for count in counts if count > _LEAST), default=0.0)


def _are_shared(draft: Draft, copies: Sequence[Step], strips: tuple[Step, ...]) -> bool:
    """Whether threads may share strips that were moved around other loops.

    Those that need each other are no work for threads wherever they stand; C text then shares the
    lanes in every iteration of the loops around. LLVM takes 20 s for a triangle of 64 lanes that
    threads take from both ends, and machine code has the loops of the source.
    """
    moved = strips[-1]
    assert isinstance(moved, Interchange), "strips go around the loops of a nest"
    return draft.reach(*copies, *strips, Parallel(moved.loops[0])) is not None


def _strips(model: OuterCost, nest: Band, band: Band, step: OuterVectors) -> tuple[Step, ...]:
    """Steps that move strips of a loop of a nest around the others, for threads."""
    around = list(takewhile(lambda other: other.loop != band.loop, perfect_nest(nest)))
    if not around or band.loop not in {other.loop for other in perfect_nest(nest)}:
        return ()
    unit = step.lanes * step.copies
    share = model.count(band) / max(2, model.machine.cores)
    bits = max(model.program.statement(name).write.dtype.bits for name in band.statements)
    if share * bits < 8 * _LEAST_PART:
        return ()
    size = unit * max(1, math.ceil(min(share, _MOST_STRIP) / unit))
    cut = StripMine(band.loop, size)
    known = {other.loop for other in bands(nest)}
    strips = fresh_name(f"{band.loop}_t", known)
    return cut, Interchange((strips, *(other.loop for other in around)))


def _is_offered(draft: Draft, band: Band) -> bool:
    has_loops = any(True for _ in bands(band.child))
    return has_loops and draft.schedule.mark(band.loop) is Mark.SERIAL


def _have_lanes(statements: Sequence[Statement]) -> bool:
    """Whether all lanes of the statements can be computed at once, each as it is alone.

    Numbers are of one floating type, or integers of any. Beside floating numbers stand conditions
    that several statements have in common, and integers that are no wider, such as counts of what
    meets them.
    """
    floats = {s.write.dtype for s in statements if s.write.dtype.is_float}
    if not floats:
        return all(s.write.dtype.is_integer and _is_whole(s.value) for s in statements)
    dtype = floats.pop()
    return not floats and dtype.bits >= 32 and all(_has_lanes(s, dtype) for s in statements)


def _has_lanes(statement: Statement, floating: DType) -> bool:
    """Whether a statement has lanes beside others whose numbers are of one floating type."""

    def number(expr: Expr) -> bool:
        if isinstance(expr, Const):
            return expr.dtype == floating
        if expr.dtype != floating:
            return False
        match expr:
            case Load(index=index):
                return all(map(_is_place, index))
            case Cast(x=x) if x.dtype.is_integer:
                return _is_place(x)  # a number of the iteration
            case Unary(op="neg" | "abs", x=x):
                return number(x)
            case Binary(op=op, x=x, y=y) if op in _ARITHMETIC:
                return number(x) and number(y)
            case Select(cond=cond, x=x, y=y):
                return _is_condition(cond, compared) and number(x) and number(y)
            case Call(function=function, args=args) if function in _FUNCTIONS:
                return all(map(number, args))
        return False

    def compared(expr: Expr) -> bool:
        return number(expr) or (expr.dtype.is_integer and _is_place(expr))

    if statement.write.dtype == BOOL:
        return _is_condition(statement.value, compared)
    if statement.write.dtype.is_integer:
        is_narrow = statement.write.dtype.bits <= floating.bits
        return is_narrow and _is_whole(statement.value, compared)
    return number(statement.value)


def _is_whole(expr: Expr, compared: Callable[[Expr], bool] | None = None) -> bool:
    """Whether an expression is made of integers by operations that vectors have.

    Conditions compare such integers, or what is given.
    """
    if not expr.dtype.is_integer:
        return False
    is_whole = partial(_is_whole, compared=compared)
    match expr:
        case Const():
            return True
        case Load(index=index):
            return all(map(_is_place, index))
        case Cast(x=x) | Unary(op="neg", x=x):
            return is_whole(x)
        case Binary(op=op, x=x, y=y) if op in _WHOLE:
            has_vectors = op != "mul" or expr.dtype.bits < 64
            return has_vectors and is_whole(x) and is_whole(y)
        case Select(cond=cond, x=x, y=y):
            return _is_condition(cond, compared or is_whole) and is_whole(x) and is_whole(y)
    return False


def _is_condition(expr: Expr, is_number: Callable[[Expr], bool]) -> bool:
    """Whether a condition is made of comparisons of such numbers."""
    match expr:
        case Binary(op=op, x=x, y=y) if op in _COMPARED:
            return is_number(x) and is_number(y)
        case Binary(op="and" | "or", x=x, y=y) if expr.dtype == BOOL:
            return _is_condition(x, is_number) and _is_condition(y, is_number)
        case Load(index=(), dtype=dtype):
            return dtype == BOOL
    return False


def _is_place(expr: Expr) -> bool:
    """Whether a subscript reads no memory."""
    if isinstance(expr, Load | Cast | Call):
        return False
    return isinstance(expr, Const | Var) or all(map(_is_place, children(expr)))
