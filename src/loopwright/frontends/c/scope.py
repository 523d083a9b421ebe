"""What is known of every variable of C at the place of a region being read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from loopwright.frontends.c.syntax import Declaration
from loopwright.frontends.c.types import CType
from loopwright.frontends.c.values import Value
from loopwright.frontends.names import Names
from loopwright.frontends.tree import Local
from loopwright.ir.expr import Binary, Const, Expr

__all__ = ["Alias", "Naming", "Scope", "Variable"]


class Naming:
    """Unique names that are also no other names of the function."""

    def __init__(self, identifiers: Iterable[str]) -> None:
        self._names = Names()
        self._identifiers = frozenset(identifiers)

    def fresh(self, wish: str) -> str:
        name = self._names.fresh(wish)
        while name != wish and name in self._identifiers:
            name = self._names.fresh(wish)
        return name


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
class Scope:
    """The variables of one region while it is read from top to bottom.

    A variable that was last assigned an affine index is `known`: reading it gives that expression.
    Loop variables have no storage at all: between loops they are known or they are nothing.
    """

    naming: Naming
    assigned: frozenset[Declaration]  # by assignments and by ++ and --, loop headers aside
    counters: frozenset[Declaration]  # every variable that counts a loop somewhere in the region
    changing: frozenset[str]  # names that some statement of the function changes
    untouched: set[Declaration]  # counters that still have the value from before the region
    variables: dict[Declaration, Variable] = field(default_factory=dict)
    sizes: list[str] = field(default_factory=list)
    loops: dict[Declaration, str] = field(default_factory=dict)  # being run -> unique name
    known: dict[Declaration, Value] = field(default_factory=dict)
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
