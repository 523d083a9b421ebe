"""The test that arrays of a region do not overlap, once whenever the region begins.

Each array has a hull: the bytes from the first element that the region touches to the last one, as
expressions of the integers that the region knows. Two arrays of disjoint hulls share no element.
Where memory of a device holds copies, the hull is that of the rows that are moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

from loopwright.analysis.touched_boxes import touched_box
from loopwright.backends.c_text.c_disjoint import (
    TouchedBytes,
    comment_lines,
    emit_unless_overlap,
)
from loopwright.backends.c_text.c_module import RegionSurroundings
from loopwright.calls.disjoint_memory import MemoryPair, NamedMemory, Proof, pairs_of
from loopwright.frontends.c import CRegion
from loopwright.ir.device import Transfer
from loopwright.ir.expr import Binary, Const, Expr
from loopwright.ir.islkit import bounded
from loopwright.ir.program import Program
from loopwright.ir.visit import names
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.ast_expressions import parameter_expr
from loopwright.lower.buffers import row_major
from loopwright.lower.linear_forms import normal

__all__ = ["ASSUMED", "OverlapTest", "find_overlap_test", "pair_lines"]

ASSUMED = "--assume-disjoint"
_MOST_PAIRS = 1000  # that a region tests
_MOST_TOLD = 24  # pairs of one line of a report
_ADDRESS = "__UINTPTR_TYPE__"  # as <stdint.h> has it, which need not be included
_ADDRESS_ON_MESH = "unsigned long"  # what its compilers take


@dataclass(frozen=True, slots=True)
class OverlapTest:
    """The pairs of memory that a region needs disjoint, and the ranges that are compared."""

    pairs: tuple[MemoryPair, ...]
    ranges: tuple[TouchedBytes, ...] = ()
    tested: tuple[tuple[int, int], ...] = ()  # pairs of ranges
    problem: str = ""  # why the test cannot be made
    is_assumed: bool = False  # it is left out as the user asks for

    @property
    def is_needed(self) -> bool:
        return bool(self.tested) and not self.is_assumed

    @property
    def note(self) -> str:
        """Comment lines of a region whose test is left out."""
        if not self.is_assumed:
            return ""
        told = _told([pair for pair in self.pairs if pair.proof is None], None)
        return f"Taken not to overlap ({ASSUMED}): {told}." if told else ""

    def guarded(
        self, text: str, written: str, around: RegionSurroundings, *, is_mesh: bool = False
    ) -> str:
        """The text of a region under the test, or as it is where none is needed."""
        if not self.is_needed:
            return (comment_lines(self.note, around.margin) if self.note else "") + text
        told = _told([pair for pair in self.pairs if pair.proof is None], None)
        integer = _ADDRESS_ON_MESH if is_mesh else _ADDRESS
        note = f"Must not overlap: {told}."
        return emit_unless_overlap(self.ranges, self.tested, (text, written), note, around, integer)


def find_overlap_test(
    region: CRegion,
    program: Program,
    transfers: Sequence[Transfer] = (),
    *,
    is_assumed: bool = False,
) -> OverlapTest:
    """What a region needs; `transfers` are the rows that are moved to another memory."""
    pairs = pairs_of(region, program)
    open_pairs = [pair for pair in pairs if pair.proof is None]
    if is_assumed or not open_pairs:
        return OverlapTest(pairs, is_assumed=is_assumed)
    if region.declarations:
        problem = "it declares variables that later code uses, so it can stand in no branch"
        return OverlapTest(pairs, problem=problem)
    if len(open_pairs) > _MOST_PAIRS:
        problem = f"{len(open_pairs)} pairs of arrays may overlap, more than {_MOST_PAIRS}"
        return OverlapTest(pairs, problem=problem)
    memory = list(dict.fromkeys(one for pair in open_pairs for one in (pair.first, pair.second)))
    moved = {transfer.array: transfer for transfer in transfers}
    known = set(program.params) - set(region.tree.sizes)
    ranges: list[TouchedBytes] = []
    for one in memory:
        hull = _hull(program, one, moved.get(one.variable.tree_name))
        if hull is None or not (names(hull[0]) | names(hull[1])) <= known:
            pair = next(pair for pair in open_pairs if one in (pair.first, pair.second))
            problem = f"whether {pair} overlap cannot be tested: "
            problem += f"what the loops touch of '{one.variable.name}' has no bounds"
            return OverlapTest(pairs, problem=problem)
        ranges.append(_bytes_of(one, *hull))
    place = {one: at for at, one in enumerate(memory)}
    tested = tuple((place[pair.first], place[pair.second]) for pair in open_pairs)
    return OverlapTest(pairs, tuple(ranges), tested)


def _bytes_of(memory: NamedMemory, first: Expr, stop: Expr) -> TouchedBytes:
    variable = memory.variable
    if memory.is_elements:
        return TouchedBytes(variable.name, variable.name, f"sizeof({variable.ctype})", first, stop)
    own = f"{variable.name}_itself" if memory.is_own_pointer else variable.name
    return TouchedBytes(own, f"&{variable.name}", f"sizeof {variable.name}", first, stop)


# -- hulls ----------------------------------------------------------------------------------------


def _hull(
    program: Program, memory: NamedMemory, transfer: Transfer | None
) -> tuple[Expr, Expr] | None:
    """The first element that is touched, and one past the last; None where they are not known."""
    if not memory.is_elements:
        return Const(0), Const(1)
    if transfer is not None:
        return normal(transfer.first * transfer.row), normal(transfer.stop * transfer.row)
    name = memory.variable.tree_name
    return bounded(partial(_hull_of_elements, program, name), lambda _: None)


def _hull_of_elements(program: Program, name: str) -> tuple[Expr, Expr]:
    sides = touched_box(program, name)
    if sides is None:
        return Const(0), Const(0)
    read = partial(parameter_expr, known=program.context)
    lows = [_extreme("min", list(map(read, side.lows))) for side in sides]
    highs = [_extreme("max", list(map(read, side.highs))) for side in sides]
    strides = row_major(program.array(name).shape)
    first: Expr = Const(0)
    stop: Expr = Const(1)
    for low, high, stride in zip(lows[::-1], highs[::-1], strides[::-1], strict=True):
        first = normal(low * stride + first)
        # Whole rows are counted.
        is_whole = stop == normal(stride)
        stop = normal((high + 1) * stride if is_whole else high * stride + stop)
    return first, stop


def _extreme(op: str, values: list[Expr]) -> Expr:
    return reduce(partial(Binary, op), values)


# -- in words -------------------------------------------------------------------------------------


def pair_lines(test: OverlapTest) -> list[str]:
    """The pairs that a region needs disjoint, by what shows that they are."""
    if not test.pairs:
        return []
    lines = ["  must not overlap"]
    untested = "not tested" if test.problem else "tested when the region begins"
    for proof in (None, *Proof):
        found = [pair for pair in test.pairs if pair.proof is proof]
        if found:
            how = proof.value if proof is not None else untested
            how = ASSUMED if proof is None and test.is_assumed else how
            lines.append(f"    {how}: {_told(found, _MOST_TOLD)}")
    return [*lines, *([f"    the region stays as it is: {test.problem}"] if test.problem else [])]


def _told(pairs: Sequence[MemoryPair], most: int | None) -> str:
    told = "; ".join(map(str, pairs[:most]))
    more = 0 if most is None else len(pairs) - most
    return f"{told}; and {more} more" if more > 0 else told
