"""Schedule: a Program with the order and mapping chosen for it, proven legal by `transform`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast

from loopwright.ir.analysis_manager import AnalysisManager, Results
from loopwright.ir.closure import BlockedClosure
from loopwright.ir.contraction import Contraction, InnerContraction
from loopwright.ir.form import Form
from loopwright.ir.loops import Mark
from loopwright.ir.program import Program

if TYPE_CHECKING:
    from loopwright.ir.islkit import IslSchedule

__all__ = ["Core", "LoopCore", "Schedule"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Core:
    """Decisions for one contraction: the loops of algorithm 6 and how its operands are kept.

    Blocks are run-time values of the emitted nest; the sizes here are the planned ones. Zero means
    that the loop of that block does not exist.
    """

    contraction: Contraction
    register_tile: tuple[int, int] = (1, 1)  # M_r, N_r
    blocks: tuple[int, int, int] = (0, 0, 0)  # M_c, N_c, K_c
    packed: frozenset[str] = frozenset()  # among "left", "right"
    parallel: str | None = None  # what threads share out: "batch", "i", "j", or all: "elements"
    prefetch: int = 0  # distance in iterations of the innermost block loop
    unroll: int = 1  # steps of the reduction per iteration of the innermost loop
    streams: int = 1  # in which the reduction is taken side by side; more than 1: reassociated


@dataclass(frozen=True, slots=True)
class LoopCore:
    """Three nested loops around a contraction, run by algorithm 6 in their place.

    Loops outside of them are what sizes and addresses depend on. For every element of the result
    the products are added in the order of the loop p: nothing is reassociated.
    """

    contraction: InnerContraction  # what the loops compute, as far as they are scheduled
    loops: tuple[str, str, str]  # the loops i, j and p; directly nested, in any order
    forms: tuple[Form, ...]  # one per product of the update; they share the register tile
    blocks: tuple[int, int, int]  # M_c, N_c, K_c at most
    shares: int = 1  # turns that blocks of rows or columns are dealt out to, for threads

    @property
    def statements(self) -> tuple[str, ...]:
        """The statements whose instances the core runs, at different points."""
        return self.contraction.statements

    def __str__(self) -> str:
        return f"the core of {', '.join(self.statements)}"


@dataclass(frozen=True, slots=True)
class Schedule:
    """An execution order (isl schedule tree), loop marks, and contraction cores.

    Beside these decisions a schedule owns results that follow from them: `analyses` of its program
    and `tree_results`, shared by the schedules of one program or tree, and its own, see `get`.
    """

    program: Program
    tree: IslSchedule  # every band has one member and is named after its loop
    marks: tuple[tuple[str, Mark], ...] = ()  # loops that are not serial, by band name
    cores: tuple[Core, ...] = field(default=())
    factors: tuple[tuple[str, int], ...] = ()  # lanes or copies of VECTOR and UNROLL loops, by name
    private: tuple[tuple[str, str], ...] = ()  # (array, loop): local, one copy per iteration of it
    promoted: tuple[tuple[str, str], ...] = ()  # (statement, loop): its elements stay in registers
    prefetched: tuple[tuple[str, int], ...] = ()  # (loop, prefetch distance in iterations)
    loop_cores: tuple[LoopCore, ...] = ()  # contractions in place of loops of the tree
    closure: BlockedClosure | None = None  # the whole program, taken in another way
    # Where these are about another program or tree, as after `replace`, new ones are made.
    analyses: AnalysisManager = field(
        default=cast(AnalysisManager, None), repr=False, compare=False
    )
    tree_results: Results[IslSchedule] = field(
        default=cast("Results[IslSchedule]", None), repr=False, compare=False
    )
    _results: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.analyses is None or self.analyses.program is not self.program:
            object.__setattr__(self, "analyses", AnalysisManager(self.program))
        if self.tree_results is None or self.tree_results.subject is not self.tree:
            object.__setattr__(self, "tree_results", Results(self.tree))

    def get(self, analysis: Callable[[Schedule], T]) -> T:
        """`analysis(schedule)`, computed when first asked for and kept as long as the schedule."""
        if analysis not in self._results:
            self._results[analysis] = analysis(self)
        found: T = self._results[analysis]
        return found

    def mark(self, loop: str) -> Mark:
        return dict(self.marks).get(loop, Mark.SERIAL)
