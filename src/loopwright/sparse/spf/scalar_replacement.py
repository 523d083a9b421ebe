"""Storage reduction: a temporary array whose values live within one iteration becomes a scalar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loopwright.diagnostics import IllegalStep
from loopwright.ir.expr import Expr, Load
from loopwright.ir.program import Role
from loopwright.ir.walk import rewrite
from loopwright.sparse.spf.array_dependences import SpaceAccess, accesses, shares_loop
from loopwright.sparse.spf.computation import Computation, Stmt
from loopwright.sparse.spf.scan_pieces import Piece, pieces_of
from loopwright.sparse.uf import Atom, Conj, Constraint, Term, TupleVar, substitute, variables

__all__ = ["as_scalar", "is_private"]


def as_scalar(computation: Computation, name: str) -> Computation:
    """Keep a temporary array in one element.

    rewrite:  for i: { t[i] = f(i); b[i] = g(t[i]) }   ->   for i: { t = f(i); b[i] = g(t) }
    needs:    one statement writes it; every read stands behind in the same loops, and reads what
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
    if not _stands_behind(computation, writer, reader, last + 1):
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


def _stands_behind(computation: Computation, writer: Stmt, reader: Stmt, place: int) -> bool:
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
