"""Schedule: a Program with the order and mapping chosen for it, proven legal by `transform`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar, cast

from loopwright.ir.analysis_manager import AnalysisManager, Results
from loopwright.ir.closure import BlockedClosure, GridClosure
from loopwright.ir.contraction import Contraction, InnerContraction
from loopwright.ir.expr import Expr
from loopwright.ir.grid_kernel import ElementsVariant, GridVariant
from loopwright.ir.kernel_variant import KernelVariant
from loopwright.ir.loops import Axis, Mark, Space
from loopwright.ir.program import Program
from loopwright.ir.time_stencil import TimeTiles
from loopwright.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from loopwright.ir.islkit import IslSchedule

__all__ = [
    "JoinedReduction",
    "Schedule",
    "ScheduledContraction",
    "StagedArray",
    "StagedBox",
    "outer_ones",
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ScheduledContraction:
    """A contraction, and the kernel variant that runs it in place of its loops.

    Either the whole program, or three nested loops of it; loops around these are what sizes and
    addresses depend on. But for variants of several streams, the products of every element of the
    result are added in the order of the loop p: nothing is reassociated.
    """

    contraction: Contraction | InnerContraction
    variants: tuple[KernelVariant, ...]  # one per product; they share the register tile
    blocks: tuple[int, int, int]  # M_c, N_c, K_c, inside a program at most; 0: no such loop
    loops: tuple[str, ...] = ()  # i, j and p, directly nested in any order; (): the whole program
    shares: int = 1  # turns that blocks of rows or columns are dealt out to, for threads
    grid: GridVariant | ElementsVariant | None = (
        None  # on a GPU, in place of `variants` and `blocks`
    )

    @property
    def whole(self) -> Contraction:
        """The contraction that the whole program is."""
        assert isinstance(self.contraction, Contraction)
        return self.contraction

    @property
    def inner(self) -> InnerContraction:
        """The contraction that the loops are."""
        assert isinstance(self.contraction, InnerContraction)
        return self.contraction

    @property
    def statements(self) -> tuple[str, ...]:
        """The statements whose instances the kernel runs, at different points."""
        found = self.contraction
        return found.covers if isinstance(found, Contraction) else found.statements

    @property
    def is_parallel(self) -> bool:
        return self.shares > 1 or any(variant.parallel != "none" for variant in self.variants)

    def __str__(self) -> str:
        return f"the contraction of {', '.join(self.statements)}"


@dataclass(frozen=True, slots=True)
class StagedArray:
    """A box of an array that every iteration of a loop finds in memory near to its threads."""

    array: str
    loop: str
    space: Space
    # Names in `lower`, each with the loop whose value it is: those around and the loop itself.
    variables: tuple[tuple[str, str], ...]
    lower: tuple[Expr, ...]  # the first element, over these and the parameters
    extents: tuple[int, ...]  # elements in each dimension
    strides: tuple[int, ...]  # in the array, from one of them to the next
    padding: int  # elements behind each row that are not used
    buffers: int  # boxes in memory at a time: of several, the next ones come while one is used

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the memory of one box."""
        return (*self.extents[:-1], self.extents[-1] + self.padding)

    @property
    def elements(self) -> int:
        """Elements of memory that all boxes take."""
        return self.buffers * prod(self.shape)

    def __str__(self) -> str:
        box = " x ".join(map(str, self.extents))
        ahead = f", {self.buffers} at a time" if self.buffers > 1 else ""
        return f"{box} elements of {self.array} in {self.space.value} memory in {self.loop}{ahead}"


def outer_ones(extents: tuple[int, ...]) -> int:
    """How many of the first extents are 1, but for the last two."""
    outer = extents[:-2]
    return next((at for at, extent in enumerate(outer) if extent != 1), len(outer))


@dataclass(frozen=True, slots=True)
class StagedBox:
    """A box of an array in the scratchpad of a core, for each iteration of a loop.

    Some accesses of the statements in the loop go to the box. It lies around the elements that they
    access: in every dimension from the least subscript to the largest one.
    """

    array: str
    loop: str
    accesses: tuple[str, ...]  # a statement and a number: 0 its write, k its k-th different read
    # Names of the input dimensions of `elements`, each with the loop whose value it is.
    variables: tuple[tuple[str, str], ...]
    elements: Any  # isl.Map { [values of the loops] -> A[e] : some of the accesses is to A[e] }
    reached: Any  # isl.Set { [values of the loops] : the loop has an iteration }
    extents: tuple[int, ...]  # that no box exceeds
    is_brought_in: bool  # before an iteration: some access reads what was there
    is_put_back: bool  # behind it: some access is a write
    # The last dimension is as wide as the extent, inside the array, so that rows of all boxes are
    # equally long: of arrays that nobody writes meanwhile.
    is_full_width: bool
    buffers: int  # boxes in memory at a time: of two, the next one comes while one is used
    # isl.Map { [values of the loops] -> A[e] : in the box }, where the nest writes the array.
    whole: Any = None
    # The box is the same for all cores of a row or column, which come by it together: each brings
    # in a part of `panel`, a larger box of a loop around, and gives of it what this box needs.
    axis: Axis | None = None
    panel: StagedBox | None = None
    parts: int = 1  # of a panel, along the first of its sides: one for each core
    cores: int = 1  # of a panel: in a row or column, or, of all cores of a mesh, in a column
    unit: int = 1  # of a panel: parts have multiples of so many rows
    # isl.Set { [values of the loops] : somebody reads what the iteration has written }, for boxes
    # of local arrays; None: any may be needed.
    kept: Any = None
    is_array_wide: bool = False  # loops do not bound its extents: the array's own do
    # The mapped loop whose iterations have the box one after another: the first one brings it in,
    # every one hands it on to the next core, and the last one puts it back; "": no such loop.
    handed_on: str = ""

    @property
    def fixed(self) -> int:
        """Outer dimensions with one element, which the memory of a box leaves out.

        Two dimensions stay. A box that cores fill together leaves out what their parts do.
        """
        return outer_ones(self.extents) if self.panel is None else self.panel.fixed

    @property
    def sides(self) -> tuple[int, ...]:
        """The extents of a box in the dimensions that its memory has."""
        return self.extents[self.fixed :]

    @property
    def memory(self) -> tuple[int, ...]:
        """The extents of the memory of one box, or of one part of it."""
        first, *rest = self.sides
        return (-(-first // (self.parts * self.unit)) * self.unit, *rest)

    @property
    def size(self) -> int:
        """Elements of memory that all boxes take."""
        return self.buffers * prod(self.memory)

    def __str__(self) -> str:
        box = " x ".join(map(str, self.extents))
        ways = (("in", self.is_brought_in), ("out", self.is_put_back))
        moved = " and ".join(word for word, is_done in ways if is_done)
        ahead = f", {self.buffers} at a time" if self.buffers > 1 else ""
        if self.panel is not None and self.axis is not None:
            whole = " x ".join(map(str, self.panel.extents))
            who = "the mesh" if self.axis is Axis.MESH else f"a {self.axis.value}"
            moved = f"of {whole} that {who} of cores holds in {self.panel.loop}"
        if self.handed_on:
            moved = f"from core to core along {self.handed_on}"
        moved = moved or "made there and used up"
        return f"up to {box} elements of {self.array} in scratchpads in {self.loop}, {moved}{ahead}"


@dataclass(frozen=True, slots=True)
class DroppedCopy:
    """A copy of an array that cores in step do without: they read the array itself."""

    copy: str
    array: str
    is_closed: bool  # cores meet behind the puts of a turn, too: more is moved than is used


@dataclass(frozen=True, slots=True)
class JoinedReduction:
    """A reduction whose terms the threads of a block share: each adds up some, then they join."""

    statement: str
    op: str  # associative operator of ir/expr
    array: str
    loop: str  # all of its iterations gather into one element
    lanes: str  # the loop whose iterations threads take in turns: the same, or one inside of it
    # Names in `element`, each with the loop around `loop` whose value it is.
    variables: tuple[tuple[str, str], ...]
    element: tuple[Expr, ...]  # subscripts of the element, over these and the parameters
    blocks: int = 1  # that share the terms; several update the element atomically

    def __str__(self) -> str:
        several = f" of {self.blocks} blocks, atomically," if self.blocks > 1 else ""
        return (
            f"threads{several} along {self.lanes} join what {self.statement} gathers in {self.loop}"
        )


@dataclass(frozen=True, slots=True)
class Schedule:
    """An execution order (isl schedule tree), loop marks, and contractions run by kernels.

    Beside these decisions a schedule owns results that follow from them: `analyses` of its program
    and `tree_results`, shared by the schedules of one program or tree, and its own, see `get`.
    """

    program: Program
    tree: IslSchedule  # every band has one member and is named after its loop
    marks: tuple[tuple[str, Mark], ...] = ()  # loops that are not serial, by band name
    contractions: tuple[ScheduledContraction, ...] = ()  # in place of loops of the tree
    # Lanes or copies of VECTOR and UNROLL loops, threads of THREAD loops, by name.
    factors: tuple[tuple[str, int], ...] = ()
    # (loop, lanes, copies): iterations of an outer loop are lanes of so many vectors.
    outer_vectors: tuple[tuple[str, int, int], ...] = ()
    # (loop, loop inside, rows, columns): strips of so many rows run diagonal by diagonal.
    diagonals: tuple[tuple[str, str, int, int], ...] = ()
    axes: tuple[tuple[str, Axis], ...] = ()  # of BLOCK and THREAD loops, by name
    private: tuple[tuple[str, str], ...] = ()  # (array, loop): local, one copy per iteration of it
    promoted: tuple[tuple[str, str], ...] = ()  # (statement, loop): its elements stay in registers
    prefetched: tuple[tuple[str, int], ...] = ()  # (loop, prefetch distance in iterations)
    # (loop, statements): loops inside it are parallel where a run of them has so many.
    shared_from: tuple[tuple[str, int], ...] = ()
    staged: tuple[StagedArray, ...] = ()  # boxes of arrays in memory of a block
    boxes: tuple[StagedBox, ...] = ()  # of arrays in scratchpads of the cores of a mesh
    in_place: tuple[DroppedCopy, ...] = ()  # copies of arrays that are never made
    # (array, loop, mapped loop): iterations of the mapped loop hand the boxes of the loop on.
    handed_on: tuple[tuple[str, str, str], ...] = ()
    mesh: tuple[int, int] | None = None  # rows and columns of cores that THREAD loops are laid on
    joined: tuple[JoinedReduction, ...] = ()  # reductions whose terms threads of a block share
    closure: BlockedClosure | GridClosure | None = None  # the whole program, taken in another way
    time_tiles: TimeTiles | None = None  # the whole program, a stencil, in overlapped tiles
    in_registers: bool = True  # elements may live in registers while a loop runs
    registers: int = 0  # of a thread of a GPU, at most; 0: what the machine has
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

    @property
    def whole_contraction(self) -> ScheduledContraction | None:
        """The contraction that the program as a whole runs as."""
        return next((x for x in self.contractions if not x.loops), None)

    def mark(self, loop: str) -> Mark:
        return dict(self.marks).get(loop, Mark.SERIAL)

    def axis(self, loop: str) -> Axis | None:
        return dict(self.axes).get(loop)

    @property
    def is_for_device(self) -> bool:
        """Whether some loop is mapped to the blocks of a GPU."""
        is_product = any(made.grid is not None for made in self.contractions)
        return is_product or any(mark is Mark.BLOCK for _, mark in self.marks)
