"""Sets and relations by trying all points of a small box, and random ones to try."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from loopwright.sparse.uf import (
    Conj,
    Constraint,
    IntegerSet,
    Relation,
    Sym,
    Term,
    TupleVar,
    UFCall,
    holds,
)

SIZE = 3  # every variable lies in 0, 1, 2


@dataclass(frozen=True)
class World:
    """Values of the symbolic constant N and of the functions f and g, by tables."""

    n: int
    f_table: tuple[int, ...]
    g_table: tuple[int, ...]

    @property
    def functions(self) -> dict[str, Callable[..., int]]:
        return {
            "f": lambda a: self.f_table[a % len(self.f_table)],
            "g": lambda a, b: self.g_table[(2 * a + b) % len(self.g_table)],
        }

    def is_true(self, conj: Conj, at: dict[str, int]) -> bool:
        """Whether values in the box can be found for what exists."""
        for values in itertools.product(range(SIZE), repeat=len(conj.exists)):
            point = {**at, **dict(zip(conj.exists, values, strict=True)), "N": self.n}
            if all(holds(c, point, self.functions) for c in conj.constraints):
                return True
        return False

    def points(self, of: Relation | IntegerSet) -> set[tuple[int, ...]]:
        return {
            at
            for at in itertools.product(range(SIZE), repeat=len(of.variables))
            if any(
                self.is_true(conj, dict(zip(of.variables, at, strict=True))) for conj in of.conjs
            )
        }

    def pairs(self, of: Relation) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
        split = len(of.inputs)
        return {(at[:split], at[split:]) for at in self.points(of)}


worlds = st.builds(
    World,
    st.integers(1, 2),
    st.tuples(*[st.integers(-1, 3)] * 4),
    st.tuples(*[st.integers(-1, 3)] * 4),
)


@st.composite
def terms(draw: st.DrawFn, names: Sequence[str], depth: int = 2) -> Term:
    kinds = ["number", "variable", "symbol"] + (
        ["sum", "sum", "f", "g", "floor", "mod", "product"] if depth else []
    )
    kind = draw(st.sampled_from(kinds))

    def inner() -> Term:
        return draw(terms(names, depth - 1))

    match kind:
        case "number":
            return Term.of(draw(st.integers(-3, 3)))
        case "symbol":
            return Term.of(Sym("N"))
        case "sum":
            return inner() * draw(st.sampled_from([1, -1, 2])) + inner()
        case "f":
            return Term.of(UFCall("f", (inner(),)))
        case "g":
            return Term.of(UFCall("g", (inner(), inner())))
        case "floor":
            return inner().floor(draw(st.sampled_from([Term.of(2), Term.of(Sym("N"))])))
        case "mod":
            return inner() % draw(st.sampled_from([2, 3]))
        case "product":
            return inner() * Term.of(Sym("N"))
    return Term.of(TupleVar(draw(st.sampled_from(list(names)))))


def boxed(names: Sequence[str]) -> Iterator[Constraint]:
    for name in names:
        yield Constraint.ge(TupleVar(name))
        yield Constraint.lt(TupleVar(name), SIZE)


@st.composite
def conjs(draw: st.DrawFn, names: Sequence[str]) -> Conj:
    found = list(boxed(names))
    for _ in range(draw(st.integers(0, 3))):
        make = draw(st.sampled_from([Constraint.eq, Constraint.ge, Constraint.lt]))
        left: Term = draw(st.sampled_from([Term.of(TupleVar(name)) for name in names]))
        found.append(make(left, draw(terms(names))))
    return Conj.of(found)


@st.composite
def relations(draw: st.DrawFn, inputs: Sequence[str], outputs: Sequence[str]) -> Relation:
    count = draw(st.integers(1, 2))
    names = (*inputs, *outputs)
    pieces = tuple(draw(conjs(names)) for _ in range(count))
    return Relation(tuple(inputs), tuple(outputs), pieces)


@st.composite
def sets(draw: st.DrawFn, names: Sequence[str]) -> IntegerSet:
    pieces = tuple(draw(conjs(names)) for _ in range(draw(st.integers(1, 2))))
    return IntegerSet(tuple(names), pieces)
