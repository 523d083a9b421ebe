"""The variables of a region while it is read: names, extents, known values, facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from functools import partial
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
from loopwright.frontends.flat_rows import Prove, Sizes, exact_rows, row_sizes
from loopwright.frontends.fresh_names import FreshNames
from loopwright.frontends.refusal import Refusal, Reported
from loopwright.frontends.source_tree import Local
from loopwright.ir.expr import Binary, Const, Expr, Var
from loopwright.ir.visit import names
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "Alias",
    "FlatArrays",
    "RegionScope",
    "Variable",
    "declare_variable",
    "element_of",
    "may_be_flat",
]


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of C that has a parameter or a local in the tree."""

    declaration: Declaration
    name: str  # in the tree
    ctype: CType
    shape: tuple[Expr, ...]
    is_integer: bool  # an integer that the region only reads: a parameter of the program
    length: Expr | None = None  # of a flat array that is read as rows: its only extent in C

    @property
    def extents(self) -> tuple[Expr, ...]:
        """The extents that C knows of."""
        return self.shape if self.length is None else (self.length,)


@dataclass(frozen=True, slots=True)
class Alias:
    """The array behind a pointer parameter of an inlined function.

    p[k][...] is the element of the variable at (*prefix, offset + k, ...).
    """

    variable: Variable
    prefix: tuple[Expr, ...]
    offset: Expr


@dataclass(slots=True)
class FlatArrays:
    """The arrays of one subscript in which a region finds products: rows, as `flat_rows` says.

    A first reading looks for the extents of rows, and its tree means nothing; the second has them.
    """

    # Of every array with a product: all places in it that were read, and what may be an extent.
    places: dict[Declaration, list[tuple[Expr, Prove]]] = field(default_factory=dict)
    factors: dict[Declaration, dict[Expr, None]] = field(default_factory=dict)
    sizes: Mapping[Declaration, Sizes] = field(default_factory=dict)
    is_looking: bool = True

    def note(self, array: Declaration, place: Expr, factors: Iterable[Expr], prove: Prove) -> None:
        """Remember a place in an array."""
        self.places.setdefault(array, []).append((place, prove))
        self.factors.setdefault(array, {}).update(dict.fromkeys(factors))

    def chosen(self) -> FlatArrays:
        """The extents for which all proofs were found."""
        arrays = [array for array, factors in self.factors.items() if factors]
        found = {array: row_sizes(self.places[array], [*self.factors[array]]) for array in arrays}
        sizes = {array: extents for array, extents in found.items() if extents is not None}
        return FlatArrays(sizes=sizes, is_looking=False)


@dataclass(slots=True)
class RegionScope:
    """The variables of one region while it is read from top to bottom.

    A variable that was last assigned an affine index is `known`: reading it gives that expression.
    Loop variables have no storage: outside their loops they are known or must not be read.
    """

    names: FreshNames
    assigned: frozenset[Declaration]  # by =, +=, ++ and so on outside of loop headers
    counters: frozenset[Declaration]  # every loop variable of the region
    changing: frozenset[str]  # names that some statement of the function changes
    untouched: set[Declaration]  # loop variables that still have the value from before the region
    # Scalars that the region has declared and nothing has assigned since: they have no value.
    unset: set[Declaration] = field(default_factory=set)
    variables: dict[Declaration, Variable] = field(default_factory=dict)
    sizes: list[str] = field(default_factory=list)
    loops: dict[Declaration, str] = field(
        default_factory=dict
    )  # variable of an enclosing loop -> unique name
    known: dict[Declaration, CValue] = field(default_factory=dict)
    refused: set[Declaration] = field(default_factory=set)  # reported once already
    always: list[Expr] = field(default_factory=list)  # conditions that hold in the whole region
    facts: list[Expr] = field(
        default_factory=list
    )  # conditions that hold at the statement being read
    depth: int = 0  # number of enclosing loops and branches
    aliases: dict[Declaration, Alias] = field(default_factory=dict)
    temporaries: list[Local] = field(default_factory=list)  # of inlined functions
    hidden: frozenset[str] = (
        frozenset()
    )  # names that the function declares again, hiding those of the file
    flat: FlatArrays | None = None  # None: products in subscripts are refused

    def prove(self, wanted: Expr) -> bool:
        """Whether an affine condition holds whenever the statement being read is executed."""
        match wanted:
            case Binary(op="ge", x=Const(value=int() as x), y=Const(value=int() as y)):
                return x >= y
        return self.proofs()(wanted)

    def proofs(self) -> Prove:
        """What proves affine conditions from all that holds at the statement being read."""
        # lazy: isl, which most files do not need before extraction
        from loopwright.frontends.extract import implies

        return partial(implies, (*self.always, *self.facts))

    def forget(self, changed: Iterable[Declaration]) -> None:
        """Drop what is known of variables that may have changed."""
        for declaration in changed:
            self.known.pop(declaration, None)
            self.untouched.discard(declaration)
            self.unset.discard(declaration)

    @contextmanager
    def branch(self, *facts: Expr) -> Iterator[None]:
        """Read one of several branches, each from the same known values.

        The caller forgets what the branches change after reading all of them.
        """
        known, untouched, count = dict(self.known), set(self.untouched), len(self.facts)
        unset = set(self.unset)
        self.facts += facts
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1
            del self.facts[count:]
            self.known, self.untouched, self.unset = known, untouched, unset

    @contextmanager
    def unknown(self, changed: Iterable[Declaration]) -> Iterator[None]:
        """Read what a loop does in each iteration, before the loop that changes these is read."""
        with self.branch():
            self.forget(changed)
            yield

    @contextmanager
    def aliased(self, aliases: Mapping[Declaration, Alias]) -> Iterator[None]:
        """Read the body of an inlined function with these arrays behind its parameters."""
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
        """Read a loop: variables that its body changes are unknown from its start."""
        count = len(self.facts)
        self.forget((*changed, counter))
        known, untouched, unset = dict(self.known), set(self.untouched), set(self.unset)
        self.loops[counter] = unique
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1
            del self.loops[counter]
            del self.facts[count:]
            self.known, self.untouched, self.unset = known, untouched, unset


# -- a C variable as array, scalar or integer parameter of the tree --------------------------


# Reads an extent as an affine expression; the str names it in messages.
ReadExtent: TypeAlias = Callable[[SyntaxExpr, str], Expr]
# Reads the extent of a flat array; None for one that is no polynomial of sizes.
ReadLength: TypeAlias = Callable[[SyntaxExpr], Expr | None]

_MOST_RANK = 32  # dimensions of one array


def element_of(declaration: Declaration) -> CType:
    """The element type of a variable; raises Refusal for types that are not supported."""
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
    unsafe = (kind.qualifiers | kind.own) & {"volatile", "_Atomic"}
    if unsafe:
        word = sorted(unsafe)[0]
        raise Refusal("LW134", f"'{name}' is {word}", hint="copy it to a plain variable")
    return kind.element


def declare_variable(
    scope: RegionScope, declaration: Declaration, read: ReadExtent, read_length: ReadLength
) -> Variable:
    """The tree's variable for one of C at its first use, with a unique name and extents."""
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
    if scope.flat is not None and declaration in scope.flat.sizes:
        sizes = scope.flat.sizes[declaration]
        return _flat_variable(scope, declaration, name, sizes, read_length)
    try:
        shape = tuple(
            _extent(scope, declaration, name, at, dim, read)
            for at, dim in enumerate(kind.derivations)
        )
    except Reported:
        if scope.flat is None or not scope.flat.is_looking or not may_be_flat(declaration):
            raise
        shape = (_unknown(scope, name),)  # a product, which the next reading takes up
    return Variable(declaration, name, element, shape, is_integer=False)


def may_be_flat(declaration: Declaration) -> bool:
    """Whether an array has one subscript, and memory that the region does not make."""
    derivations = declaration.type.derivations
    is_given = declaration.where in ("parameter", "global") or derivations == ("*",)
    return len(derivations) == 1 and is_given and declaration.where not in ("region", "lasting")


def _flat_variable(
    scope: RegionScope,
    declaration: Declaration,
    name: str,
    sizes: Sizes,
    read: ReadLength,
) -> Variable:
    """An array of one subscript as rows of the given extents."""
    (dim,) = declaration.type.derivations
    extent = dim.extent if isinstance(dim, ArrayDim) else None
    length = rows = None
    if extent is not None:
        _check_fixed(scope, declaration, extent)
        length = read(extent)
        rows = None if length is None else exact_rows(length, sizes)
    unknown = _unknown(scope, name) if rows is None else rows
    shape = (unknown, *sizes)
    is_integer, known = False, unknown if length is None else length
    return Variable(declaration, name, element_of(declaration), shape, is_integer, known)


def _unknown(scope: RegionScope, name: str) -> Expr:
    """The first extent of an array that declares none."""
    size = scope.names.fresh(f"{name}_0")
    scope.sizes.append(size)
    return Var(size)


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
        return _unknown(scope, name)
    _check_fixed(scope, declaration, extent)
    found = read(extent, f"an extent of '{declaration.name}'")
    match found:
        case Const(value=int() as value) if value <= 0:
            raise Refusal("LW118", f"an extent of '{declaration.name}' is {value}")
    if not isinstance(found, Const) and names(found):
        scope.always.append(found >= 0)
    return found


def _check_fixed(scope: RegionScope, declaration: Declaration, extent: SyntaxExpr) -> None:
    """Refuse an extent whose variables may have other values in the region."""
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
