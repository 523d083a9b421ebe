"""Integer sets and relations between integer tuples: unions of conjunctions.

A Relation holds the pairs (inputs, outputs) that make one of its conjunctions true, an IntegerSet
the tuples that do. Symbolic constants and uninterpreted functions are the same throughout.
"""

from __future__ import annotations

from collections.abc import Iterable

from loopwright.diagnostics import UsageError
from loopwright.lazy_dataclass import dataclass
from loopwright.sparse.uf.constraints import Conj
from loopwright.sparse.uf.linear_terms import UFCall

__all__ = ["IntegerSet", "Relation"]


@dataclass(frozen=True)
class Relation:
    """{ [inputs] -> [outputs] : one of conjs }; without conjs it is empty."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    conjs: tuple[Conj, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "conjs", _kept(self.conjs))
        _check(self.variables, self.conjs)

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of inputs and outputs."""
        return (*self.inputs, *self.outputs)

    @property
    def symbols(self) -> frozenset[str]:
        """The names of the symbolic constants."""
        return frozenset(name for conj in self.conjs for name in conj.symbols)

    @property
    def calls(self) -> tuple[UFCall, ...]:
        """Every call inside, once each."""
        return tuple(dict.fromkeys(call for conj in self.conjs for call in conj.calls))

    def with_conjs(self, conjs: Iterable[Conj]) -> Relation:
        """The relation of other conjunctions between the same tuples."""
        return Relation(self.inputs, self.outputs, tuple(conjs))

    def __str__(self) -> str:
        return _text(f"[{','.join(self.inputs)}] -> [{','.join(self.outputs)}]", self.conjs)


@dataclass(frozen=True)
class IntegerSet:
    """{ [variables] : one of conjs }; without conjs it is empty."""

    variables: tuple[str, ...]
    conjs: tuple[Conj, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "conjs", _kept(self.conjs))
        _check(self.variables, self.conjs)

    @property
    def symbols(self) -> frozenset[str]:
        """The names of the symbolic constants."""
        return frozenset(name for conj in self.conjs for name in conj.symbols)

    @property
    def calls(self) -> tuple[UFCall, ...]:
        """Every call inside, once each."""
        return tuple(dict.fromkeys(call for conj in self.conjs for call in conj.calls))

    def with_conjs(self, conjs: Iterable[Conj]) -> IntegerSet:
        """The set of other conjunctions over the same tuple."""
        return IntegerSet(self.variables, tuple(conjs))

    def __str__(self) -> str:
        return _text(f"[{','.join(self.variables)}]", self.conjs)


def _kept(conjs: Iterable[Conj]) -> tuple[Conj, ...]:
    return tuple(dict.fromkeys(conj for conj in conjs if not conj.is_false))


def _check(names: tuple[str, ...], conjs: tuple[Conj, ...]) -> None:
    known = set(names)
    if len(known) != len(names):
        again = next(name for name in names if names.count(name) > 1)
        raise UsageError(
            f"the variable '{again}' stands twice in the tuples",
            f"[{', '.join(names)}]",
            "give it another name and add an equality",
        )
    for conj in conjs:
        stray = sorted(conj.variables - known - set(conj.exists))
        shared = sorted(known & set(conj.exists)) or sorted(
            conj.symbols & (known | set(conj.exists))
        )
        if stray:
            raise UsageError(
                f"'{stray[0]}' is a variable of no tuple",
                str(conj),
                "name it in a tuple, or say that it exists",
            )
        if shared:
            raise UsageError(
                f"'{shared[0]}' has two meanings in one conjunction", str(conj), "rename one"
            )


def _text(tuples: str, conjs: tuple[Conj, ...]) -> str:
    if conjs == (Conj(),):
        return f"{{{tuples}}}"
    if not conjs:
        return f"{{{tuples} : false}}"
    return " union ".join(f"{{{tuples} : {conj}}}" for conj in conjs)
