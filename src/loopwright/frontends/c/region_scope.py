"""What is known of every variable of C at the place of a region being read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from loopwright.frontends.c.arithmetic_types import CType, CValue
from loopwright.frontends.c.syntax_tree import (
    ArrayDim,
    BinaryExpr,
    CastExpr,
    Declaration,
    Name,
    SyntaxExpr,
    TernaryExpr,
    UnaryExpr,
)
from loopwright.frontends.fresh_names import FreshNames
from loopwright.frontends.refusal import Refusal
from loopwright.frontends.source_tree import Local
from loopwright.ir.expr import Binary, Const, Expr, Var
from loopwright.ir.visit import names

__all__ = ["Alias", "RegionScope", "Variable", "element_of", "place"]


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of C that has a place in the tree."""

    declaration: Declaration
    name: str  # in the tree
    ctype: CType
    shape: tuple[Expr, ...]
    is_integer: bool  # an integer that the region only reads: a parameter of the program


@dataclass(frozen=True, slots=True)
class Alias:
    """What a pointer parameter of an inlined function stands for: p[k][...] is an element of the
    variable at (*prefix, offset + k, ...).
    """

    variable: Variable
    prefix: tuple[Expr, ...]
    offset: Expr


@dataclass(slots=True)
class RegionScope:
    """The variables of one region while it is read from top to bottom.

    A variable that was last assigned an affine index is `known`: reading it gives that expression.
    Loop variables have no storage at all: between loops they are known or they are nothing.
    """

    names: FreshNames
    assigned: frozenset[Declaration]  # by assignments and by ++ and --, loop headers aside
    counters: frozenset[Declaration]  # every variable that counts a loop somewhere in the region
    changing: frozenset[str]  # names that some statement of the function changes
    untouched: set[Declaration]  # counters that still have the value from before the region
    variables: dict[Declaration, Variable] = field(default_factory=dict)
    sizes: list[str] = field(default_factory=list)
    loops: dict[Declaration, str] = field(default_factory=dict)  # being run -> unique name
    known: dict[Declaration, CValue] = field(default_factory=dict)
    refused: set[Declaration] = field(default_factory=set)  # reported once already
    always: list[Expr] = field(default_factory=list)  # conditions that hold in the whole region
    facts: list[Expr] = field(default_factory=list)  # conditions that hold at this place
    depth: int = 0  # loops and branches around this place
    aliases: dict[Declaration, Alias] = field(default_factory=dict)
    temporaries: list[Local] = field(default_factory=list)  # of inlined functions
    hidden: frozenset[str] = frozenset()  # names that here are not those of the file

    def prove(self, wanted: Expr) -> bool:
        """Whether an affine condition holds wherever this place is reached."""
        match wanted:
            case Binary(op="ge", x=Const(value=int() as x), y=Const(value=int() as y)):
                return x >= y
        # lazy: isl, which most files need only after they are read
        from loopwright.frontends.extract import implies

        return implies((*self.always, *self.facts), wanted)

    def forget(self, changed: Iterable[Declaration]) -> None:
        """Drop what is known of variables that may have changed."""
        for declaration in changed:
            self.known.pop(declaration, None)
            self.untouched.discard(declaration)

    @contextmanager
    def branch(self, *facts: Expr) -> Iterator[None]:
        """Read one branch of several that start from the same knowledge.

        The caller forgets what the branches change when all are read.
        """
        known, untouched, count = dict(self.known), set(self.untouched), len(self.facts)
        self.facts += facts
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1
            del self.facts[count:]
            self.known, self.untouched = known, untouched

    @contextmanager
    def aliased(self, aliases: Mapping[Declaration, Alias]) -> Iterator[None]:
        """Read the body of a function whose array parameters stand for others."""
        before = self.aliases
        self.aliases = {**before, **aliases}
        try:
            yield
        finally:
            self.aliases = before

    @contextmanager
    def loop(
        self, counter: Declaration, unique: str, changed: Iterable[Declaration]
    ) -> Iterator[None]:
        """Read a loop: what its body changes is unknown from the start, a former iteration ran."""
        count = len(self.facts)
        self.forget((*changed, counter))
        known, untouched = dict(self.known), set(self.untouched)
        self.loops[counter] = unique
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1
            del self.loops[counter]
            del self.facts[count:]
            self.known, self.untouched = known, untouched


# -- a C variable as array, scalar or integer parameter of the tree --------------------------


# Reads an extent as an affine expression; the text names its use in messages.
ReadExtent: TypeAlias = Callable[[SyntaxExpr, str], Expr]

_MOST_RANK = 32  # dimensions of one array; C's own limit on brackets is hardly higher


def element_of(declaration: Declaration) -> CType:
    """The type of a variable's elements, or a refusal."""
    kind = declaration.type
    name = declaration.name
    if "()" in kind.derivations:
        raise Refusal("LW135", f"the function '{name}' is used as a value")
    if "*" in kind.derivations[1:]:
        hint = f"declare '{name}' as an array of all its dimensions"
        raise Refusal("LW134", f"'{name}' leads to its elements over several pointers", hint=hint)
    if kind.element is None:
        hint = "char, short, int, long, float, double and _Bool are, signed or unsigned"
        raise Refusal("LW134", f"'{name}' has the type '{kind.text}', not supported", hint=hint)
    unsafe = kind.qualifiers & {"volatile", "_Atomic"}
    if unsafe:
        word = sorted(unsafe)[0]
        raise Refusal("LW134", f"'{name}' is {word}", hint="copy it to a plain variable")
    return kind.element


def place(scope: RegionScope, declaration: Declaration, read: ReadExtent) -> Variable:
    """Give a variable that is met for the first time its name and extents in the tree."""
    element = element_of(declaration)
    kind = declaration.type
    if kind.is_scalar:
        is_outside = declaration.where != "region"
        is_stored = declaration in scope.assigned and declaration not in scope.counters
        is_integer = is_outside and not element.is_floating and not is_stored
        name = scope.names.fresh(declaration.name)
        variable = Variable(declaration, name, element, (), is_integer)
        if is_integer and element.dtype.kind in "bu":
            scope.always.append(Var(name) >= 0)
        return variable
    if len(kind.derivations) > _MOST_RANK:
        raise Refusal("LW118", f"'{declaration.name}' has more than {_MOST_RANK} dimensions")
    name = scope.names.fresh(declaration.name)
    shape = tuple(
        _extent(scope, declaration, name, at, dim, read) for at, dim in enumerate(kind.derivations)
    )
    return Variable(declaration, name, element, shape, is_integer=False)


def _extent(
    scope: RegionScope,
    declaration: Declaration,
    name: str,
    at: int,
    dim: ArrayDim | str,
    read: ReadExtent,
) -> Expr:
    extent = dim.extent if isinstance(dim, ArrayDim) else None
    if extent is None:
        if at > 0:
            hint = "only the first extent may be left open"
            raise Refusal("LW118", f"an extent of '{declaration.name}' is missing", hint=hint)
        size = scope.names.fresh(f"{name}_0")
        scope.sizes.append(size)
        return Var(size)
    for used in _variables(extent):
        if used.where == "global" and "const" not in used.type.qualifiers:
            message = (
                f"an extent of '{declaration.name}' uses '{used.name}', which others may change"
            )
            raise Refusal("LW118", message, hint="use a parameter or a constant")
        if used in scope.assigned or used in scope.counters or used.name in scope.changing:
            raise Refusal(
                "LW118",
                f"an extent of '{declaration.name}' uses '{used.name}', which changes",
                hint=f"leave '{used.name}' as it is, and use another variable",
            )
    found = read(extent, f"an extent of '{declaration.name}'")
    match found:
        case Const(value=int() as value) if value <= 0:
            raise Refusal("LW118", f"an extent of '{declaration.name}' is {value}")
    if not isinstance(found, Const) and names(found):
        scope.always.append(found >= 0)
    return found


def _variables(expr: SyntaxExpr) -> list[Declaration]:
    """The variables in an extent."""
    match expr:
        case Name(meaning=Declaration() as declaration):
            return [declaration]
        case BinaryExpr(x=x, y=y):
            return [*_variables(x), *_variables(y)]
        case UnaryExpr(x=x) | CastExpr(x=x):
            return _variables(x)
        case TernaryExpr(cond=cond, x=x, y=y):
            return [*_variables(cond), *_variables(x), *_variables(y)]
        case _:
            return []
