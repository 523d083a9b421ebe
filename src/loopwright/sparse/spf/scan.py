"""Computation -> LoopNest: the loops that visit the instances of statements in schedule order.

At each depth the pieces of statements that have had the same times so far are taken together. What
an equality gives as a function of outer variables becomes a let, another entry of the schedule a
loop over its bounds. A bound or test uses outer variables only (the prefix rule), for index arrays
are read where their subscripts are known and nowhere else.

Pieces with different ranges share a loop over the hull of the ranges and test their own inside. A
test that not all pieces share, while they still share loops, chooses between two versions of what
follows. Data spaces become buffers: arguments in row-major order, temporaries as scratch memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from loopwright.diagnostics import UsageError
from loopwright.ir.expr import Const, Expr
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
from loopwright.ir.program import Role
from loopwright.ir.visit import fresh_name, rebuild, statements
from loopwright.ir.visit import substitute as substitute_expr
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.build import touches
from loopwright.lower.simplify import simplify
from loopwright.lower.work_distribution import lower_to_spmd
from loopwright.sparse.spf.computation import Computation, DataSpace
from loopwright.sparse.spf.implied import KnownConstraints
from loopwright.sparse.spf.rescheduling import check_domains
from loopwright.sparse.spf.scan_pieces import (
    Piece,
    ScanRange,
    VariableDefinition,
    call_depth,
    has_constant_bounds,
    hull,
    is_bare,
    pieces_of,
    range_of,
)
from loopwright.sparse.spf.term_exprs import as_condition, as_expr
from loopwright.sparse.uf import (
    Atom,
    Constraint,
    Term,
    TupleVar,
    UFCall,
    atoms,
    substitute,
    variables,
)

__all__ = ["arguments", "scan", "with_temporaries"]

_FEW = 64  # elements


def arguments(computation: Computation) -> tuple[Buffer, ...]:
    """The spaces of the caller, in their order."""
    return tuple(
        Buffer(space.name, space.dtype, _strides(space), writable=space.role is not Role.IN)
        for space in computation.spaces
        if space.role is not Role.LOCAL
    )


def with_temporaries(computation: Computation, body: Stmt) -> Stmt:
    """`body` inside the memory of the temporaries.

    A scalar that only parallel loops use belongs to each of their iterations (see storage). A few
    numbers, known how many, are as good as a scalar: they are registers once loops are unrolled.
    """
    is_shared = _has_parallel(body)
    for space in reversed(computation.spaces):
        if space.role is not Role.LOCAL:
            continue
        is_few = _is_few(space)
        if is_shared and is_few and not _used_outside(body, space.name):
            body = _inside_parallel(body, space)
        else:
            # A stack belongs to one thread; what parallel loops see must be memory of all.
            is_stack = is_few and not is_shared
            body = _alloc(space, Space.STACK if is_stack else Space.SCRATCH, body)
    return body


def _is_few(space: DataSpace) -> bool:
    is_constant = all(extent.is_constant for extent in space.shape)
    return is_constant and math.prod(extent.constant for extent in space.shape) <= _FEW


def _alloc(space: DataSpace, kind: Space, body: Stmt) -> Stmt:
    buffer = Buffer(space.name, space.dtype, _strides(space), kind, writable=True)
    return Alloc(buffer, _shape(space), body)


def _has_parallel(stmt: Stmt) -> bool:
    return any(isinstance(s, For) and s.mark is Mark.PARALLEL for s in statements(stmt))


def _used_outside(stmt: Stmt, name: str) -> bool:
    """Whether a space is touched outside of parallel loops."""

    def cut(part: Stmt) -> Stmt:
        is_parallel = isinstance(part, For) and part.mark is Mark.PARALLEL
        return Block(()) if is_parallel else part

    return any(touches(part, name) for part in statements(rebuild(stmt, cut)))


def _inside_parallel(stmt: Stmt, space: DataSpace) -> Stmt:
    def visit(part: Stmt) -> Stmt:
        if not isinstance(part, For) or part.mark is not Mark.PARALLEL:
            return part
        return replace(part, body=_alloc(space, Space.STACK, part.body))

    return rebuild(stmt, visit)


def _shape(space: DataSpace) -> tuple[Expr, ...]:
    return tuple(as_expr(extent, {}) for extent in space.shape)


def _strides(space: DataSpace) -> tuple[Expr, ...]:
    strides: list[Expr] = []
    step: Expr = Const(1)
    for extent in reversed(_shape(space)):
        strides.insert(0, step)
        step = step * extent
    return tuple(strides)


_MOST_STORES = 256


def scan(computation: Computation) -> LoopNest:
    """The nest that runs a computation.

    Its buffers are the spaces that are no temporaries, in their order and laid out row by row; its
    scalars are the symbols. Temporaries are scratch memory. A nest with a parallel loop is for any
    number of threads that enter it together.

    Refuses, with the statement and the variable, a schedule that leaves the order of instances
    open, a variable without bounds by outer ones, and a domain that changes while it is scanned.
    """
    check_domains(computation)
    scanner = _Scanner(computation)
    known = KnownConstraints(tuple(computation.facts.known), computation.facts)
    body = scanner.visit(pieces_of(computation), _Place(frozenset(), known))
    body = with_temporaries(computation, body)
    nest = LoopNest(
        computation.name,
        arguments(computation),
        computation.symbols,
        body,
        leave_to_llvm=True,
        reassoc=computation.reassoc,
    )
    return lower_to_spmd(simplify(nest))


@dataclass(frozen=True)
class _Place:
    """A place in the nest: the variables that have values there, and what holds."""

    names: frozenset[str]
    known: KnownConstraints

    def bind(self, name: str, *constraints: Constraint) -> _Place:
        return _Place(self.names | {name}, self.known.also(*constraints))


class _Scanner:
    def __init__(self, computation: Computation) -> None:
        self.computation = computation
        self.spaces = computation.by_name
        self.taken = {*self.spaces, *computation.symbols}
        self.marks = {(name, loop): mark for name, loop, mark in computation.marks}
        self.stores = 0

    def visit(self, pieces: Sequence[Piece], place: _Place) -> Stmt:
        """The loops of pieces that have had the same times so far."""
        settled = (self._settled(piece, place) for piece in pieces)
        pieces = [piece for piece in settled if not any(c.is_false for c in piece.waiting)]
        if not pieces:
            return Block(())
        shared = self._shared_test(pieces, place)
        if shared is not None:
            rest = [piece.without([shared]) for piece in pieces]
            inner = replace(place, known=place.known.also(shared))
            return If(as_condition(shared, self.spaces), self.visit(rest, inner))
        defined = self._definition(pieces, place)
        if defined is not None:
            return self._let(defined, pieces, place)
        if all(not piece.times for piece in pieces):
            return _block([self._leaf(piece, place) for piece in pieces])
        if all(self._is_passed(piece) for piece in pieces):
            return self._sequence(pieces, place)
        own = self._own_test(pieces, place)
        if own is not None:
            return self._versions(own, pieces, place)
        return self._loop(pieces, place)

    # -- tests -------------------------------------------------------------------------------

    def _settled(self, piece: Piece, place: _Place) -> Piece:
        """The piece without the tests that are implied."""
        ready = piece.ready(place.names)
        return piece.without(c for c in ready if place.known.implies(c))

    def _is_safe(self, term: Term, pieces: Sequence[Piece], place: _Place) -> bool:
        """Whether all calls can be made before anything else that the pieces do.

        Their arguments are known to lie inside the arrays, and none of several pieces writes them:
        it might do so before the piece that calls.
        """
        written = {piece.stmt.target for piece in pieces} if len(pieces) > 1 else set()
        for atom in atoms(term):
            if not isinstance(atom, UFCall):
                continue
            if atom.name in written:
                return False
            for argument, extent in zip(atom.args, self.spaces[atom.name].shape, strict=True):
                inside = Constraint.ge(argument), Constraint.lt(argument, extent)
                if not all(map(place.known.implies, inside)):
                    return False
        return True

    def _shared_test(self, pieces: Sequence[Piece], place: _Place) -> Constraint | None:
        """A test that all pieces must pass, and that can be made here."""
        first, *others = pieces
        for test in first.ready(place.names):
            if not all(test in piece.waiting for piece in others):
                continue
            if self._is_safe(test.term, pieces, place) or _is_last(pieces):
                return test
        return None

    def _own_test(self, pieces: Sequence[Piece], place: _Place) -> Constraint | None:
        """A test of some pieces that the ranges of the loop to come may rely on."""
        if len(pieces) == 1:
            return None
        found = [test for piece in pieces for test in piece.ready(place.names)]
        safe = [test for test in found if self._is_safe(test.term, pieces, place)]
        return min(safe, key=lambda c: (call_depth(c.term), str(c)), default=None)

    def _versions(self, test: Constraint, pieces: Sequence[Piece], place: _Place) -> Stmt:
        """One version of the loops for each outcome of a test."""
        passed = [piece.without([test]) for piece in pieces]
        failed = [piece for piece in pieces if test not in piece.waiting]
        inner = replace(place, known=place.known.also(test))
        then = self.visit(passed, inner)
        return If(as_condition(test, self.spaces), then, self.visit(failed, place))

    # -- values ------------------------------------------------------------------------------

    def _definition(self, pieces: Sequence[Piece], place: _Place) -> tuple[Term, bool] | None:
        """A value that an equality gives to a variable of some piece, and whether to bind it."""
        for piece in pieces:
            for found in piece.definitions(place.names):
                has_call = call_depth(found.value) > 0
                if not has_call or self._is_safe(found.value, pieces, place) or _is_last(pieces):
                    return found.value, has_call
        return None

    def _let(self, defined: tuple[Term, bool], pieces: Sequence[Piece], place: _Place) -> Stmt:
        value, is_bound = defined
        if not is_bound:
            rest = [_with_value(piece, value, value, place.names) for piece in pieces]
            return self.visit(rest, place)
        wish = next(
            d.name for piece in pieces for d in piece.definitions(place.names) if d.value == value
        )
        name = self._fresh(wish, place)
        bound = Term.of(TupleVar(name))
        rest = [_with_value(piece, value, bound, place.names) for piece in pieces]
        inner = place.bind(name, Constraint.eq(bound, value))
        return Let(name, as_expr(value, self.spaces), self.visit(rest, inner))

    def _fresh(self, wish: str, place: _Place) -> str:
        return fresh_name(wish.split("@")[0], self.taken | place.names)

    # -- times -------------------------------------------------------------------------------

    def _is_passed(self, piece: Piece) -> bool:
        """Whether the next time of a piece is a constant of the nest."""
        return piece.time.is_constant

    def _sequence(self, pieces: Sequence[Piece], place: _Place) -> Stmt:
        groups: dict[int, list[Piece]] = {}
        for piece in pieces:
            later = replace(piece, times=piece.times[1:])
            groups.setdefault(piece.time.constant, []).append(later)
        return _block([self.visit(groups[time], place) for time in sorted(groups)])

    def _loop(self, pieces: Sequence[Piece], place: _Place) -> Stmt:
        if all(variables(piece.time) <= place.names for piece in pieces):
            times = {piece.time for piece in pieces}
            if len(times) == 1:
                later = [
                    replace(piece, times=piece.times[1:], loop=piece.loop + 1) for piece in pieces
                ]
                return self.visit(later, place)
        name = self._fresh(_wish(pieces), place)
        inside = [piece.at_time(name) for piece in pieces]
        same = _same_value(inside, name, place.names)
        if same is not None:
            return self._let((same, call_depth(same) > 0), inside, place)
        inside = [self._solved(piece, name, place) for piece in inside]
        ranges = [range_of(piece, name, place.names, place.known) for piece in inside]
        for piece, found in zip(inside, ranges, strict=True):
            self._check_range(piece, found, name)
        whole = hull(ranges)
        inner = place.bind(name, *whole.established)
        start, stop = whole.start(self.spaces), whole.stop(self.spaces)
        rest = [piece.without(whole.established) for piece in inside]
        mark = self._mark(inside)
        last = self._last_test(rest, name, whole, inner) if mark is Mark.SERIAL else None
        if last is None:
            return For(name, start, stop, self.visit(rest, inner), Const(1), mark)
        rest = [piece.without([last]) for piece in rest]
        body = self.visit(rest, replace(inner, known=inner.known.also(last)))
        (ends,) = last.negated()
        return For(name, start, stop, body, Const(1), mark, as_condition(ends, self.spaces))

    def _last_test(
        self, pieces: Sequence[Piece], name: str, whole: ScanRange, inner: _Place
    ) -> Constraint | None:
        """A test of all pieces that no iteration passes after one that has not: it ends the loop.

        for k in ptr(i) .. ptr(i+1): if col(k) < i: S(k)  =>  the same until col(k) >= i, where a
        rule says that col ascends between the pointers. Only rules tell such things.
        """
        if not self.computation.facts.further:
            return None
        after: dict[Atom, Term] = {TupleVar(name): Term.of(TupleVar(name)) + 1}
        for test in pieces[0].ready(inner.names):
            is_shared = all(test in piece.waiting for piece in pieces)
            if test.is_equality or not is_shared or not self._is_safe(test.term, pieces, inner):
                continue
            (fails,) = test.negated()
            # If the next one is there and passes although this one fails, it fails.
            passes = [c.substitute(after) for c in (*whole.established, test)]
            if inner.known.also(fails, *passes).implies(fails.substitute(after)):
                return test
        return None

    def _solved(self, piece: Piece, name: str, place: _Place) -> Piece:
        """The piece with sums of a loop variable put for what they define: jj = ii + off(d).

        Then bounds of jj are bounds of ii, and need no test inside the loop. A loop of constant
        bounds keeps them, for it can be unrolled.
        """
        if has_constant_bounds(piece, name, place.names):
            return piece
        known = place.names | {name}
        while found := next((d for d in piece.definitions(known) if d.is_exact), None):
            is_sum = is_bare(found.value, name) and self._is_safe(found.value, [piece], place)
            if not is_sum or found.name == name:
                break
            piece = piece.put({TupleVar(found.name): found.value})
        return piece

    def _mark(self, inside: Sequence[Piece]) -> Mark:
        marks = {self.marks.get((piece.stmt.name, piece.loop), Mark.SERIAL) for piece in inside}
        return marks.pop() if len(marks) == 1 else Mark.SERIAL

    def _check_range(self, piece: Piece, found: ScanRange, name: str) -> None:
        if found.lows and found.highs:
            return
        side = "lower" if not found.lows else "upper"
        of = _spelled(piece, name)
        reason = [str(c) for c in piece.waiting if name in variables(c.term)]
        raise UsageError(
            f"the loop over '{of}' of statement '{piece.stmt.name}' has no {side} bound by the "
            f"variables outside of it",
            (" && ".join(reason) or "no constraint").replace("@" + str(piece.number), ""),
            "bound it in the domain, or schedule it inside the variables that its bounds need",
        )

    # -- instances ---------------------------------------------------------------------------

    def _leaf(self, piece: Piece, place: _Place) -> Stmt:
        """One piece after its last time: the values and tests that are left, then the store."""
        piece = self._settled(piece, place)
        ready = piece.ready(place.names)
        if ready:
            rest = piece.without(ready[:1])
            inner = replace(place, known=place.known.also(ready[0]))
            return If(as_condition(ready[0], self.spaces), self._leaf(rest, inner))
        defined = next(piece.definitions(place.names), None)
        if defined is not None:
            return self._let_last(piece, defined, place)
        if piece.unknown:
            names = ", ".join(name.split("@")[0] for name in piece.unknown)
            raise UsageError(
                f"the schedule of statement '{piece.stmt.name}' leaves the order of {names} open",
                str(piece.stmt.domain),
                "add the variable to the schedule, or an equality that gives it",
            )
        self.stores += 1
        if self.stores > _MOST_STORES:
            raise UsageError(
                f"the loops of computation '{self.computation.name}' need more than {_MOST_STORES} "
                "copies of statements",
                hint="share fewer loops between statements with different domains",
            )
        return self._store(piece)

    def _let_last(self, piece: Piece, defined: VariableDefinition, place: _Place) -> Stmt:
        value = defined.value
        if call_depth(value) == 0:
            return self._leaf(_with_value(piece, value, value, place.names), place)
        name = self._fresh(defined.name, place)
        bound = Term.of(TupleVar(name))
        rest = _with_value(piece, value, bound, place.names)
        inner = place.bind(name, Constraint.eq(bound, value))
        return Let(name, as_expr(value, self.spaces), self._leaf(rest, inner))

    def _store(self, piece: Piece) -> Stmt:
        stmt = piece.stmt
        put: dict[Atom, Term] = {TupleVar(name): value for name, value in piece.values}
        values = {name: as_expr(value, self.spaces) for name, value in piece.values}
        index = tuple(as_expr(substitute(entry, put), self.spaces) for entry in stmt.index)
        store: Stmt = Store(stmt.target, index, substitute_expr(stmt.value, values), stmt.name)
        if stmt.ahead:
            further = (*index[:-1], index[-1] + stmt.ahead)
            store = Block((store, Prefetch(stmt.target, further, write=True)))
        return store if stmt.guard is None else If(substitute_expr(stmt.guard, values), store)


def _with_value(piece: Piece, value: Term, bound: Term, names: frozenset[str]) -> Piece:
    """The piece with `bound` for the variables that have this value."""
    for found in piece.definitions(names):
        if found.value == value:
            return piece.put({TupleVar(found.name): bound})
    return piece


def _same_value(pieces: Sequence[Piece], name: str, names: frozenset[str]) -> Term | None:
    """The value that equalities give to a time, if it is one value for all pieces."""
    values = {
        next((d.value for d in piece.definitions(names) if d.name == name and d.is_exact), None)
        for piece in pieces
    }
    return values.pop() if len(values) == 1 else None


def _is_last(pieces: Sequence[Piece]) -> bool:
    return len(pieces) == 1 and not pieces[0].times


def _wish(pieces: Sequence[Piece]) -> str:
    """A name for the loop: that of a variable it runs over."""
    for piece in pieces:
        found = [name for name in piece.unknown if name in variables(piece.time)]
        if found:
            is_itself = piece.time == Term.of(TupleVar(found[0]))
            return found[0].split("@")[0] + ("" if is_itself else "_t")
    return "t"


def _spelled(piece: Piece, name: str) -> str:
    """What a loop variable stands for, in the words of the statement."""
    return next((of for of, value in piece.values if value == Term.of(TupleVar(name))), name)


def _block(parts: list[Stmt]) -> Stmt:
    return parts[0] if len(parts) == 1 else Block(tuple(parts))
