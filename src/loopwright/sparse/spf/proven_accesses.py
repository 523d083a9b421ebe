"""Which accesses of a computation are not proven to stay inside their arrays.

The nest is what runs, so the proof is about the nest: what its loops and tests establish around an
access, together with the facts that a call validates, must imply that each subscript is inside.
Elements of arrays that are given and not written count as values of a function, all others as
unknown. Arithmetic is that of the integers: who calls the code makes sure that symbols and numbers
of 64 bits are small (see `compile_computation`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field

from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import INT64
from loopwright.ir.expr import Binary, Const, Expr, Load
from loopwright.ir.loops import Alloc, Block, For, If, Let, LoopNest, Prefetch, Stmt, Store
from loopwright.ir.program import Role
from loopwright.ir.visit import walk
from loopwright.lazy_dataclass import dataclass
from loopwright.sparse.spf.computation import Computation
from loopwright.sparse.spf.implied import KnownConstraints
from loopwright.sparse.spf.term_exprs import as_term
from loopwright.sparse.uf import Conj, Constraint, Facts, Term, TupleVar, calls, variables

__all__ = ["unproven_arrays"]


def unproven_arrays(computation: Computation, nest: LoopNest, facts: Facts) -> frozenset[str]:
    """The arrays with an access that is not proven to be inside, by the facts of a call."""
    proof = _Proof(computation, facts)
    try:
        proof.visit(nest.body, _Place(frozenset(), KnownConstraints(tuple(facts.known), facts)))
    except UsageError:  # of the algebra, which cannot say what the nest computes
        return frozenset(space.name for space in computation.spaces)
    return frozenset(proof.unproven)


@dataclass(frozen=True)
class _Place:
    """A place in the nest: the variables that have values there, and what holds."""

    names: frozenset[str]
    known: KnownConstraints

    def bind(self, name: str) -> _Place:
        kept = tuple(c for c in self.known.constraints if name not in variables(c.term))
        return _Place(self.names | {name}, KnownConstraints(kept, self.known.facts))

    def also(self, constraints: Iterable[Constraint]) -> _Place:
        return _Place(self.names, self.known.also(*constraints))


@dataclass
class _Proof:
    """Visits a nest and gathers the arrays with accesses that are not proven."""

    computation: Computation
    facts: Facts
    unproven: set[str] = field(default_factory=set)

    def visit(self, stmt: Stmt, place: _Place) -> None:
        match stmt:
            case Block(body=body):
                for part in body:
                    self.visit(part, place)
            case For(var=name, start=start, stop=stop, body=body, until=until):
                self.reads((start, stop, *(() if until is None else (until,))), place)
                inner = place.bind(name)
                lows = [self.term(x, place) for x in _parts(start, "max")]
                highs = [self.term(x, place) for x in _parts(stop, "min")]
                x = Term.of(TupleVar(name))
                bounds = [Constraint.ge(x, low) for low in lows if low is not None]
                bounds += [Constraint.lt(x, high) for high in highs if high is not None]
                is_forward = isinstance(stmt.step, Const) and stmt.step.value.real > 0
                self.visit(body, inner.also(bounds) if is_forward else inner)
            case If(cond=cond, body=body, orelse=orelse):
                self.reads((cond,), place)
                tests = list(self.tests(cond, place))
                self.visit(body, place.also(tests))
                if orelse is not None:
                    self.visit(orelse, place)
            case Let(name=name, value=value, body=body):
                self.reads((value,), place)
                term = self.term(value, place) if value.dtype == INT64 else None
                same = () if term is None else (Constraint.eq(Term.of(TupleVar(name)), term),)
                self.visit(body, place.bind(name).also(same))
            case Store(buffer=name, index=index, value=value):
                self.reads((*index, value), place)
                self.access(name, index, place)
            case Alloc(shape=shape, body=body):
                self.reads(shape, place)
                self.visit(body, place)
            case Prefetch():
                pass  # touches nothing that the program sees, and never faults
            case _:
                raise UsageError(f"no proof about {type(stmt).__name__}")

    def reads(self, exprs: Iterable[Expr], place: _Place) -> None:
        for expr in exprs:
            for part in walk(expr):
                if isinstance(part, Load):
                    self.access(part.array, part.index, place)

    def access(self, name: str, index: tuple[Expr, ...], place: _Place) -> None:
        if name in self.unproven:
            return
        space = self.computation.by_name.get(name)
        shape = () if space is None else space.shape
        if space is None or len(shape) != len(index):
            self.unproven.add(name)
            return
        for entry, extent in zip(index, shape, strict=True):
            term = self.term(entry, place)
            if term is None or not self.is_inside(term, extent, place):
                self.unproven.add(name)
                return

    def is_inside(self, term: Term, extent: Term, place: _Place) -> bool:
        wanted = (Constraint.ge(term), Constraint.lt(term, extent))
        left = [c for c in wanted if not place.known.implies(c)]
        if not left:
            return True
        from loopwright.sparse.uf.oracle import implies  # lazy: loads isl

        return implies(Conj.of(place.known.constraints), left, self.facts)

    def term(self, expr: Expr, place: _Place) -> Term | None:
        """An expression as a term of what does not change while the nest runs."""
        found = as_term(expr, place.names)
        if found is None:
            return None
        spaces = self.computation.by_name
        is_fixed = all(
            call.name in spaces and spaces[call.name].role is Role.IN for call in calls(found)
        )
        return found if is_fixed else None

    def tests(self, cond: Expr, place: _Place) -> Iterator[Constraint]:
        """What a condition establishes where it is true."""
        for part in _parts(cond, "and"):
            if not isinstance(part, Binary) or part.x.dtype != INT64:
                continue
            x, y = self.term(part.x, place), self.term(part.y, place)
            if x is None or y is None:
                continue
            match part.op:
                case "lt":
                    yield Constraint.lt(x, y)
                case "le":
                    yield Constraint.le(x, y)
                case "gt":
                    yield Constraint.gt(x, y)
                case "ge":
                    yield Constraint.ge(x, y)
                case "eq":
                    yield Constraint.eq(x, y)


def _parts(expr: Expr, op: str) -> Iterator[Expr]:
    """The operands of nested operators of one kind."""
    if isinstance(expr, Binary) and expr.op == op:
        yield from _parts(expr.x, op)
        yield from _parts(expr.y, op)
    else:
        yield expr
