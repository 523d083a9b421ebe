"""Inlining: the statements of one computation inside another, once or for every point of a set.

Names of the callee make way: its statements are called `callee_statement`, its temporaries and
variables get names that are free. What it takes and gives are spaces of the caller, its symbolic
constants terms of the caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from loopwright.diagnostics import UsageError
from loopwright.ir.expr import Expr, Load
from loopwright.ir.expr import Var as ExprVar
from loopwright.ir.program import Role
from loopwright.ir.visit import rewrite
from loopwright.lazy_dataclass import dataclass
from loopwright.sparse.spf.computation import Computation, DataSpace, Entry, Stmt
from loopwright.sparse.spf.term_exprs import as_expr
from loopwright.sparse.uf import (
    Atom,
    Conj,
    Facts,
    IntegerSet,
    Sym,
    Term,
    TupleVar,
    UFCall,
    fresh,
    parse_linear,
    parse_set,
    replace_atoms,
)

__all__ = ["inline"]


@dataclass(frozen=True)
class _Call:
    """How names of the callee are to be read in the caller."""

    outer: IntegerSet
    spaces: Mapping[str, tuple[str, tuple[Term, ...]]]  # space and leading subscripts
    symbols: Mapping[str, Term]
    by_name: Mapping[str, DataSpace]  # of the whole result
    names: Mapping[str, str] = field(default_factory=dict)  # variables of one statement

    def term(self, term: Term) -> Term:
        def change(atom: Atom) -> Term | None:
            match atom:
                case TupleVar(name=name) if name in self.names:
                    return Term.of(TupleVar(self.names[name]))
                case Sym(name=name):
                    return self.symbols[name]
                case UFCall(name=name, args=args, result=result) if name in self.spaces:
                    to, leading = self.spaces[name]
                    return Term.of(UFCall(to, (*leading, *args), result))
            return None

        return replace_atoms(term, change)

    def expr(self, expr: Expr) -> Expr:
        def change(part: Expr) -> Expr:
            if isinstance(part, ExprVar):
                if part.name in self.names:
                    return ExprVar(self.names[part.name])
                return as_expr(self.symbols[part.name], self.by_name)
            if isinstance(part, Load):
                to, leading = self.spaces[part.array]
                front = tuple(as_expr(entry, self.by_name) for entry in leading)
                return Load(to, (*front, *part.index), part.dtype)
            return part

        return rewrite(expr, change)


def inline(
    caller: Computation,
    callee: Computation,
    at: Iterable[Entry],
    arguments: Mapping[str, str],
    symbols: Mapping[str, Entry] | None = None,
    over: IntegerSet | str = "{[]}",
) -> Computation:
    """The caller with the statements of the callee at a time, for every point of the set `over`.

    `at` is the schedule in front of the callee's own, over the variables of `over`. `arguments`
    maps each space of the callee that is no temporary to a space of the caller, written `y`, or
    `A(i)` for the part of it with these leading subscripts. `symbols` maps its symbolic constants
    to terms of the caller over the variables of `over`; those left out keep their names.
    """
    outer = parse_set(over) if isinstance(over, str) else over
    names = outer.variables
    given = {name: _term((symbols or {}).get(name, name), names) for name in callee.symbols}
    spaces, local = _spaces(caller, callee, arguments, given, names)
    whole = (*caller.spaces, *local)
    call = _Call(outer, spaces, given, {space.name: space for space in whole})
    front = tuple(_term(entry, names) for entry in at)
    taken = {*caller.symbols, *(space.name for space in whole), *names}
    made = tuple(_statement(callee, stmt, call, front, taken) for stmt in callee.statements)
    return replace(
        caller,
        spaces=whole,
        statements=(*caller.statements, *made),
        facts=caller.facts | _facts(caller, callee, call),
    )


def _term(entry: Entry, names: Iterable[str]) -> Term:
    return parse_linear(entry, names) if isinstance(entry, str) else Term.of(entry)


def _spaces(
    caller: Computation,
    callee: Computation,
    arguments: Mapping[str, str],
    symbols: Mapping[str, Term],
    names: tuple[str, ...],
) -> tuple[dict[str, tuple[str, tuple[Term, ...]]], list[DataSpace]]:
    """Where each space of the callee is found, and its temporaries as new spaces."""
    found: dict[str, tuple[str, tuple[Term, ...]]] = {}
    local: list[DataSpace] = []
    taken = {*caller.symbols, *caller.by_name, *names}
    for space in callee.spaces:
        if space.role is Role.LOCAL:
            shape = tuple(_sized(callee, space, extent, symbols, names) for extent in space.shape)
            name = fresh(f"{callee.name}_{space.name}", taken)
            taken.add(name)
            local.append(replace(space, name=name, shape=shape))
            found[space.name] = name, ()
            continue
        if space.name not in arguments:
            raise UsageError(
                f"inlining '{callee.name}' needs a space for its argument '{space.name}'",
                ", ".join(arguments) or "no arguments",
                f"map '{space.name}' to a space of '{caller.name}'",
            )
        found[space.name] = _argument(caller, space, arguments[space.name], names)
    return found, local


def _argument(
    caller: Computation, space: DataSpace, text: str, names: tuple[str, ...]
) -> tuple[str, tuple[Term, ...]]:
    atom = parse_linear(text, names).atom
    leading = atom.args if isinstance(atom, UFCall) else ()
    name = atom.name if isinstance(atom, UFCall | Sym) else text
    to = caller.by_name.get(name)
    if to is None or to.dtype != space.dtype or to.rank != space.rank + len(leading):
        raise UsageError(
            f"'{text}' cannot stand for the argument {space}",
            "no such space" if to is None else str(to),
            f"give a part of rank {space.rank} and type {space.dtype}",
        )
    if to.role is Role.IN and space.role is not Role.IN:
        raise UsageError(f"'{name}' is an input, the callee writes it as '{space.name}'", str(to))
    return name, leading


def _sized(
    callee: Computation,
    space: DataSpace,
    extent: Term,
    symbols: Mapping[str, Term],
    names: tuple[str, ...],
) -> Term:
    made = replace_atoms(extent, lambda a: symbols.get(a.name) if isinstance(a, Sym) else None)
    if any(isinstance(a, TupleVar) and a.name in names for a, _ in made.terms):
        raise UsageError(
            f"the temporary '{space.name}' of '{callee.name}' has another size at every point",
            str(made),
            "give a bound for its size that does not depend on the point",
        )
    return made


def _statement(
    callee: Computation, stmt: Stmt, call: _Call, front: tuple[Term, ...], taken: set[str]
) -> Stmt:
    used = set(taken)
    names: dict[str, str] = {}
    bound = (*stmt.variables, *(name for conj in stmt.domain.conjs for name in conj.exists))
    for name in dict.fromkeys(bound):
        names[name] = fresh(name, used)
        used.add(names[name])
    own = replace(call, names=names)
    domain = IntegerSet(
        (*call.outer.variables, *(names[name] for name in stmt.variables)),
        tuple(
            Conj.of(
                (*outer.constraints, *(c.of_term(own.term(c.term)) for c in inner.constraints)),
                (*outer.exists, *(names[name] for name in inner.exists)),
            )
            for outer in call.outer.conjs
            for inner in stmt.domain.conjs
        ),
    )
    target, leading = call.spaces[stmt.target]
    return Stmt(
        f"{callee.name}_{stmt.name}",
        domain,
        (*front, *map(own.term, stmt.schedule)),
        target,
        (*leading, *map(own.term, stmt.index)),
        own.expr(stmt.value),
        None if stmt.guard is None else own.expr(stmt.guard),
    )


def _facts(caller: Computation, callee: Computation, call: _Call) -> Facts:
    """The callee's facts where they mean the same: of spaces and symbols that keep their names."""
    if any(term != Term.of(Sym(name)) for name, term in call.symbols.items()):
        return Facts()
    kept = {name for name, to in call.spaces.items() if to == (name, ())}
    functions = tuple(
        function
        for function in callee.facts.functions
        if function.name in kept and caller.facts.function(function.name) is None
    )
    further = callee.facts.further if len(kept) == len(call.spaces) else ()
    return Facts(functions, further, callee.facts.known)
