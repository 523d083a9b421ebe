"""Dead and redundant statements and storage, eliminated.

Statements that no output depends on, or that store again what is stored already, are dropped. A
temporary array whose values live within one iteration is replaced by a scalar.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from loopwright.diagnostics import IllegalStep
from loopwright.ir.expr import Expr, Load
from loopwright.ir.expr import Var as ExprVar
from loopwright.ir.program import Role
from loopwright.ir.visit import rewrite, walk
from loopwright.sparse.spf.array_dependences import (
    SpaceAccess,
    accesses,
    before,
    prove_empty,
    shares_loop,
    times,
)
from loopwright.sparse.spf.computation import Computation, Stmt
from loopwright.sparse.spf.scan_pieces import Piece, pieces_of
from loopwright.sparse.uf import Atom, Conj, Constraint, Term, TupleVar, substitute, variables

__all__ = ["as_scalar", "drop_dead", "drop_redundant", "is_private"]


def as_scalar(computation: Computation, name: str) -> Computation:
    """Keep a temporary array in one element.

    rewrite:  for i: { t[i] = f(i); b[i] = g(t[i]) }   ->   for i: { t = f(i); b[i] = g(t) }
    needs:    one statement writes it; every read comes after it in the same loops, and reads what
              was written in the same iteration        refuses: IllegalStep with the reader
    """
    step = f"as_scalar({name})"
    space = computation.by_name.get(name)
    if space is None or space.role is not Role.LOCAL:
        raise IllegalStep(step, f"'{name}' is no temporary of '{computation.name}'")
    if computation.marks:
        raise IllegalStep(step, "loops are parallel already; reduce storage first")
    _check_lifetime(step, computation, name)
    return _replaced(computation, name)


def is_private(computation: Computation, name: str, place: int) -> bool:
    """Whether every iteration of a loop sets a temporary scalar before it reads it.

    The loop is that at `place` of the schedule of the statement that writes the scalar.
    """
    space = computation.space(name)
    writers = [stmt for stmt in computation.statements if stmt.target == name]
    if space.role is not Role.LOCAL or space.rank or any(place not in w.loops for w in writers):
        return False
    try:
        _check_lifetime(f"private({name})", computation, name)
    except IllegalStep:
        return False
    return True


def _check_lifetime(step: str, computation: Computation, name: str) -> None:
    """Refuse a temporary with values that are read outside of the iteration that writes them."""
    writers = [stmt for stmt in computation.statements if stmt.target == name]
    if len(writers) != 1:
        names = ", ".join(stmt.name for stmt in writers) or "no statement"
        raise IllegalStep(step, f"one statement must write it, not {names}")
    writer = writers[0]
    _check_writer(step, writer)
    for stmt in computation.statements:
        for access in accesses(stmt):
            if access.space == name and not access.is_write:
                _check_reader(step, computation, writer, access)


def _check_writer(step: str, writer: Stmt) -> None:
    if writer.guard is not None or len(writer.domain.conjs) != 1:
        raise IllegalStep(step, f"{writer.name} may leave out instances in its loops")
    if any(conj.exists for conj in writer.domain.conjs):
        raise IllegalStep(step, f"the domain of {writer.name} says that a variable exists")
    if writer.target in writer.reads:
        raise IllegalStep(step, f"{writer.name} reads it before it writes it")


def _check_reader(step: str, computation: Computation, writer: Stmt, access: SpaceAccess) -> None:
    reader = access.stmt
    if access.entries is not None:
        raise IllegalStep(step, f"the domain of {reader.name} reads it")
    last = writer.loops[-1] if writer.loops else -1
    if writer.loops and not shares_loop(writer, reader, last):
        raise IllegalStep(step, f"{reader.name} does not share the loops of {writer.name}")
    if not _comes_after(computation, writer, reader, last + 1):
        raise IllegalStep(step, f"{reader.name} does not stand behind {writer.name}")
    point = _instance(computation, writer, reader, last + 1)
    if point is None:
        raise IllegalStep(
            step, f"the instance of {writer.name} beside one of {reader.name} is not determined"
        )
    wanted = [c.substitute(point) for c in writer.domain.conjs[0].constraints]
    for mine, other in zip(writer.index, access.index, strict=True):
        if other is None:
            raise IllegalStep(step, f"the subscript of {reader.name} is no term")
        wanted.append(Constraint.eq(substitute(mine, point), other))
    for conj in reader.domain.conjs:
        missing = _first_open(computation, conj, wanted)
        if missing is not None:
            raise IllegalStep(
                step,
                f"{reader.name} may read what {writer.name} has not written in the same iteration: "
                f"{missing} does not follow from {conj}",
            )


def _comes_after(computation: Computation, writer: Stmt, reader: Stmt, place: int) -> bool:
    """Whether the reader follows the writer within an iteration of their loops."""
    theirs = (*reader.schedule[place:], Term.of(0))[0]
    mine = (*writer.schedule[place:], Term.of(0))[0]
    if theirs.is_constant and mine.constant != theirs.constant:
        return mine.constant < theirs.constant
    names = [stmt.name for stmt in computation.statements]
    is_later = names.index(writer.name) < names.index(reader.name)
    return is_later and len(reader.schedule) <= place + 1


def _instance(
    computation: Computation, writer: Stmt, reader: Stmt, length: int
) -> dict[Atom, Term] | None:
    """The writer's instance in the iteration of an instance of the reader."""
    alone = computation.with_statements([writer])
    piece: Piece = pieces_of(replace(alone, marks=()))[0]
    known = frozenset(reader.variables)
    for mine, theirs in zip(piece.times[:length], reader.schedule[:length], strict=True):
        if mine.is_constant:
            continue
        equal = Constraint.eq(mine, theirs)
        piece = replace(piece, waiting=(*piece.waiting, equal))
    is_moving = True
    while is_moving and piece.unknown:
        found = next((d for d in piece.definitions(known) if d.is_exact), None)
        is_moving = found is not None
        if found is not None:
            piece = piece.put({TupleVar(found.name): found.value})
    values = dict(piece.values)
    if any(not variables(value) <= known for value in values.values()):
        return None
    return {TupleVar(name): value for name, value in values.items()}


def _first_open(
    computation: Computation, conj: Conj, wanted: Sequence[Constraint]
) -> Constraint | None:
    from loopwright.sparse.uf.oracle import implies  # lazy: loads isl

    return next((c for c in wanted if not implies(conj, c, computation.facts)), None)


def _replaced(computation: Computation, name: str) -> Computation:
    def change(expr: Expr) -> Expr:
        return Load(name, (), expr.dtype) if isinstance(expr, Load) and expr.array == name else expr

    statements = tuple(
        replace(
            stmt,
            index=() if stmt.target == name else stmt.index,
            value=rewrite(stmt.value, change),
            guard=None if stmt.guard is None else rewrite(stmt.guard, change),
        )
        for stmt in computation.statements
    )
    spaces = tuple(
        replace(space, shape=()) if space.name == name else space for space in computation.spaces
    )
    return replace(computation, spaces=spaces, statements=statements)


def drop_dead(computation: Computation, live: Iterable[str] | None = None) -> Computation:
    """The computation without statements that no output depends on, and their temporaries.

    `live` names the live-out spaces; by default, all outputs.
    """
    wanted = set(computation.live_outs if live is None else live)
    kept: set[str] = set()
    is_moving = True
    while is_moving:
        is_moving = False
        for stmt in computation.statements:
            if stmt.name not in kept and stmt.target in wanted:
                kept.add(stmt.name)
                wanted |= stmt.reads | {stmt.target}
                is_moving = True
    statements = tuple(stmt for stmt in computation.statements if stmt.name in kept)
    return _tidy(replace(computation, statements=statements))


def drop_redundant(computation: Computation) -> Computation:
    """The computation without statements that store again what an earlier one has stored.

    Both have the same domain, place and value, and the value does not read the place's space. No
    other statement that touches it, or writes what the value or the domain reads, may run between.
    Where instances store different values to one place, the last store decides, so both statements
    must run such instances in one order.
    """
    found = computation
    for stmt in computation.statements:
        twin = next((other for other in found.statements if _repeats(found, other, stmt)), None)
        if twin is not None:
            found = found.with_statements(s for s in found.statements if s.name != stmt.name)
    return _tidy(found)


def _tidy(computation: Computation) -> Computation:
    """Drop temporaries that nothing accesses, and marks of deleted statements."""
    used = {name for stmt in computation.statements for name in (*stmt.reads, stmt.target)}
    names = {stmt.name for stmt in computation.statements}
    spaces = tuple(s for s in computation.spaces if s.role is not Role.LOCAL or s.name in used)
    marks = tuple(mark for mark in computation.marks if mark[0] in names)
    return replace(computation, spaces=spaces, marks=marks)


def _repeats(computation: Computation, first: Stmt, second: Stmt) -> bool:
    if first.name == second.name or second.target in second.reads:
        return False
    mine = (first.domain, first.target, first.index, first.value, first.guard)
    if mine != (second.domain, second.target, second.index, second.value, second.guard):
        return False
    if not _is_before(computation, first, second):
        return False
    if not _stores_end_alike(computation, first, second):
        return False
    for other in computation.statements:
        if other.name in (first.name, second.name):
            continue
        touches = other.target in second.reads or second.target in (*other.reads, other.target)
        if touches and not (
            _runs_before(computation, other, first) or _runs_before(computation, second, other)
        ):
            return False
    return True


def _is_before(computation: Computation, first: Stmt, second: Stmt) -> bool:
    """Whether each instance of the first runs before the same instance of the second."""
    same = [
        Constraint.eq(Term.of(TupleVar(name)), Term.of(TupleVar(f"{name}'")))
        for name in first.variables
    ]
    return _never(computation, first, second, same, _not_before(computation, first, second))


def _stores_end_alike(computation: Computation, first: Stmt, second: Stmt) -> bool:
    """Whether each place holds the same after the first alone as after both.

    The last store to a place is one of the second, for each instance of it runs after the same one
    of the first. The first ends with the same instance if it runs those that store to one place in
    the order of the second: no i, i' with

        index(i) = index(i'),  i before i' in the second,  i not before i' in the first

    which holds where no two store to one place. Of a value that is one for all instances any store
    may be the last.
    """
    if not _varies(second):
        return True
    orders = [
        (*later, *sooner)
        for later in before(computation, second, second)
        for sooner in _not_before(computation, first, first)
    ]
    primes: dict[Atom, Term] = {
        TupleVar(name): Term.of(TupleVar(f"{name}'")) for name in first.variables
    }
    meet = [Constraint.eq(entry, substitute(entry, primes)) for entry in first.index]
    return _never(computation, first, second, meet, orders)


def _varies(stmt: Stmt) -> bool:
    """Whether the value of a statement may differ between its instances."""
    return any(isinstance(x, ExprVar) and x.name in stmt.variables for x in walk(stmt.value))


def _runs_before(computation: Computation, first: Stmt, second: Stmt) -> bool:
    """Whether every instance of the first runs before every instance of the second."""
    return _never(computation, first, second, [], _not_before(computation, first, second))


def _not_before(
    computation: Computation, first: Stmt, second: Stmt
) -> list[tuple[Constraint, ...]]:
    """The cases in which an instance of the first does not run before one of the second."""
    rows = times(first, second)
    found: list[tuple[Constraint, ...]] = []
    prefix: list[Constraint] = []
    for x, y in rows:
        found.append((*prefix, Constraint.gt(x, y)))
        prefix.append(Constraint.eq(x, y))
    names = [stmt.name for stmt in computation.statements]
    if names.index(first.name) >= names.index(second.name):
        found.append(tuple(prefix))
    return found


def _never(
    computation: Computation,
    first: Stmt,
    second: Stmt,
    more: list[Constraint],
    orders: list[tuple[Constraint, ...]],
) -> bool:
    primes = {name: f"{name}'" for name in second.variables}
    cases = [
        Conj.of(
            (
                *mine.rename({name: f"{name}.1" for name in mine.exists}).constraints,
                *theirs.rename({name: f"{name}.2" for name in theirs.exists} | primes).constraints,
                *more,
                *order,
            )
        )
        for mine in first.domain.conjs
        for theirs in second.domain.conjs
        for order in orders
    ]
    return prove_empty(cases, computation.facts)
