"""Conversions as stages: computations in sequence, and the symbols that are set between them.

The size of an array often depends on what was counted before, so a conversion is a list of stages.
Before a stage its fresh arrays are made, after it the symbols it has found get their values.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Expr
from loopwright.ir.expr import Var as ExprVar
from loopwright.ir.program import Role
from loopwright.ir.visit import walk
from loopwright.lazy_dataclass import dataclass
from loopwright.memo import computed_once
from loopwright.sparse.spf.compile_computation import CompiledComputation, compile_computation
from loopwright.sparse.spf.computation import Computation, DataSpace, Stmt
from loopwright.sparse.spf.term_exprs import as_expr
from loopwright.sparse.spf.term_exprs import element as loaded
from loopwright.sparse.synthesis.renaming import Canonical, canonical
from loopwright.sparse.uf import Term, UFCall, calls, symbols
from loopwright.sparse.uf.axioms import NO_FACTS, Facts

__all__ = ["ArrayReuse", "Builder", "FreshArray", "RuntimeSymbol", "Stage", "element"]


@dataclass(frozen=True)
class FreshArray:
    """An array to make before a stage: every element `fill`, or undefined."""

    space: DataSpace
    fill: int | None


@dataclass(frozen=True)
class RuntimeSymbol:
    """A symbol that gets the value of an element after a stage."""

    symbol: str
    array: str
    index: tuple[Term, ...]
    is_claimed: bool = False  # an unverified format claims that no element is larger


@dataclass(frozen=True)
class ArrayReuse:
    """A stage is left out where two terms are equal; arrays that it would make are others then."""

    left: Term
    right: Term
    arrays: tuple[tuple[str, str], ...]  # (what it would make, what that is)


@dataclass(frozen=True)
class Stage:
    """One computation with the arrays to allocate before it and the symbols it sets."""

    computation: Computation
    defined: tuple[tuple[str, Term], ...]  # symbols that get a value before it
    fresh: tuple[FreshArray, ...]
    runtime_symbols: tuple[RuntimeSymbol, ...]
    reuse: ArrayReuse | None = None
    # Arrays of which different iterations of the outermost loop access different elements.
    disjoint_writes: frozenset[str] = frozenset()
    atomic_group: tuple[str, ...] = ()  # except iterations that agree in the elements of these
    # Arrays that serve one iteration: what it stores there, no other reads.
    iteration_private: frozenset[str] = frozenset()
    when: tuple[Term, ...] = ()  # runs where none of these, tested in order, is negative
    collapsed: Computation | None = None  # for one thread, over the same spaces and symbols

    @computed_once
    def code(self) -> tuple[CompiledComputation, Canonical]:
        """The callable of the stage for one thread, under canonical names."""
        found = canonical(self.collapsed or self.computation)
        return compile_computation(found.computation), found

    @property
    def condition(self) -> str:
        """When its code runs, in words; nothing where it always does."""
        return " and ".join(f"{term} >= 0" for term in self.when)

    def __str__(self) -> str:
        lines = [f"let {name} = {term}" for name, term in self.defined]
        for made in self.fresh:
            fill = "" if made.fill is None else f", all {made.fill}"
            lines.append(f"make {made.space}{fill}")
        if self.reuse is not None:
            pairs = ", ".join(f"{new} is {old}" for new, old in self.reuse.arrays)
            lines.append(f"unless {self.reuse.left} = {self.reuse.right}, where {pairs}:")
        if self.when:
            lines.append(f"only where {self.condition}:")
        lines.append(str(self.computation))
        for found in self.runtime_symbols:
            place = ", ".join(map(str, found.index))
            lines.append(f"learn {found.symbol} = {found.array}[{place}]")
        return "\n".join(lines)


@dataclass
class Builder:
    """Collects stages; knows all spaces by name."""

    index: DType  # of counters
    facts: Facts = NO_FACTS
    bucket_bits: int = 10  # unsorted entries are partitioned into 2^bits buckets
    spaces: dict[str, DataSpace] = field(default_factory=dict)
    stages: list[Stage] = field(default_factory=list)
    waiting: dict[str, int | None] = field(default_factory=dict)  # fills of arrays to be made
    defined: list[tuple[str, Term]] = field(default_factory=list)  # before the next stage
    is_sound: bool = False  # tuples of the target are known to have elements of their own

    def define(self, symbol: str, term: Term) -> None:
        """Give a symbol the value of a term of symbols, before the next stage."""
        self.defined.append((symbol, term))

    def symbol_from(self, symbol: str, array: str, *index: Term, is_claimed: bool = False) -> None:
        """Give a symbol the value of an element, after the last stage."""
        last = self.stages[-1]
        found = RuntimeSymbol(symbol, array, index, is_claimed)
        self.stages[-1] = replace(last, runtime_symbols=(*last.runtime_symbols, found))

    def given(self, name: str, dtype: DType, shape: Iterable[Term]) -> str:
        """An array that is there from the start."""
        self.spaces[name] = DataSpace(name, dtype, tuple(shape), Role.IN)
        return name

    def array(self, name: str, dtype: DType, shape: Iterable[Term], fill: int | None = None) -> str:
        """An array to be made before the first stage that uses it; its name is returned."""
        name = self._fresh(name)
        self.spaces[name] = DataSpace(name, dtype, tuple(shape), Role.INOUT)
        self.waiting[name] = fill
        return name

    def scalar(self, name: str, dtype: DType | None = None) -> Term:
        """A variable of one stage, as a term."""
        name = self._fresh(name)
        self.spaces[name] = DataSpace(name, dtype or self.index, (), Role.LOCAL)
        return element(name)

    def _fresh(self, name: str) -> str:
        number = 2
        found = name
        while found in self.spaces:
            found, number = f"{name}{number}", number + 1
        return found

    def load(self, term: Term) -> Expr:
        """The element that a term is, in its own type."""
        found = term.atom
        assert isinstance(found, UFCall), f"{term} is no element"
        return loaded(found.name, found.args, self.spaces)

    def number(self, term: Term) -> Expr:
        """The value of a term as int64."""
        return as_expr(term, self.spaces)

    def stage(
        self,
        name: str,
        statements: Iterable[Stmt],
        runtime_symbols: Iterable[RuntimeSymbol] = (),
        reuse: ArrayReuse | None = None,
        disjoint_writes: Iterable[str] = (),
        when: Iterable[Term] = (),
        atomic_group: Iterable[str] = (),
        iteration_private: Iterable[str] = (),
        makes: Iterable[str] = (),
    ) -> None:
        """Add a stage of statements; what it reads and writes is found from them.

        `disjoint_writes` names arrays of which different iterations of the outermost loop access
        different elements, where that does not follow from the subscripts; consecutive iterations
        that agree in the elements of the arrays `atomic_group` may access the same ones. Arrays
        `iteration_private` serve one iteration. Of alternative stages `when` selects the one that
        runs: where none of its terms is negative. They are tested in order: a term may use symbols
        that are set only where those before it hold. Arrays that several alternatives fill are
        allocated by the stage before that `makes` them.
        """
        body = tuple(statements)
        written = {stmt.target for stmt in body}
        used = written | {name for stmt in body for name in stmt.reads}
        used |= {c.name for stmt in body for e in stmt.index for c in calls(e)}
        spaces = []
        for space in self.spaces.values():
            if space.name in used:
                role = Role.INOUT if space.name in written else Role.IN
                spaces.append(space if space.role is Role.LOCAL else replace(space, role=role))
        others = [self.spaces[name] for name in makes]
        made = [space for space in (*spaces, *others) if space.name in self.waiting]
        fresh = tuple(FreshArray(space, self.waiting.pop(space.name)) for space in made)
        wanted = {s for stmt in body for s in _symbols(stmt)}
        wanted |= {s for space in spaces for extent in space.shape for s in symbols(extent)}
        number = len(self.stages)
        computation = Computation(
            f"{name}_{number}", tuple(spaces), body, tuple(sorted(wanted)), self.facts
        )
        defined = tuple(self.defined)
        claims = frozenset(disjoint_writes), tuple(atomic_group), frozenset(iteration_private)
        stage = Stage(
            computation, defined, fresh, tuple(runtime_symbols), reuse, *claims, tuple(when)
        )
        self.stages.append(stage)
        self.defined = []


def _symbols(stmt: Stmt) -> set[str]:
    """The symbolic constants of a statement."""
    found = set(stmt.domain.symbols)
    for entry in (*stmt.schedule, *stmt.index):
        found |= symbols(entry)
    for part in stmt.expressions:
        found |= {x.name for x in walk(part) if isinstance(x, ExprVar)} - set(stmt.variables)
    return found


def element(name: str, *index: Term) -> Term:
    """The term name(index)."""
    return Term.of(UFCall(name, index))
