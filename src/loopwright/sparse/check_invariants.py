"""Whether a tensor satisfies the invariants of its format: generated code counts violations.

An invariant `forall x: premise => conclusion` becomes a loop over the points of its premise that
counts those where the conclusion fails. `validate_tensor` says where; this says whether, as fast as
code can read.

Many invariants relate adjacent elements within segments: `p(x) <= k < p(x+1)-1 => f(k) < f(k+1)`.
Where the segments follow each other without a gap, the pairs (k, k+1) are all but those that lie on
both sides of a boundary, so that

    |broken within segments| = |broken among all| - |broken across boundaries|

and both are counted by plain loops, one over k and one over x.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import INT32, INT64, DType, dtype_of
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load
from loopwright.ir.program import Role
from loopwright.ir.visit import substitute
from loopwright.lazy_dataclass import dataclass
from loopwright.runtime.code_memory import keeps_code

from .bounds_proof import invariants_read_inside
from .format import Format, Invariant
from .invariants import loop_facts
from .spf.compile_computation import CompiledComputation, compile_computation
from .spf.computation import Computation, DataSpace, Stmt
from .spf.term_exprs import as_condition, as_expr
from .synthesis.conversion import specialised
from .tensor import SparseTensor
from .uf import Conj, Constraint, IntegerSet, Term, TupleVar, UFCall, atoms, symbols
from .validate_tensor import within_domains

__all__ = [
    "AdjacentInvariant",
    "PointerSegments",
    "adjacent_invariant",
    "has_no_violations",
    "packed_bits",
    "quantified_invariants_hold",
    "violation_counters",
]

_COUNT = "broken"
_ALL, _ACROSS = 0, 1  # what is counted where


def quantified_invariants_hold(tensor: SparseTensor, threads: int = 1) -> bool | None:
    """Whether all invariants with variables hold of a tensor whose index arrays are in range.

    None where code cannot tell: invariants of an unverified format may read out of bounds unless a
    proof excludes it, and some functions have no code. Invariants are tested in their order, so
    that each may rely on those before it.
    """
    format = tensor.format
    names = tuple(index.name for index in format.indices)
    dtypes = tuple(dtype_of(tensor.arrays[name].dtype) for name in names)
    codes = _codes(format, dtypes, packed_bits(format, tensor.shape))
    return None if codes is None else has_no_violations(codes, tensor, threads)


def has_no_violations(
    codes: tuple[CompiledComputation, ...], tensor: SparseTensor, threads: int
) -> bool:
    """Whether the counters of some invariants, in their order, count no violation."""
    for code in codes:
        spaces = code.computation.by_name
        broken = np.zeros(2, spaces[_COUNT].dtype.numpy)
        arrays = tensor.arrays
        own = {name: np.ascontiguousarray(arrays[name]) for name in spaces if name != _COUNT}
        values = {name: tensor.symbols[name] for name in code.computation.symbols}
        code.run(own | {_COUNT: broken}, values, threads)
        if broken[_ALL] != broken[_ACROSS]:
            return False
    return True


def packed_bits(format: Format, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The bits of the largest coordinates where a format packs them into one number; else none."""
    return tuple(max(size - 1, 0).bit_length() for size in shape) if _is_packed(format) else ()


@lru_cache(maxsize=256)
def _is_packed(format: Format) -> bool:
    return any(call.name.startswith("ALTO") for call in format.map.calls)


@keeps_code
@lru_cache(maxsize=128)
def _codes(
    format: Format, dtypes: tuple[DType, ...], bits: tuple[int, ...] = ()
) -> tuple[CompiledComputation, ...] | None:
    """A counter for each invariant; None where one of them cannot be counted."""
    if not invariants_read_inside(format):
        return None
    if bits:
        format = specialised(format, bits)
    widths = {index.name: dtype for index, dtype in zip(format.indices, dtypes, strict=True)}
    return violation_counters(
        format, tuple(rule for rule in format.invariants if rule.variables), widths
    )


def violation_counters(
    format: Format, invariants: tuple[Invariant, ...], widths: Mapping[str, DType]
) -> tuple[CompiledComputation, ...] | None:
    """A counter for each of some invariants; None where one of them cannot be counted."""
    found = []
    for rule in invariants:
        computation = _counted(format, rule, widths)
        if computation is None:
            return None
        found.append(compile_computation(computation))
    return tuple(found)


@dataclass(frozen=True)
class _Read:
    """An invariant as code: its domain, and the condition that violates it."""

    premise: Conj
    spaces: tuple[DataSpace, ...]
    broken: Expr
    symbols: frozenset[str]  # of the arrays and of the conclusion


def _read(format: Format, rule: Invariant, widths: Mapping[str, DType]) -> _Read | None:
    if len(rule.premise) != 1 or len(rule.conclusion) != 1:
        return None
    premise, conclusion = within_domains(format, rule, rule.premise[0]), rule.conclusion[0]
    if premise.exists or conclusion.exists:
        return None
    inverses = {index.inverse for index in format.indices if index.inverse}
    called = {call.name for conj in (premise, conclusion) for call in conj.calls}
    if called & inverses:
        return None
    spaces = tuple(
        DataSpace(index.name, widths[index.name], index.extents, Role.IN)
        for index in format.indices
        if index.name in called
    )
    try:
        broken = _negated(conclusion, spaces)
    except UsageError:
        return None  # a known function without code for sizes that are not constants
    wanted = {s for space in spaces for extent in space.shape for s in symbols(extent)}
    wanted |= {s for c in conclusion.constraints for s in symbols(c.term)}
    return _Read(premise, spaces, broken, frozenset(wanted))


def _counted(format: Format, rule: Invariant, widths: Mapping[str, DType]) -> Computation | None:
    """The computation that counts violations of an invariant."""
    read = _read(format, rule, widths)
    if read is None:
        return None
    found = adjacent_invariant(format, rule, widths)
    dtype, spaces, wanted = INT64, read.spaces, set(read.symbols)
    statements: tuple[Stmt, ...]
    if found is None:
        statements = (
            _count_violations(
                _ALL, IntegerSet(rule.variables, (read.premise,)), read.broken, dtype
            ),
        )
    else:
        dtype, wanted = found.dtype, {*found.symbols}
        statements = _by_segments(found)
    wanted |= {s for stmt in statements for s in stmt.domain.symbols}
    return Computation(
        "rule",
        (*spaces, DataSpace.of(_COUNT, dtype, (2,), Role.INOUT)),
        statements,
        tuple(sorted(wanted)),
        loop_facts(format),
    )


def _count_violations(at: int, domain: IntegerSet, broken: Expr, dtype: DType) -> Stmt:
    """Count the points of a domain where something is broken."""
    # A sum without a branch: most entries break nothing, and what is compared comes in rows.
    more = Load(_COUNT, (Const(at),), dtype) + Cast(broken, dtype)
    times = (Term.of(at), *(Term.of(TupleVar(name)) for name in domain.variables))
    return Stmt(f"count{at}", domain, times, _COUNT, (Term.of(at),), more)


@dataclass(frozen=True)
class PointerSegments:
    """The premise 0 <= x < count && pointer(x) <= k < pointer(x+1)-1 of adjacent pairs."""

    x: str
    k: str
    pointer: str  # ascends from 0 at 0 to `total` at `count`
    count: Term
    total: Term


def _segments(format: Format, rule: Invariant, premise: Conj) -> PointerSegments | None:
    """The segments of an invariant of adjacent pairs that does not mention the segment itself."""
    if len(rule.variables) != 2:
        return None
    x, k = (Term.of(TupleVar(name)) for name in rule.variables)
    said = {TupleVar(rule.variables[0])} & {
        atom for c in rule.conclusion[0].constraints for atom in atoms(c.term)
    }
    fixed = {c for r in format.invariants if not r.variables for c in r.conclusion[0].constraints}
    for index in format.indices:
        if index.rank != 1 or not index.monotone.endswith("increasing") or said:
            continue
        count = index.extents[0] - 1
        first, last, here, after = (
            Term.of(UFCall(index.name, (at,))) for at in (Term.of(0), count, x, x + 1)
        )
        assert last.atom is not None
        totals = [c for c in fixed if c.is_equality and last.atom in set(atoms(c.term))]
        if Constraint.eq(first, 0) not in fixed or len(totals) != 1:
            continue
        factor = totals[0].term.coefficient(last.atom)
        total = totals[0].term.without(last.atom) * -factor
        is_told = abs(factor) == 1 and not any(isinstance(a, UFCall) for a in atoms(total))
        wanted = Conj.of(
            [
                *(Constraint.ge(x), Constraint.lt(x, count)),
                *(Constraint.ge(k, here), Constraint.lt(k, after - 1)),
            ]
        )
        # What bounds k besides follows: pointers lie between 0 and the total.
        implied = {Constraint.ge(k), Constraint.lt(k, total)}
        if is_told and set(premise.constraints) - implied == set(wanted.constraints):
            return PointerSegments(*rule.variables, index.name, count, total)
    return None


@dataclass(frozen=True)
class AdjacentInvariant:
    """An invariant that relates adjacent elements within segments."""

    segments: PointerSegments
    spaces: tuple[DataSpace, ...]
    broken: Expr  # whether it is, at k
    dtype: DType  # in which pairs are counted
    symbols: frozenset[str]

    def broken_at(self, place: Expr) -> Expr:
        return substitute(self.broken, {self.segments.k: place})

    @property
    def broken_before(self) -> Expr:
        """Whether it is, across the boundary before the segment x; False where there is none.

        A boundary counts once, where pointers come to it, and only between two entries. The others
        are read at the nearest place that exists, which is faster than not to read. There must be
        two places; nothing else is relied upon.
        """
        segments = self.segments
        known = {space.name: space for space in self.spaces}
        x, total = Term.of(TupleVar(segments.x)), segments.total
        here, before = (Term.of(UFCall(segments.pointer, (at,))) for at in (x, x - 1))
        is_first = as_condition(Constraint.lt(before, here), known)
        is_inner = as_condition(Constraint.lt(here, total), known)
        last: Expr = as_expr(total - 2, known)
        place = Binary("min", Binary("max", as_expr(here - 1, known), Const(0)), last)
        return Binary("and", self.broken_at(place), Binary("and", is_first, is_inner))


def adjacent_invariant(
    format: Format, rule: Invariant, widths: Mapping[str, DType]
) -> AdjacentInvariant | None:
    """The invariant as one of adjacent elements within segments, if it is one."""
    read = _read(format, rule, widths)
    segments = None if read is None else _segments(format, rule, read.premise)
    if read is None or segments is None:
        return None
    # Pointers of 32 bits delimit no more pairs than 32 bits can count.
    dtype = INT32 if widths[segments.pointer].bits <= INT32.bits else INT64
    wanted = read.symbols | symbols(segments.total)
    return AdjacentInvariant(segments, read.spaces, read.broken, dtype, wanted)


def _by_segments(found: AdjacentInvariant) -> tuple[Stmt, ...]:
    """Count violations among all adjacent pairs, and among pairs across segment boundaries."""
    segments, total = found.segments, found.segments.total
    x, k = (Term.of(TupleVar(name)) for name in (segments.x, segments.k))
    pairs = Conj.of([Constraint.ge(k), Constraint.lt(k, total - 1)])
    inner = Conj.of(
        [Constraint.ge(x, 1), Constraint.lt(x, segments.count), Constraint.ge(total, 2)]
    )
    return (
        _count_violations(_ALL, IntegerSet((segments.k,), (pairs,)), found.broken, found.dtype),
        _count_violations(
            _ACROSS, IntegerSet((segments.x,), (inner,)), found.broken_before, found.dtype
        ),
    )


def _negated(conj: Conj, spaces: tuple[DataSpace, ...]) -> Expr:
    """Whether some constraint does not hold."""
    by_name = {space.name: space for space in spaces}
    found: Expr | None = None
    for constraint in conj.constraints:
        fails: Expr = Binary("eq", Cast(as_condition(constraint, by_name), INT64), Const(0))
        found = fails if found is None else Binary("or", found, fails)
    assert found is not None, "an invariant concludes something"
    return found
