"""What LLVM is told of a nest that it optimises: loop and alias metadata, fast-math flags.

independent loops     every access carries the loop's access group, so no dependence is looked
                      for; llvm.loop.parallel_accesses names the group
scratch memory        buffers of one arena do not overlap: each has an alias scope of its own
explicit loops        loops with vectors or register tiles are neither widened nor unrolled
sparse rows           loops that start where a scalar says are short, and not unrolled
strips                loops around independent ones are not unrolled
few whole vectors     taken, and not unrolled before
arithmetic            contracted, and reassociated where the nest allows it
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from math import gcd

from loopwright.ir.expr import Binary, Call, Const, Expr, Load
from loopwright.ir.loops import Alloc, For, If, LoopNest, Mark, Space, Stmt, Store
from loopwright.ir.row_walk import walks
from loopwright.ir.visit import constant_trips, expressions, loads, names, statements, walk

__all__ = ["Metadata", "fast_math_flags", "is_independent"]

_SHORT, _LONG = 5, 14  # different elements that a body loads
_MOST_SHARING = 24  # likewise, of bodies whose vectors share loads
_UNROLLED = 64  # iterations of loops that LLVM unrolls whole
_AT_ONCE = 4  # vectors in one iteration of a loop
_VECTOR_BITS = 128  # of the shortest vectors
_CHAINS = 8  # powers of different vectors in one body


@dataclass(slots=True)
class Metadata:
    """The metadata of a module under construction."""

    lines: list[str] = field(default_factory=list)
    vector_bits: int = _VECTOR_BITS  # of vectors that LLVM is to make of loops
    # Whether LLVM may be asked for vectors of a width: where it makes none, it says so on stderr.
    has_widths: bool = True

    def node(self, *operands: str, distinct: bool = False, itself: bool = False) -> str:
        """A new node; with `itself` its first operand is the node itself, as loop IDs need."""
        name = f"!{len(self.lines)}"
        inner = ", ".join((name, *operands) if itself else operands)
        self.lines.append(f"{name} = {'distinct ' if distinct else ''}!{{{inner}}}")
        return name

    def group(self) -> str:
        """A new access group."""
        return self.node(distinct=True)

    def loop(self, loop: For, group: str | None, *, is_short: bool = False) -> str:
        """The metadata of the back edge of a loop whose accesses are in `group`.

        `is_short`: it has fewer iterations than two vectors have lanes.
        """
        facts = [self.node('!"llvm.loop.mustprogress"')]
        count = 0
        if group is not None:
            count = 1 if is_short and constant_trips(loop) is None else _interleave_count(loop)
        if count:
            facts.append(self.node('!"llvm.loop.interleave.count"', f"i32 {count}"))
        if group is not None:
            facts.append(self.node('!"llvm.loop.parallel_accesses"', group))
        if _is_explicit(loop) or _is_row(loop):
            facts.append(self.node('!"llvm.loop.vectorize.enable"', "i1 false"))
            facts.append(self.node('!"llvm.loop.unroll.disable"'))
        elif self.has_widths and _is_short(loop):
            # Not vectorize.enable, for which LLVM writes a warning where it sees no vectors.
            width, count = _whole_vectors(loop, self.vector_bits)
            facts.append(self.node('!"llvm.loop.vectorize.width"', f"i32 {width}"))
            facts.append(self.node('!"llvm.loop.interleave.count"', f"i32 {count}"))
            facts.append(self.node('!"llvm.loop.unroll.disable"'))
        elif _is_strip(loop):
            facts.append(self.node('!"llvm.loop.unroll.disable"'))
        return f", !llvm.loop {self.node(*facts, distinct=True, itself=True)}"

    def pieces(self) -> str:
        """The metadata of the back edge of a loop over the pieces of another one."""
        facts = self.node('!"llvm.loop.mustprogress"'), self.node('!"llvm.loop.unroll.disable"')
        return f", !llvm.loop {self.node(*facts, distinct=True, itself=True)}"

    def branch(self, stmt: If) -> str:
        """The weights of a branch: the remainder of a sparse row falls through.

        Without them LLVM jumps back and forth between the parts of a short row. A branch that only
        sets a flag is unlikely.
        """
        if _sets_a_flag(stmt.orelse):
            weights = self.node('!"branch_weights"', "i32 2000", "i32 1")
            return f", !prof {weights}"
        scalars = (load for load in loads(stmt.cond) if not load.index)
        if stmt.orelse is not None or next(scalars, None) is None:
            return ""
        weights = self.node('!"branch_weights"', "i32 3", "i32 2")
        return f", !prof {weights}"

    def alias_scopes(self, count: int) -> list[str]:
        """The alias metadata of the accesses of each of `count` buffers that do not overlap."""
        domain = self.node(distinct=True, itself=True)
        scopes = [self.node(domain, distinct=True, itself=True) for _ in range(count)]
        return [
            f", !alias.scope {self.node(own)}, !noalias {self.node(*_without(scopes, own))}"
            for own in scopes
        ]


def _sets_a_flag(stmt: Stmt | None) -> bool:
    """Whether a statement stores a constant to a fixed element."""
    if not isinstance(stmt, Store) or not stmt.index:
        return False
    return all(isinstance(x, Const) for x in (*stmt.index, stmt.value))


def _without(scopes: Sequence[str], own: str) -> list[str]:
    return [scope for scope in scopes if scope != own]


def _interleave_count(loop: For) -> int:
    """The interleave count of a vector loop; 0 leaves it to LLVM.

    Consecutive vectors of a stencil share elements, which are loaded once where both vectors stand
    in one body (jacobi-2d 10%). LLVM interleaves short bodies by itself. Others gain a little
    (gemver 10%), as long as all values fit into registers. A power is a chain of instructions that
    wait for each other, of which several run at once (x ** -1.5 on Neoverse N1: 1.3 times).
    """
    values = [value for stmt in statements(loop.body) for value in expressions(stmt)]
    chains = sum(_chains(part) for value in values for part in walk(value))
    if chains:
        return max(1, min(4, _CHAINS // chains))
    found = {load for value in values for load in loads(value)}
    if len(found) <= _MOST_SHARING and _has_neighbours(loop.var, found):
        return 4
    return 2 if _SHORT < len(found) <= _LONG else 0


def _chains(value: Expr) -> int:
    """What a function counts that is a chain of instructions: sin and cos have two at once."""
    match value:
        case Call(function="exp" | "log" | "tanh"):
            return 1
        case Call(function="sin" | "cos"):
            return 4
        case Binary(op="pow", y=Const(value=y)) | Call(function="pow", args=(_, Const(value=y))):
            return int(isinstance(y, float) and not y.is_integer())
    return 0


def _has_neighbours(var: str, found: Collection[Load]) -> bool:
    """Whether three or more elements in a row along `var` are loaded."""
    rows: dict[tuple[str, tuple[Expr, ...]], int] = {}
    for load in found:
        if load.index and var in names(load.index[-1]):
            row = load.array, load.index[:-1]
            rows[row] = rows.get(row, 0) + 1
    return max(rows.values(), default=0) >= 3


def _is_explicit(loop: For) -> bool:
    """Whether a loop holds explicit vectors or a register tile."""
    return any(
        (isinstance(stmt, For) and stmt.mark is Mark.VECTOR)
        or (isinstance(stmt, Alloc) and stmt.buffer.space is Space.REGISTER)
        for stmt in statements(loop.body)
    )


def _is_row(loop: For) -> bool:
    """Whether a loop starts at the value of a scalar, as loops over sparse rows do.

    Rows of sparse matrices are short: entering a loop that was unrolled costs more than its
    iterations save (SpMV in CSR 15%).
    """
    return isinstance(loop.start, Load) and not loop.start.index


def _is_strip(loop: For) -> bool:
    """Whether a loop runs over a strip of iterations with a loop to vectorise in each.

    A strip has a constant trip count: LLVM would unroll it whole, for nothing (lu: 66 loops, two
    seconds).
    """
    inner = (stmt for stmt in statements(loop.body) if isinstance(stmt, For))
    return not isinstance(loop.start, Const) and any(stmt.mark is Mark.SIMD for stmt in inner)


def _is_short(loop: For) -> bool:
    """Whether a loop of a few whole vectors walks along rows.

    LLVM would unroll it before it looks for vectors, or take it for too short to have any.
    """
    trips = constant_trips(loop)
    if loop.mark is not Mark.SIMD or trips is None or trips > _UNROLLED:
        return False
    values = [value for stmt in statements(loop.body) for value in expressions(stmt)]
    stores = [stmt for stmt in statements(loop.body) if isinstance(stmt, Store)]
    rows = [load.index for value in values for load in loads(value)]
    bits = {stmt.value.dtype.bits * trips % _VECTOR_BITS for stmt in stores}
    return bits == {0} and all(walks(loop.var, row) for row in (*rows, *(s.index for s in stores)))


def _whole_vectors(loop: For, vector_bits: int) -> tuple[int, int]:
    """Lanes of the widest vectors of which a loop of a few whole ones has no rest, and how many.

    The number is that of vectors in one iteration, without a rest either: LLVM takes one where it
    is not told, and the loop stays one.
    """
    trips = constant_trips(loop)
    assert trips is not None, "a few whole vectors have a constant number of iterations"
    stored = [stmt.value.dtype.bits for stmt in statements(loop.body) if isinstance(stmt, Store)]
    width = gcd(trips, vector_bits // max(stored))
    return width, gcd(trips // width, _AT_ONCE)


def is_independent(loop: For) -> bool:
    """Whether LLVM may be told that the iterations of a loop are independent.

    Memory allocated inside has one address in all iterations, so there must be none, but for
    scalars: these are SSA values before the vectoriser runs.
    """
    if loop.mark is not Mark.SIMD:
        return False
    inside = (stmt for stmt in statements(loop.body) if isinstance(stmt, Alloc))
    return all(stmt.buffer.space is Space.STACK and not stmt.shape for stmt in inside)


def fast_math_flags(nest: LoopNest) -> str:
    """The fast-math flags of the arithmetic of a nest.

    With `reassoc` sums and products of a nest that is left to LLVM may be regrouped inside an
    expression, 0.125 * x + 0.125 * y is 0.125 * (x + y), rows that share terms add them once, and
    products are fused with sums as LLVM likes. The sign of a zero is then unspecified. Without it
    LLVM has no freedom: what is fused is decided by the expression (`LLVMExpressions`).
    """
    if not (nest.leave_to_llvm and nest.reassoc):
        return ""
    return "reassoc nsz contract " if nest.fuses else "reassoc nsz "
