"""The loop order of a composed statement: what is summed in registers, and what is parallel.

Loops of the storage stay in their order, loops with few known values go inside them, and letters of
dense operands go innermost. Where the result depends on the outer loops only, everything inside is
summed in scalars, one for each step that the result depends on. The numbers that are added to one
element of the result keep the order of the storage.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from loopwright.diagnostics import IllegalStep
from loopwright.ir.expr import Const, Expr, Load
from loopwright.ir.expr import Var as ExprVar
from loopwright.ir.loops import Mark
from loopwright.ir.program import Role
from loopwright.ir.visit import names, rewrite
from loopwright.lazy_dataclass import dataclass
from loopwright.semirings.named import Semiring
from loopwright.sparse.executors.compose import OUT, ComposedStatement, KernelRequest, compose
from loopwright.sparse.executors.interior_rows import RowBound, cut_name
from loopwright.sparse.spf.computation import Computation, DataSpace, Stmt
from loopwright.sparse.spf.rescheduling import parallelise
from loopwright.sparse.synthesis.stages import element
from loopwright.sparse.uf import (
    Conj,
    Constraint,
    IntegerSet,
    Sym,
    Term,
    TupleVar,
    UFCall,
    calls,
    symbols,
    variables,
)

__all__ = ["KernelPlan", "plan"]

_SUM = "sum"
_MOST_SUMS = 64
_ZERO = Term.of(0)


@dataclass(frozen=True)
class KernelPlan:
    """A computation, and what must hold before it runs."""

    computation: Computation
    is_filled: bool  # the result must hold zeros before; else every element is stored
    row_bounds: tuple[RowBound, ...]  # give the cuts, where there are some
    relies_on_invariants: bool  # the invariants of the format must have been checked


def plan(request: KernelRequest) -> KernelPlan:
    """The computation of a request."""
    composed = compose(request)
    writer = _Writer(request, composed)
    if request.is_sampled:
        return writer.finish(writer.sampled(), is_filled=True)
    found = writer.prefix()
    if found is None:
        return writer.finish([writer.update()], is_filled=True)
    outer, inside = found
    is_whole = _is_whole(outer, inside, composed)
    row_bounds = _row_bounds(outer, composed.conj) if is_whole else {}
    asked = writer.summed(outer, inside, composed.conj, 0, is_whole)
    if not row_bounds:
        return writer.finish(asked, not is_whole)
    groups = _parts(outer[0], composed.conj, row_bounds, request.interior_ranges)
    statements = [
        stmt
        for time, conj in enumerate(groups)
        for stmt in writer.summed(outer, inside, conj, time, is_whole)
    ]
    return writer.finish(statements, not is_whole, tuple(row_bounds.values()), asked)


class _Writer:
    def __init__(self, request: KernelRequest, composed: ComposedStatement) -> None:
        self.ring: Semiring = request.ring
        self.dtype = request.dtype
        self.at = request.at
        self.composed = composed
        self.builder = composed.builder
        self.loops = (
            *composed.walked,
            *composed.summed,
            *composed.steps,
            *composed.kept,
        )

    # -- what is summed where ------------------------------------------------------------------

    def prefix(self) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """The outer loops that the result depends on, and the steps; None: sums stay in memory."""
        composed = self.composed
        needed = {v for term in composed.index for v in variables(term)}
        inside = tuple(v for v in composed.steps if v in needed)
        count = max((1 + composed.walked.index(v) for v in needed & {*composed.walked}), default=0)
        extents = dict(composed.extents)
        is_small = math.prod(extents[v] for v in inside) <= _MOST_SUMS
        rest = len(self.loops) - count - len(inside)
        if needed & {*composed.kept} or not rest or not is_small:
            return None
        return composed.walked[:count], inside

    # -- statements ----------------------------------------------------------------------------

    def _product(self, factors: Sequence[Expr]) -> Expr:
        product = factors[0]
        for factor in factors[1:]:
            product = self.ring.times_expr(self.dtype, product, factor)
        return product

    def _plus(self, target: Term, value: Expr) -> Expr:
        return self.ring.plus_expr(self.dtype, self.builder.load(target), value)

    def _zero(self) -> Expr:
        return Const(self.ring.zero(self.dtype), self.dtype)

    def _stmt(
        self,
        name: str,
        conj: Conj,
        names: Iterable[str],
        times: Sequence[Term | str],
        target: Term,
        value: Expr,
        guard: Expr | None = None,
    ) -> Stmt:
        place = target.atom
        assert isinstance(place, UFCall), f"{target} is no element"
        known = {*names}
        kept = Conj.of(c for c in conj.constraints if variables(c.term) <= known)
        domain = IntegerSet(tuple(v for v in self.loops if v in known), (kept,))
        schedule = tuple(Term.of(TupleVar(t)) if isinstance(t, str) else t for t in times)
        return Stmt(name, domain, schedule, place.name, place.args, value, guard)

    def update(self) -> Stmt:
        """out = out plus product, for every entry and letter."""
        target = element(OUT, *self.composed.index)
        value = self._plus(target, self._product(self.composed.factors))
        conj, guard = self.composed.conj, self.composed.guard
        return self._stmt("update", conj, self.loops, self.loops, target, value, guard)

    def summed(
        self, outer: tuple[str, ...], inside: tuple[str, ...], conj: Conj, time: int, is_whole: bool
    ) -> list[Stmt]:
        """The same with sums that belong to the outer loops."""
        extents = dict(self.composed.extents)
        name = f"{_SUM}{time}"
        shape = tuple(Term.of(extents[v]) for v in inside)
        self.builder.spaces[name] = DataSpace(name, self.dtype, shape, Role.LOCAL)
        total = element(name, *(Term.of(TupleVar(v)) for v in inside))
        target = element(OUT, *self.composed.index)
        start: tuple[Term | str, ...] = (Term.of(time), *outer)
        inner = [v for v in self.loops if v not in outer]
        value = self._plus(total, self._product(self.composed.factors))
        done = self.builder.load(total)
        known = (*outer, *inside)
        return [
            self._stmt(f"begin{time}", conj, known, (*start, _ZERO, *inside), total, self._zero()),
            self._stmt(
                f"add{time}",
                conj,
                self.loops,
                (*start, Term.of(1), *inner),
                total,
                value,
                self.composed.guard,
            ),
            self._stmt(
                f"end{time}",
                conj,
                known,
                (*start, Term.of(2), *inside),
                target,
                done if is_whole else self._plus(target, done),
            ),
        ]

    def sampled(self) -> list[Stmt]:
        """out[place] = entry times the sum over letters of the product of the others."""
        composed = self.composed
        others = [f for number, f in enumerate(composed.factors) if number != self.at]
        tuples = tuple(v for v in self.loops if v in (*composed.walked, *composed.steps))
        target = element(OUT, *composed.index)
        start: tuple[Term | str, ...] = (*tuples,)
        total = element(_SUM)
        self.builder.spaces[_SUM] = DataSpace(_SUM, self.dtype, (), Role.LOCAL)
        value = self._plus(total, self._product(others))
        end = self.ring.times_expr(self.dtype, composed.entry, self.builder.load(total))
        conj = composed.conj
        loops = (*start, Term.of(1), *composed.summed)
        return [
            self._stmt("begin", conj, tuples, (*start, _ZERO), total, self._zero()),
            self._stmt("add", conj, self.loops, loops, total, value),
            self._stmt("end", conj, tuples, (*start, Term.of(2)), target, end, composed.guard),
        ]

    # -- the computation -----------------------------------------------------------------------

    def finish(
        self,
        statements: list[Stmt],
        is_filled: bool,
        row_bounds: tuple[RowBound, ...] = (),
        asked: list[Stmt] | None = None,
    ) -> KernelPlan:
        """The plan of statements, their outermost loops parallel where that is legal.

        Statements that each do other rows of `asked` may be parallel if those may.
        """
        made = self._computation(statements)
        if all(stmt.loops for stmt in statements):
            whole = made if asked is None else self._computation(asked)
            if _may_be_parallel(whole):
                marks = tuple((stmt.name, 1, Mark.PARALLEL) for stmt in statements)
                made = replace(made, marks=marks)
        return KernelPlan(made, is_filled, row_bounds, self.composed.relies_on_invariants)

    def _computation(self, statements: list[Stmt]) -> Computation:
        used = {name for stmt in statements for name in stmt.reads}
        used |= {stmt.target for stmt in statements}
        used |= {c.name for stmt in statements for entry in stmt.index for c in calls(entry)}
        spaces = tuple(space for space in self.builder.spaces.values() if space.name in used)
        wanted: set[str] = {
            s for space in spaces for extent in space.shape for s in symbols(extent)
        }
        wanted |= {s for stmt in statements for s in stmt.domain.symbols}
        wanted |= {s for stmt in statements for entry in stmt.index for s in symbols(entry)}
        wanted |= _values_symbols(statements, self.loops)
        facts = self.builder.facts
        known = tuple(c for c in facts.known if all(s in wanted for s in symbols(c.term)))
        return Computation(
            "kernel",
            spaces,
            tuple(statements),
            tuple(sorted(wanted)),
            replace(facts, known=known),
        )


def _values_symbols(statements: Iterable[Stmt], variables: Iterable[str]) -> set[str]:
    """Symbols in subscripts of values."""
    found: set[str] = set()
    for stmt in statements:
        for expression in stmt.expressions:
            found |= names(expression)
    return found - {*variables}


def _may_be_parallel(computation: Computation) -> bool:
    """Whether outermost loops may run in parallel.

    Sums belong to an iteration, which clears them before it uses them: legality is tested on a
    computation with private sums per iteration.
    """
    outermost = {stmt.name: stmt.schedule[stmt.loops[0]] for stmt in computation.statements}
    local = {space.name for space in computation.spaces if space.role is Role.LOCAL}
    try:
        apart = _with_private_temporaries(computation, outermost, local)
        for stmt in computation.statements:
            apart = parallelise(apart, stmt.name)
    except IllegalStep:
        return False
    return True


def _with_private_temporaries(
    computation: Computation, outermost: Mapping[str, Term], local: set[str]
) -> Computation:
    """The computation with a first subscript at its temporaries: the outermost variable."""
    many = Term.of(1 << 62)
    spaces = tuple(
        replace(space, shape=(many, *space.shape)) if space.name in local else space
        for space in computation.spaces
    )
    statements = []
    for stmt in computation.statements:
        (v,) = variables(outermost[stmt.name])

        def change(e: Expr, v: str = v) -> Expr:
            if isinstance(e, Load) and e.array in local:
                return replace(e, index=(ExprVar(v), *e.index))
            return e

        index = (Term.of(TupleVar(v)), *stmt.index) if stmt.target in local else stmt.index
        statements.append(replace(stmt, index=index, value=rewrite(stmt.value, change)))
    return replace(computation, spaces=spaces, statements=tuple(statements))


def _is_whole(outer: tuple[str, ...], inside: tuple[str, ...], composed: ComposedStatement) -> bool:
    """Whether every element of the result is stored exactly once: out[v] for 0 <= v < extent."""
    if len(outer) != 1 or inside or len(composed.index) != 1:
        return False
    v = Term.of(TupleVar(outer[0]))
    (extent,) = composed.builder.spaces[OUT].shape
    own = {c for c in composed.conj.constraints if variables(c.term) == {outer[0]}}
    return composed.index[0] == v and own == {Constraint.ge(v), Constraint.lt(v, extent)}


def _row_bounds(outer: tuple[str, ...], conj: Conj) -> dict[Constraint, RowBound]:
    """Constraints that tie the outermost variable to a number read inside: 0 <= ii + off(d)."""
    (v,) = outer
    found: dict[Constraint, RowBound] = {}
    for constraint in conj.constraints:
        term = constraint.term
        side = term.coefficient(TupleVar(v))
        rest = term.without(TupleVar(v))
        called = [(atom, f) for atom, f in rest.terms if isinstance(atom, UFCall)]
        if constraint.is_equality or side not in (1, -1) or len(called) != 1:
            continue
        atom, factor = called[0]
        others = rest.without(atom)
        is_apart = all(isinstance(a, Sym) for a, _ in others.terms)
        if factor in (1, -1) and is_apart and not any(v in variables(a) for a in atom.args):
            found[constraint] = RowBound(side == 1, atom.name, factor, others)
    steps = {atom.args for c in found for atom, _ in c.term.terms if isinstance(atom, UFCall)}
    is_one = len(steps) == 1 and all(isinstance(x.atom, TupleVar) for x in next(iter(steps)))
    return found if is_one and len(next(iter(steps))) == 1 else {}


def _parts(
    outer: str,
    conj: Conj,
    row_bounds: dict[Constraint, RowBound],
    interior_ranges: tuple[tuple[int, int], ...],
) -> list[Conj]:
    """The domain before the first interior range, in each of them, and after the last one.

    In a range the steps first <= d < last of the index arrays exist for every row and no others
    do, so that nothing ties rows to index arrays. Without numbers there is one, of all steps.
    """
    v = Term.of(TupleVar(outer))
    cuts = [Term.of(Sym(cut_name(number))) for number in range(max(len(interior_ranges), 1) + 1)]
    within = Conj.of(c for c in conj.constraints if c not in row_bounds)
    parts = [conj.conjoined([Constraint.lt(v, cuts[0])])]
    for number in range(len(cuts) - 1):
        rows = [Constraint.ge(v, cuts[number]), Constraint.lt(v, cuts[number + 1])]
        if interior_ranges:
            first, last = interior_ranges[number]
            rows += [Constraint.ge(_step(row_bounds), Term.of(first))]
            rows += [Constraint.lt(_step(row_bounds), Term.of(last))]
        parts.append(within.conjoined(rows))
    return [*parts, conj.conjoined([Constraint.ge(v, cuts[-1])])]


def _step(row_bounds: dict[Constraint, RowBound]) -> Term:
    """The variable by which the row bounds index their arrays."""
    (step,) = {
        atom.args for c in row_bounds for atom, _ in c.term.terms if isinstance(atom, UFCall)
    }.pop()
    return step
