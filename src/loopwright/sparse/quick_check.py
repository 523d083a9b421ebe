"""The quick check of index arrays: ranges, monotonicity, and order within segments, in one call.

`validate_arrays` and `check_invariants` test one array and one invariant after the other. A valid
tensor is recognised here by one call of generated code that reads each array about once; whatever
fails is left to them.

Adjacent pairs within segments are counted as in `check_invariants`. Where no segment is empty,
every p(x) but the first and the last lies between two entries, so that fewer tests suffice:

    |broken across boundaries| = |{x : 1 <= x < count, broken at p(x)-1}|
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loopwright.ir.dtypes import DTYPES, INT32, INT64, DType, dtype_of
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load
from loopwright.ir.expr import Var as Name
from loopwright.ir.program import Role
from loopwright.lazy_dataclass import dataclass
from loopwright.runtime.code_memory import keeps_code

from .bounds_proof import invariants_read_inside
from .check_invariants import AdjacentInvariant, adjacent_invariant, violation_counters
from .format import Format, Index
from .invariants import loop_facts
from .spf.compile_computation import CompiledComputation, compile_computation
from .spf.computation import Computation, DataSpace, Stmt
from .spf.term_exprs import as_expr
from .synthesis.conversion import specialised
from .uf import (
    Atom,
    Conj,
    Constraint,
    IntegerSet,
    Sym,
    Term,
    TupleVar,
    UFCall,
    replace_atoms,
    symbols,
)
from .uf.evaluate_terms import python_expression, python_function

__all__ = ["QuickCheck", "ends_check_of", "is_plain", "quick_check_of"]

_COUNTS, _AT = "counts", "e"
# f(arrays, symbols, values, largest, threads); `largest` is read where it was said to be known.
IsFine: TypeAlias = Callable[
    [Mapping[str, NDArray[Any]], Mapping[str, int], NDArray[Any], Mapping[str, int], int], bool
]
AreEndsFine: TypeAlias = Callable[
    [Mapping[str, NDArray[Any]], Mapping[str, int], NDArray[Any]], bool
]


@dataclass(frozen=True)
class QuickCheck:
    """The quick check of tensors of one format and index types."""

    is_fine: IsFine  # False where something is wrong or not decided here
    rest: tuple[CompiledComputation, ...]  # counters of the invariants that it does not test


@keeps_code
@lru_cache(maxsize=256)
def quick_check_of(
    format: Format,
    dtypes: tuple[np.dtype[Any], ...],
    is_known: bool,
    is_quick: bool = False,
    bits: tuple[int, ...] = (),
) -> QuickCheck | None:
    """The quick check of tensors with index arrays of these types; None where there is none.

    `is_known` tells that the largest elements of all arrays are known, read as unsigned. A quick
    one skips the order within segments: code that follows indices stays in bounds without it.
    `bits` are those of the coordinates, where invariants use packed ones.
    """
    plain = all(dtype.kind in "iu" for dtype in dtypes) and all(map(is_plain, format.indices))
    if not plain or not invariants_read_inside(format):
        return None
    widths = {i.name: dtype_of(dtype) for i, dtype in zip(format.indices, dtypes, strict=True)}
    spelled = specialised(format, bits) if bits else format
    invariants = {
        rule: adjacent_invariant(spelled, rule, widths)
        for rule in spelled.invariants
        if rule.variables
    }
    rest = violation_counters(
        spelled, tuple(rule for rule, found in invariants.items() if found is None), widths
    )
    if rest is None:
        return None
    tests = _Tests(
        format,
        widths,
        tuple(index for index in format.indices if index.monotone),
        () if is_known else tuple(index for index in format.indices if not index.monotone),
        () if is_quick else tuple(found for found in invariants.values() if found is not None),
    )
    body = _body(tests, is_known)
    if body is None:
        return None
    given = ("arrays", "symbols", "values", "largest", "threads")
    return QuickCheck(python_function(given, body, tests.names()), rest)


@keeps_code
@lru_cache(maxsize=256)
def ends_check_of(format: Format) -> AreEndsFine | None:
    """The part of a quick check that reads single elements: lengths, ends of pointers, constants.

    The format is one that has a quick check.
    """
    text = _Texts(format)
    lines = _ends(format, text)
    if lines is None:
        return None
    return python_function(
        ("arrays", "symbols", "values"), [*text.head(), *lines, "return True"], {}
    )


def is_plain(index: Index) -> bool:
    """Whether an array is a list without padding, its range an interval, monotone if at all up."""
    conjs = index.range.conjs
    is_interval = len(conjs) == 1 and not any(c.is_equality for c in conjs[0].constraints)
    is_list = index.rank == 1 and index.pad is None
    return is_list and is_interval and "decreasing" not in index.monotone


# -- the code ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Tests:
    """What the code tests. Counters: two for each pointer, then two for each invariant."""

    format: Format
    widths: Mapping[str, DType]
    pointers: tuple[Index, ...]  # does one descend, does one not ascend strictly
    tops: tuple[Index, ...]  # whose largest elements but the last are wanted
    # Adjacent pairs that violate each: counted among all, and across segment boundaries.
    invariants: tuple[AdjacentInvariant, ...]

    @property
    def dtype(self) -> DType:
        return INT32 if all(rule.dtype == INT32 for rule in self.invariants) else INT64

    @property
    def counted(self) -> int:
        return 2 * (len(self.pointers) + len(self.invariants))

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
        wanted |= {s for rule in self.invariants for s in rule.symbols}
        facts = loop_facts(self.format)
        return Computation("look", tuple(spaces), statements, tuple(sorted(wanted)), facts)

    def _statements(self) -> Iterator[Stmt]:
        """Adjacent pairs first, those of arrays of one length in one loop."""
        loops: dict[Term, list[tuple[str, int, Expr]]] = {}
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
        for n, rule in enumerate(self.invariants):
            at = first + 2 * n
            value = self._joined("add", at, rule.broken_at(Name(_AT)))
            loops.setdefault(rule.segments.total, []).append((_COUNTS, at, value))
        e = Term.of(TupleVar(_AT))
        for number, (extent, parts) in enumerate(loops.items()):
            conj = Conj.of([Constraint.ge(e), Constraint.lt(e, extent - 1)])
            domain = IntegerSet((_AT,), (conj,))
            for part, (target, at, value) in enumerate(parts):
                times = (Term.of(number), e, Term.of(part))
                name = f"look{number}_{part}"
                yield Stmt(name, domain, times, target, (Term.of(at),), value)
        for n, rule in enumerate(self.invariants):
            yield from self._across(rule, len(loops) + 2 * n, first + 2 * n + 1)

    def _across(self, rule: AdjacentInvariant, time: int, at: int) -> Iterator[Stmt]:
        """Across boundaries: without and with empty segments, of which one does nothing."""
        segments = rule.segments
        x, total = Term.of(TupleVar(segments.x)), segments.total
        inner = Conj.of([Constraint.ge(x, 1), Constraint.lt(x, segments.count)])
        level = 2 * [index.name for index in self.pointers].index(segments.pointer) + 1
        held = Load(_COUNTS, (Const(level),), self.dtype)
        pointer = Term.of(UFCall(segments.pointer, (x,)))
        place = as_expr(pointer - 1, {space.name: space for space in rule.spaces})
        ways = (
            ("eq", inner, rule.broken_at(place)),
            ("ne", inner.conjoined([Constraint.ge(total, 2)]), rule.broken_before),
        )
        for later, (op, conj, broken) in enumerate(ways):
            yield Stmt(
                f"across{at}_{op}",
                IntegerSet((segments.x,), (conj,)),
                (Term.of(time + later), x),
                _COUNTS,
                (Term.of(at),),
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


def _body(tests: _Tests, is_known: bool) -> list[str] | None:
    """The lines of `is_fine`; None where an invariant without variables may read out of bounds."""
    format = tests.format
    text = _Texts(format)
    lines = _ends(format, text)
    if lines is None:
        return None
    lines += _call(tests, text)
    for n in range(len(tests.pointers)):
        lines += [f"if counts[{2 * n}]:", "    return False"]
    for n in range(len(tests.pointers), len(tests.pointers) + len(tests.invariants)):
        lines += [f"if counts[{2 * n}] != counts[{2 * n + 1}]:", "    return False"]
    lists = [index for index in format.indices if not index.monotone]
    for k, index in enumerate(lists):
        array, most = text.array(index), _most(tests.widths[index.name])
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
    """Lines that return False unless lengths, invariants of constants and ends are right."""
    wrong = [f"len(values) != {text.of(format.places)}"]
    wrong += [f"{text.array(i)}.shape != ({text.of(i.extents[0])},)" for i in format.indices]
    lines = [f"if {' or '.join(wrong)}:", "    return False"]
    fixed = [
        text.constraint(c) for r in format.invariants if not r.variables for c in _all(r.conclusion)
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


def _call(tests: _Tests, text: _Texts) -> list[str]:
    """Make the counters and run the code."""
    if tests.is_empty:
        return []
    computation = tests.computation()
    arrays = {index.name: f"plain({text.array(index)})" for index in tests.format.indices}
    tops = {f"top{k}": f"top{k}" for k in range(len(tests.tops))}
    lines = [f"top{k} = zeros(1, t{k})" for k in range(len(tests.tops))]
    if tests.counted:
        lines.append(f"counts = zeros({tests.counted}, dtype)")
        tops[_COUNTS] = "counts"
    given = {**arrays, **tops}
    known = {name: text.symbol(name) for name in computation.symbols}
    listed = ", ".join([*(given[space.name] for space in computation.spaces), *known.values()])
    held, values = (", ".join(f"{n!r}: {x}" for n, x in part.items()) for part in (given, known))
    lines += ["if threads == 1:", f"    code.alone({listed})", "else:"]
    lines.append(f"    code.run({{{held}}}, {{{values}}}, threads)")
    return [*lines, "counts = counts.tolist()"] if tests.counted else lines


class _Texts:
    """Python expressions for the symbols and arrays of a format."""

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

    def of(self, term: Term) -> str:
        return python_expression(term, self.symbol, {})

    def within(self, index: Index, low: str, high: str) -> str:
        """Whether the range holds all from `low` to `high`."""
        (name,) = index.range.variables
        tests = []
        for constraint in index.range.conjs[0].constraints:
            factor = constraint.term.coefficient(TupleVar(name))
            rest = constraint.term.without(TupleVar(name))
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
            if isinstance(atom, UFCall):
                found = self._element(atom)
                if found is None:
                    return None
                elements[str(atom)] = found

        def change(atom: Atom) -> Term:
            return Term.of(Sym(str(atom)) if isinstance(atom, UFCall) else atom)

        term = replace_atoms(constraint.term, change)
        value = python_expression(term, lambda name: elements.get(name) or self.symbol(name), {})
        return f"{value} {'==' if constraint.is_equality else '>='} 0"

    def _element(self, call: UFCall) -> str | None:
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


def _is_natural(term: Term) -> bool:
    """Whether a term of sizes cannot be negative, as one sees."""
    plain = all(isinstance(atom, Sym) and factor > 0 for atom, factor in term.terms)
    return plain and term.constant >= 0
