"""One look at the index arrays of a tensor: ranges, growth, and order within segments.

`inside` and `rules` look at one array and one rule after the other. A tensor that keeps its
promises is found to do so here, in one call of generated code that reads each array about once;
what is found wanting is left to them.

Neighbours within segments are counted as `rules` does it. Where no segment is empty, every p(x) but
the first and the last lies between two entries, so that less is to be asked:

    |broken across boundaries| = |{x : 1 <= x < count, broken at p(x)-1}|
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loopwright.ir.dtypes import DTYPES, INT32, INT64, DType, dtype_of
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load
from loopwright.ir.expr import Var as Name
from loopwright.ir.program import Role

from .format import Format, Index
from .promises import loop_facts
from .room import rules_read_inside
from .rules import Neighbours, counters, neighbours
from .spf.bodies import as_expr
from .spf.compile import CompiledComputation, compile_computation
from .spf.computation import Computation, DataSpace, Stmt
from .synthesis.synthesize import specialised
from .uf import Atom, Call, Conj, Constraint, IntegerSet, Linear, Sym, Var, replace_atoms, symbols
from .uf.written import function, written

__all__ = ["Look", "ends_at", "is_plain", "look_at"]

_COUNTS, _AT = "counts", "e"
# f(arrays, symbols, values, largest, threads); `largest` is read where it was said to be known.
IsFine: TypeAlias = Callable[
    [Mapping[str, NDArray[Any]], Mapping[str, int], NDArray[Any], Mapping[str, int], int], bool
]
AreEndsFine: TypeAlias = Callable[
    [Mapping[str, NDArray[Any]], Mapping[str, int], NDArray[Any]], bool
]


@dataclass(frozen=True)
class Look:
    """What is asked of the tensors of one format and index types."""

    is_fine: IsFine  # False where something is wrong or is not told here
    rest: tuple[CompiledComputation, ...]  # counters of the rules that it does not look at


@lru_cache(maxsize=256)
def look_at(
    format: Format,
    dtypes: tuple[np.dtype[Any], ...],
    is_known: bool,
    is_quick: bool = False,
    bits: tuple[int, ...] = (),
) -> Look | None:
    """The look at tensors with index arrays of these types; None where it cannot be taken.

    `is_known` tells that the largest elements of all arrays are known, read as unsigned. A quick
    one leaves out the order of neighbours in segments: code that follows indices stays inside its
    arrays without it. `bits` are those of the coordinates, where rules speak of packed ones.
    """
    plain = all(dtype.kind in "iu" for dtype in dtypes) and all(map(is_plain, format.indices))
    if not plain or not rules_read_inside(format):
        return None
    widths = {i.name: dtype_of(dtype) for i, dtype in zip(format.indices, dtypes, strict=True)}
    spelled = specialised(format, bits) if bits else format
    rules = {rule: neighbours(spelled, rule, widths) for rule in spelled.rules if rule.variables}
    rest = counters(spelled, tuple(rule for rule, found in rules.items() if found is None), widths)
    if rest is None:
        return None
    sights = _Sights(
        format,
        widths,
        tuple(index for index in format.indices if index.monotone),
        () if is_known else tuple(index for index in format.indices if not index.monotone),
        () if is_quick else tuple(found for found in rules.values() if found is not None),
    )
    body = _body(sights, is_known)
    if body is None:
        return None
    given = ("arrays", "symbols", "values", "largest", "threads")
    return Look(function(given, body, sights.names()), rest)


@lru_cache(maxsize=256)
def ends_at(format: Format) -> AreEndsFine | None:
    """The part of a look that reads single elements only: lengths, ends of pointers, fixed rules.

    The format is one that `look_at` looks at.
    """
    text = _Texts(format)
    lines = _ends(format, text)
    if lines is None:
        return None
    return function(("arrays", "symbols", "values"), [*text.head(), *lines, "return True"], {})


def is_plain(index: Index) -> bool:
    """Whether a list, without padding, that ascends if it promises anything, in an interval."""
    conjs = index.range.conjs
    is_interval = len(conjs) == 1 and not any(c.is_equality for c in conjs[0].constraints)
    is_list = index.rank == 1 and index.pad is None
    return is_list and is_interval and "decreasing" not in index.monotone


# -- the code ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Sights:
    """What code looks at. Counters: two for each pointer, then two for each rule."""

    format: Format
    widths: Mapping[str, DType]
    pointers: tuple[Index, ...]  # does one descend, does one not ascend strictly
    tops: tuple[Index, ...]  # whose largest elements but the last are wanted
    rules: tuple[Neighbours, ...]  # pairs of neighbours that break it: all, and across segments

    @property
    def dtype(self) -> DType:
        return INT32 if all(rule.dtype == INT32 for rule in self.rules) else INT64

    @property
    def counted(self) -> int:
        return 2 * (len(self.pointers) + len(self.rules))

    @property
    def is_empty(self) -> bool:
        return not self.counted and not self.tops

    def top_type(self, index: Index) -> DType:
        return DTYPES[f"uint{self.widths[index.name].bits}"]

    def names(self) -> dict[str, Any]:
        """What the Python around the code uses."""
        types = {f"t{k}": self.top_type(index).numpy for k, index in enumerate(self.tops)}
        code = None if self.is_empty else compile_computation(self.computation())
        whole = {"zeros": np.zeros, "plain": np.ascontiguousarray}
        return {"code": code, "dtype": self.dtype.numpy, **types, **whole}

    def computation(self) -> Computation:
        spaces = [
            DataSpace(index.name, self.widths[index.name], index.extents, Role.IN)
            for index in self.format.indices
        ]
        spaces += [
            DataSpace.of(f"top{k}", self.top_type(index), (1,), Role.INOUT)
            for k, index in enumerate(self.tops)
        ]
        if self.counted:
            spaces.append(DataSpace.of(_COUNTS, self.dtype, (self.counted,), Role.INOUT))
        statements = tuple(self._statements())
        wanted = {s for space in spaces for extent in space.shape for s in symbols(extent)}
        wanted |= {s for stmt in statements for s in stmt.domain.symbols}
        wanted |= {s for rule in self.rules for s in rule.symbols}
        facts = loop_facts(self.format)
        return Computation("look", tuple(spaces), statements, tuple(sorted(wanted)), facts)

    def _statements(self) -> Iterator[Stmt]:
        """Pairs of neighbours first, those of arrays of one length in one loop."""
        loops: dict[Linear, list[tuple[str, int, Expr]]] = {}
        for n, index in enumerate(self.pointers):
            here, there = self._pair(index)
            found = loops.setdefault(index.extents[0], [])
            for at, op in ((2 * n, "ge" if index.is_strict else "gt"), (2 * n + 1, "ge")):
                found.append((_COUNTS, at, self._joined("max", at, Binary(op, here, there))))
        for k, index in enumerate(self.tops):
            dtype = self.top_type(index)
            here = Cast(self._pair(index)[0], dtype)
            value: Expr = Binary("max", Load(f"top{k}", (Const(0),), dtype), here)
            loops.setdefault(index.extents[0], []).append((f"top{k}", 0, value))
        first = 2 * len(self.pointers)
        for n, rule in enumerate(self.rules):
            at = first + 2 * n
            value = self._joined("add", at, rule.broken_at(Name(_AT)))
            loops.setdefault(rule.segments.total, []).append((_COUNTS, at, value))
        e = Linear.of(Var(_AT))
        for number, (extent, parts) in enumerate(loops.items()):
            conj = Conj.of([Constraint.ge(e), Constraint.lt(e, extent - 1)])
            domain = IntegerSet((_AT,), (conj,))
            for part, (target, at, value) in enumerate(parts):
                times = (Linear.of(number), e, Linear.of(part))
                name = f"look{number}_{part}"
                yield Stmt(name, domain, times, target, (Linear.of(at),), value)
        for n, rule in enumerate(self.rules):
            yield from self._across(rule, len(loops) + 2 * n, first + 2 * n + 1)

    def _across(self, rule: Neighbours, time: int, at: int) -> Iterator[Stmt]:
        """Across boundaries: without and with empty segments, of which one does nothing."""
        segments = rule.segments
        x, total = Linear.of(Var(segments.x)), segments.total
        inner = Conj.of([Constraint.ge(x, 1), Constraint.lt(x, segments.count)])
        level = 2 * [index.name for index in self.pointers].index(segments.pointer) + 1
        held = Load(_COUNTS, (Const(level),), self.dtype)
        pointer = Linear.of(Call(segments.pointer, (x,)))
        place = as_expr(pointer - 1, {space.name: space for space in rule.spaces})
        ways = (
            ("eq", inner, rule.broken_at(place)),
            ("ne", inner.conjoined([Constraint.ge(total, 2)]), rule.broken_before),
        )
        for later, (op, conj, broken) in enumerate(ways):
            yield Stmt(
                f"across{at}_{op}",
                IntegerSet((segments.x,), (conj,)),
                (Linear.of(time + later), x),
                _COUNTS,
                (Linear.of(at),),
                self._joined("add", at, broken),
                Binary(op, held, Const(0, self.dtype)),
            )

    def _pair(self, index: Index) -> tuple[Expr, Expr]:
        dtype = self.widths[index.name]
        here, there = (Load(index.name, (Name(_AT) + step,), dtype) for step in (0, 1))
        return here, there

    def _joined(self, op: str, at: int, test: Expr) -> Expr:
        return Binary(op, Load(_COUNTS, (Const(at),), self.dtype), Cast(test, self.dtype))


# -- the Python around it ------------------------------------------------------------------------


def _body(sights: _Sights, is_known: bool) -> list[str] | None:
    """The lines of `is_fine`; None where a rule without variables reads who knows where."""
    format = sights.format
    text = _Texts(format)
    lines = _ends(format, text)
    if lines is None:
        return None
    lines += _call(sights, text)
    for n in range(len(sights.pointers)):
        lines += [f"if counts[{2 * n}]:", "    return False"]
    for n in range(len(sights.pointers), len(sights.pointers) + len(sights.rules)):
        lines += [f"if counts[{2 * n}] != counts[{2 * n + 1}]:", "    return False"]
    lists = [index for index in format.indices if not index.monotone]
    for k, index in enumerate(lists):
        array, most = text.array(index), _most(sights.widths[index.name])
        # Read as unsigned, what is negative is larger than any index.
        if is_known:
            lines += [f"high = largest[{index.name!r}]", f"if high > {most}:", "    return False"]
        else:
            lines += [f"high = top{k}.item(0)", f"if high > {most}:", "    return False"]
            lines += [f"if {array}.size:", f"    last = {array}.item(-1)"]
            lines += ["    if last > high:", "        high = last"]
            lines += ["    elif last < 0:", "        return False"]
        fits = text.within(index, "0", "high")
        lines += [f"if {array}.size and not ({fits}):", "    return False"]
    return [*text.head(), *lines, "return True"]


def _ends(format: Format, text: _Texts) -> list[str] | None:
    """Lines that leave with False unless lengths, rules without variables and ends are right."""
    wrong = [f"len(values) != {text.of(format.places)}"]
    wrong += [f"{text.array(i)}.shape != ({text.of(i.extents[0])},)" for i in format.indices]
    lines = [f"if {' or '.join(wrong)}:", "    return False"]
    fixed = [
        text.constraint(c) for r in format.rules if not r.variables for c in _all(r.conclusion)
    ]
    if any(test is None for test in fixed):
        return None
    for index in (index for index in format.indices if index.monotone):
        array = text.array(index)
        fixed += [
            f"not {array}.size or {text.within(index, f'{array}.item(0)', f'{array}.item(-1)')}"
        ]
    lines += [line for test in fixed for line in (f"if not ({test}):", "    return False")]
    return lines


def _call(sights: _Sights, text: _Texts) -> list[str]:
    """Make the counters and run the code."""
    if sights.is_empty:
        return []
    computation = sights.computation()
    arrays = {index.name: f"plain({text.array(index)})" for index in sights.format.indices}
    tops = {f"top{k}": f"top{k}" for k in range(len(sights.tops))}
    lines = [f"top{k} = zeros(1, t{k})" for k in range(len(sights.tops))]
    if sights.counted:
        lines.append(f"counts = zeros({sights.counted}, dtype)")
        tops[_COUNTS] = "counts"
    given = {**arrays, **tops}
    known = {name: text.symbol(name) for name in computation.symbols}
    listed = ", ".join([*(given[space.name] for space in computation.spaces), *known.values()])
    held, values = (", ".join(f"{n!r}: {x}" for n, x in part.items()) for part in (given, known))
    lines += ["if threads == 1:", f"    code.alone({listed})", "else:"]
    lines.append(f"    code.run({{{held}}}, {{{values}}}, threads)")
    return [*lines, "counts = counts.tolist()"] if sights.counted else lines


class _Texts:
    """Python expressions for what a format speaks of."""

    def __init__(self, format: Format) -> None:
        names = (*format.sizes, *(name for name, _ in format.defined), *format.counts)
        self._format = format
        self._symbols = {name: f"s{k}" for k, name in enumerate(names)}
        self._arrays = {index.name: f"a{k}" for k, index in enumerate(format.indices)}

    def head(self) -> list[str]:
        lines = [f"{x} = symbols[{name!r}]" for name, x in self._symbols.items()]
        return lines + [f"{x} = arrays[{name!r}]" for name, x in self._arrays.items()]

    def symbol(self, name: str) -> str:
        return self._symbols[name]

    def array(self, index: Index) -> str:
        return self._arrays[index.name]

    def of(self, term: Linear) -> str:
        return written(term, self.symbol, {})

    def within(self, index: Index, low: str, high: str) -> str:
        """Whether the range holds all from `low` to `high`."""
        (name,) = index.range.variables
        tests = []
        for constraint in index.range.conjs[0].constraints:
            factor = constraint.term.coefficient(Var(name))
            rest = constraint.term.without(Var(name))
            if factor > 0 and low == "0" and _is_natural(rest):
                continue
            side = (
                f"{-factor}*{low}" if factor > 0 else high if factor == -1 else f"{-factor}*{high}"
            )
            tests.append(f"{side} <= {self.of(rest)}")
        return " and ".join(tests) or "True"

    def constraint(self, constraint: Constraint) -> str | None:
        """The test of a constraint on elements at places that arrays always have; else None."""
        elements: dict[str, str] = {}
        for atom, _ in constraint.term.terms:
            if isinstance(atom, Call):
                found = self._element(atom)
                if found is None:
                    return None
                elements[str(atom)] = found

        def change(atom: Atom) -> Linear:
            return Linear.of(Sym(str(atom)) if isinstance(atom, Call) else atom)

        term = replace_atoms(constraint.term, change)
        value = written(term, lambda name: elements.get(name) or self.symbol(name), {})
        return f"{value} {'==' if constraint.is_equality else '>='} 0"

    def _element(self, call: Call) -> str | None:
        if call.name not in self._arrays or len(call.args) != 1:
            return None
        (at,) = call.args
        room = self._format.index(call.name).extents[0] - 1 - at
        if not (_is_natural(at) and _is_natural(room)):
            return None
        return f"{self._arrays[call.name]}.item({self.of(at)})"


def _all(conjs: Sequence[Conj]) -> Iterable[Constraint]:
    return conjs[0].constraints


def _most(dtype: DType) -> int:
    """The largest number of an integer type."""
    return (1 << (dtype.bits if dtype.kind == "u" else dtype.bits - 1)) - 1


def _is_natural(term: Linear) -> bool:
    """Whether a term of sizes cannot be negative, as one sees."""
    plain = all(isinstance(atom, Sym) and factor > 0 for atom, factor in term.terms)
    return plain and term.constant >= 0
