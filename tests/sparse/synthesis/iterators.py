"""Entry iterators made from arrays, and what is left of them after stages have run."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from loopwright.ir.dtypes import FLOAT64, INT32
from loopwright.sparse.curves import CURVES
from loopwright.sparse.synthesis.driver import stage_steps
from loopwright.sparse.synthesis.entry_iterator import EntryIterator, KeySizes, over
from loopwright.sparse.synthesis.entry_order import Order
from loopwright.sparse.synthesis.stages import Builder, Stage, element
from loopwright.sparse.synthesis.value_intervals import Interval
from loopwright.sparse.uf import Sym, Term, TupleVar, evaluate, parse_linear

E, N = Term.of(TupleVar("e")), Term.of(Sym("N"))
LETTERS = ("i", "j", "k")


def terms(*texts: str) -> Order:
    return tuple(parse_linear(text, LETTERS) for text in texts)


def sizes_of(shape: tuple[int, ...], wide: str = "") -> KeySizes:
    """The spans and bits of coordinates; those in `wide` are not to be counted one by one."""
    names = LETTERS[: len(shape)]
    spans = {
        c: Interval(Term.of(0), Term.of(size - 1)) for c, size in zip(names, shape, strict=True)
    }
    bits = {c: max(size - 1, 0).bit_length() for c, size in zip(names, shape, strict=True)}
    return KeySizes(spans, bits, frozenset(wide))


@dataclass
class Bench:
    """A list of coordinates with values as a stream, and the builder that stages go to."""

    columns: list[Any]
    values: Any
    order: Order = ()
    is_unique: bool = False
    parts: int = 0
    builder: Builder = field(init=False)
    iterator: EntryIterator = field(init=False)

    def __post_init__(self) -> None:
        self.builder = Builder(INT32, bucket_bits=self.parts)
        names = LETTERS[: len(self.columns)]
        for name in names:
            self.builder.given(f"from_{name}", INT32, (N,))
        self.builder.given("from_values", FLOAT64, (N,))
        where = {name: element(f"from_{name}", E) for name in names}
        self.iterator = EntryIterator(
            over("e", N), where, "from_values", E, None, self.order, self.is_unique, N
        )

    def run(self) -> tuple[dict[str, Any], dict[str, int]]:
        """All arrays and symbols after the stages."""
        names = LETTERS[: len(self.columns)]
        given = zip(names, self.columns, strict=True)
        held = {f"from_{c}": np.asarray(column, np.int32) for c, column in given}
        held["from_values"] = np.asarray(self.values, np.float64)
        known = {"N": len(self.values)}
        for stage in self.builder.stages:
            run_stage(stage, held, known)
        return held, known

    def entries(self, iterator: EntryIterator) -> tuple[list[tuple[int, ...]], list[float]]:
        """Coordinates and values of a stream, in its order."""
        held, known = self.run()
        assert iterator.count is not None
        count = evaluate(iterator.count, known, {})
        functions = CURVES | held
        points = [
            tuple(
                int(evaluate(term, known | {"e": e}, functions))
                for term in iterator.coordinates.values()
            )
            for e in range(count)
        ]
        places = [evaluate(iterator.place, known | {"e": e}, functions) for e in range(count)]
        return points, [float(held[iterator.values][place]) for place in places]


def run_stage(stage: Stage, held: dict[str, Any], known: dict[str, int]) -> None:
    """Run one stage by itself on arrays and symbols by name; both are added to."""
    (step,) = stage_steps([stage])
    if step.prepare(held, known, np.empty):
        step.call(held, known)
        step.read_symbols(held, known)
