"""Where the keys of a stream change from one entry to the next."""

from __future__ import annotations

from collections.abc import Iterable

from loopwright.ir.dtypes import INT64
from loopwright.ir.expr import Binary, Const, Expr
from loopwright.sparse.spf.computation import Stmt
from loopwright.sparse.synthesis.stages import Builder
from loopwright.sparse.synthesis.stream import Stream, cast, once
from loopwright.sparse.uf import Linear

__all__ = ["Changes"]

_NEVER = -(1 << 62)  # no key of an entry


class Changes:
    """Statements that keep, for groups of keys, a flag that is 1 where a key has changed.

    The first entry changes every key. Flags and keys are variables of one stage.
    """

    def __init__(
        self, groups: Iterable[tuple[str, tuple[Linear, ...]]], stream: Stream, builder: Builder
    ) -> None:
        self.builder = builder
        self.flags: dict[str, Linear] = {}
        keys: dict[Linear, Linear] = {}
        body: list[Stmt] = []
        index = builder.index
        for name, group in groups:
            differs: Expr | None = None
            for key in group:
                if key not in keys:
                    keys[key] = builder.scalar("last", INT64)
                    body.append(once(f"no_{len(keys)}", keys[key], Const(_NEVER)))
                now = builder.number(stream.term(key))
                one = Binary("ne", now, builder.load(keys[key]))
                differs = one if differs is None else Binary("or", differs, one)
            flag = self.flags[name] = builder.scalar(f"new_{name}")
            value = Const(1, index) if differs is None else cast(differs, index)
            body.append(stream.each(f"new_{name}", len(body), flag, value))
        for number, (key, last) in enumerate(keys.items()):
            now = builder.number(stream.term(key))
            body.append(stream.each(f"last_{number}", len(body), last, now))
        self.statements = tuple(body)

    def flag(self, name: str) -> Expr:
        """1 at the first entry of each run of equal keys, else 0."""
        return self.builder.load(self.flags[name])

    def is_first(self, name: str) -> Expr:
        """Whether an entry is the first of a run."""
        return Binary("ne", self.flag(name), Const(0, self.builder.index))
