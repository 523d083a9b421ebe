"""Computation: statements over data spaces, with domains and schedules that may call index arrays.

A statement is executed once for every point of its domain, at the time that its schedule gives to
the point; times are compared entry by entry, a missing entry counts as 0, and of two statements at
one time the one that stands first goes first. An uninterpreted function is the data space of its
name: f(x) is the element f[x], and a domain that calls f reads it.

What a domain calls is read as soon as the times before have given values to the arguments, after
everything that runs earlier; nothing that runs later, up to the last instance concerned, may write
it (see legality.check_domains). Stages that build index arrays come before those that use them, or
share with them the loops over the arguments only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import BOOL, DType
from loopwright.ir.expr import Expr, Load
from loopwright.ir.expr import Var as ExprVar
from loopwright.ir.loops import Mark
from loopwright.ir.program import Role
from loopwright.ir.text import expr_text
from loopwright.ir.visit import walk
from loopwright.lazy_dataclass import dataclass
from loopwright.sparse.curves import CURVES
from loopwright.sparse.uf import (
    NO_FACTS,
    Facts,
    IntegerSet,
    Term,
    UFCall,
    atoms,
    calls,
    parse_linear,
    parse_set,
    symbols,
    variables,
)

__all__ = ["Computation", "DataSpace", "Entry", "Stmt", "computation_text"]

Entry: TypeAlias = Term | int | str  # of a schedule; a text is parsed over the domain's variables


@dataclass(frozen=True)
class DataSpace:
    """A named array; a scalar has rank 0. LOCAL spaces are temporaries of the computation."""

    name: str
    dtype: DType
    shape: tuple[Term, ...]  # extents in symbolic constants; elements lie in row-major order
    role: Role

    @classmethod
    def of(cls, name: str, dtype: DType, shape: Iterable[Entry], role: Role) -> DataSpace:
        """The space with extents given as numbers, terms or texts."""
        return cls(name, dtype, tuple(_term(extent, ()) for extent in shape), role)

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __str__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        return f"{self.role.value} {self.name}[{shape}]: {self.dtype}"


@dataclass(frozen=True)
class Stmt:
    """`target[index] = value` for every point of `domain`, at the times of `schedule`.

    In `value` the variables of the domain and the symbolic constants are int64 variables; index
    arrays are loaded as data spaces. An update such as += loads its own target in `value`. Where
    `guard` is given, an instance stores only if it is true of the data at that time. `ahead` has no
    meaning: stores that advance at many places in turn wait less for memory when the
    line `ahead` elements further on is prefetched.
    """

    name: str
    domain: IntegerSet
    schedule: tuple[Term, ...]  # over the variables of the domain
    target: str
    index: tuple[Term, ...]
    value: Expr
    guard: Expr | None = None
    ahead: int = 0  # elements along the last subscript; 0 asks for nothing

    @classmethod
    def of(
        cls,
        name: str,
        domain: IntegerSet | str,
        schedule: Iterable[Entry],
        target: str,
        value: Expr,
        guard: Expr | None = None,
    ) -> Stmt:
        """The statement of texts: `{[n] : 0 <= n < NNZ}`, (0, "n", 0), `rowptr(row(n)+1)`.

        The target is written as a call of the space; a scalar is written `s()`.
        """
        found = parse_set(domain) if isinstance(domain, str) else domain
        times = tuple(_term(entry, found.variables) for entry in schedule)
        place = parse_linear(target, found.variables).atom
        if not isinstance(place, UFCall) or place.result:
            raise UsageError(
                f"the target of statement '{name}' is no element of a data space",
                target,
                "write it as a call, such as y(i), or s() for a scalar",
            )
        return cls(name, found, times, place.name, place.args, value, guard)

    @property
    def variables(self) -> tuple[str, ...]:
        return self.domain.variables

    @property
    def loops(self) -> tuple[int, ...]:
        """The places of the schedule that are no constants, outermost first."""
        return tuple(at for at, entry in enumerate(self.schedule) if not entry.is_constant)

    @property
    def domain_calls(self) -> tuple[UFCall, ...]:
        """Calls that decide which instances there are and when they run."""
        timed = (call for entry in self.schedule for call in calls(entry))
        return tuple(dict.fromkeys((*self.domain.calls, *timed)))

    @property
    def index_calls(self) -> tuple[UFCall, ...]:
        """Calls in the subscripts of the target."""
        return tuple(dict.fromkeys(call for entry in self.index for call in calls(entry)))

    @property
    def loads(self) -> tuple[Load, ...]:
        """Elements that the value and the guard read."""
        read = (x for part in self.expressions for x in walk(part) if isinstance(x, Load))
        return tuple(dict.fromkeys(read))

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """The value, and the guard where there is one."""
        return (self.value,) if self.guard is None else (self.value, self.guard)

    @property
    def reads(self) -> frozenset[str]:
        """The names of all spaces read: by the value, by subscripts and by the domain."""
        called = (call.name for call in (*self.domain_calls, *self.index_calls))
        return frozenset((*called, *(load.array for load in self.loads)))

    def __str__(self) -> str:
        return self.text(expr_text)

    def text(self, written: Callable[[Expr], str]) -> str:
        """The statement as text, its expressions as `written` writes them."""
        times = ", ".join(map(str, self.schedule))
        place = ", ".join(map(str, self.index))
        guard = "" if self.guard is None else f" if {written(self.guard)}"
        ahead = f" ahead {self.ahead}" if self.ahead else ""
        text = f"{self.target}[{place}] = {written(self.value)}{guard}{ahead}"
        return f"{self.name}: {self.domain} at ({times}): {text}"


@dataclass(frozen=True)
class Computation:
    """Statements in textual order over data spaces and symbolic constants, and what is known."""

    name: str
    spaces: tuple[DataSpace, ...]
    statements: tuple[Stmt, ...]
    symbols: tuple[str, ...] = ()  # symbolic constants, int64 values of a run
    facts: Facts = NO_FACTS
    marks: tuple[tuple[str, int, Mark], ...] = ()  # (statement, number of its loop from 1, mark)
    reassoc: bool = False  # floating sums may be added in another order

    def __post_init__(self) -> None:
        _check_names(self)
        for space in self.spaces:
            for extent in space.shape:
                _check_term(self, extent, (), f"the shape of '{space.name}'")
        for stmt in self.statements:
            _check_statement(self, stmt)

    @property
    def by_name(self) -> Mapping[str, DataSpace]:
        return {space.name: space for space in self.spaces}

    def space(self, name: str) -> DataSpace:
        return next(space for space in self.spaces if space.name == name)

    def statement(self, name: str) -> Stmt:
        """The statement of a name; a name that is not there is refused."""
        found = next((stmt for stmt in self.statements if stmt.name == name), None)
        if found is None:
            raise UsageError(
                f"computation '{self.name}' has no statement '{name}'",
                ", ".join(stmt.name for stmt in self.statements),
                "name one of these",
            )
        return found

    def with_statements(self, statements: Iterable[Stmt]) -> Computation:
        return replace(self, statements=tuple(statements))

    def with_schedules(self, schedules: Mapping[str, tuple[Term, ...]]) -> Computation:
        """The same statements at other times."""
        return self.with_statements(
            replace(stmt, schedule=schedules.get(stmt.name, stmt.schedule))
            for stmt in self.statements
        )

    @property
    def live_outs(self) -> frozenset[str]:
        """The spaces that the world outside sees."""
        return frozenset(s.name for s in self.spaces if s.role in (Role.OUT, Role.INOUT))

    def __str__(self) -> str:
        return self.text(expr_text)

    def text(self, written: Callable[[Expr], str]) -> str:
        """The computation as text, expressions as `written` writes them."""
        lines = [f"computation {self.name}({', '.join(self.symbols)})"]
        lines += [f"  {space}" for space in self.spaces]
        lines += [f"  {stmt.text(written)}" for stmt in self.statements]
        return "\n".join(lines)


def computation_text(computation: Computation) -> str:
    """Everything that code for a computation depends on; equal texts, equal code."""
    facts = computation.facts
    known = [*map(str, facts.rules)]
    marks = [f"{name} {level} {mark.value}" for name, level, mark in computation.marks]
    return "\n".join([computation.text(repr), *known, *marks, f"reassoc {computation.reassoc}"])


def _term(entry: Entry, names: Iterable[str]) -> Term:
    return parse_linear(entry, names) if isinstance(entry, str) else Term.of(entry)


def _check_names(computation: Computation) -> None:
    spaces = [space.name for space in computation.spaces]
    statements = [stmt.name for stmt in computation.statements]
    for what, names in (("name", [*spaces, *computation.symbols]), ("statement", statements)):
        again = next((name for at, name in enumerate(names) if name in names[:at]), None)
        if again is not None:
            raise UsageError(
                f"the {what} '{again}' is declared twice in computation '{computation.name}'",
                ", ".join(names),
                "rename one of the two",
            )


def _check_statement(computation: Computation, stmt: Stmt) -> None:
    where = f"statement '{stmt.name}'"
    spaces = computation.by_name
    taken = set(stmt.variables) & ({*spaces} | set(computation.symbols))
    if taken:
        raise UsageError(
            f"'{min(taken)}' names a variable of {where} and something else",
            str(stmt.domain),
            "rename the variable",
        )
    for call in stmt.domain.calls:
        _check_index(computation, call, f"the domain of {where}")
    if stray := sorted(stmt.domain.symbols - set(computation.symbols)):
        raise _undeclared(stray[0], f"the domain of {where}")
    for entry in stmt.schedule:
        _check_term(computation, entry, stmt.variables, f"the schedule of {where}")
    for entry in stmt.index:
        _check_term(computation, entry, stmt.variables, f"the target of {where}")
    _check_element(computation, stmt.target, len(stmt.index), f"the target of {where}")
    target = spaces[stmt.target]
    if target.role is Role.IN:
        raise UsageError(
            f"{where} writes '{target.name}', which is an input",
            str(target),
            "declare it as an output or a temporary",
        )
    _check_value(computation, stmt, target)


def _check_value(computation: Computation, stmt: Stmt, target: DataSpace) -> None:
    where = f"the value of statement '{stmt.name}'"
    known = {*stmt.variables, *computation.symbols}
    if stmt.guard is not None and stmt.guard.dtype != BOOL:
        raise UsageError(f"the guard of statement '{stmt.name}' is no condition", str(stmt))
    for part in (x for expression in stmt.expressions for x in walk(expression)):
        if isinstance(part, ExprVar) and part.name not in known:
            raise _undeclared(part.name, where)
        if isinstance(part, Load):
            _check_element(computation, part.array, len(part.index), where)
            if part.dtype != computation.by_name[part.array].dtype:
                raise UsageError(
                    f"{where} loads '{part.array}' as {part.dtype}",
                    str(computation.by_name[part.array]),
                    "load it with its own type and cast the result",
                )
    if stmt.value.dtype != target.dtype:
        raise UsageError(
            f"{where} is {stmt.value.dtype}, its target '{target.name}' holds {target.dtype}",
            hint=f"cast the value to {target.dtype}",
        )


def _check_term(computation: Computation, term: Term, names: Iterable[str], where: str) -> None:
    if stray := sorted(variables(term) - set(names)):
        raise _undeclared(stray[0], where)
    if stray := sorted(symbols(term) - set(computation.symbols)):
        raise _undeclared(stray[0], where)
    for atom in atoms(term):
        if isinstance(atom, UFCall):
            _check_index(computation, atom, where)
            if atom.result:
                raise UsageError(
                    f"{atom} in {where} asks for a result of a function with several",
                    hint="give each result a data space of its own",
                )


def _check_index(computation: Computation, call: UFCall, where: str) -> None:
    _check_element(computation, call.name, len(call.args), where)
    space = computation.by_name.get(call.name)
    if space is not None and not space.dtype.is_integer:
        raise UsageError(
            f"'{call.name}' is called in {where} and holds {space.dtype}",
            str(space),
            "index arrays hold integers",
        )


def _check_element(computation: Computation, name: str, rank: int, where: str) -> None:
    found = computation.by_name.get(name)
    if found is None and name in CURVES:
        return
    if found is None:
        raise _undeclared(name, where)
    if found.rank != rank:
        raise UsageError(
            f"'{name}' has {rank} subscripts in {where}", str(found), f"it needs {found.rank}"
        )


def _undeclared(name: str, where: str) -> UsageError:
    return UsageError(
        f"'{name}' in {where} is not declared",
        hint="declare it as a data space, a symbol, or a variable of the domain",
    )
