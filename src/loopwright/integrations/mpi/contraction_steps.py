"""Einsums of two dealt operands: a batched product, by panels that are sent along the grid (SUMMA).

The letters of an einsum form four bundles: batch (in both operands and the result), left and right
(in one operand and the result) and contracted. The largest letter of left goes over the rows of the
grid, the largest of right over its columns, batch letters in the place of a bundle that is empty,
and the largest letter of the contracted bundle over what is left of each operand:

    ik,kj->ij       i: rows    j: columns    k: columns in the first operand, rows in the second
    bik,bkj->bij    the same; b is whole on every rank

For each block of k, those who have it in the first operand send it along their rows, those who have
it in the second along their columns, and every rank adds the product of both panels to its part of
the result, by the same einsum. The next panels are on their way meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from loopwright.calls.einsum import einsum
from loopwright.diagnostics import UsageError
from loopwright.frontends.einsum_syntax import parse_subscripts
from loopwright.integrations.mpi.block_cyclic import BlockCyclic
from loopwright.integrations.mpi.block_layout import BlockedDimension, BlockLayout, ProcessGrid
from loopwright.integrations.mpi.communicator import GridRanks, PendingBroadcast
from loopwright.lazy_dataclass import dataclass
from loopwright.runtime.array_arguments import Array
from loopwright.semirings.named import Semiring

__all__ = ["CONTRACTION_STRIPS", "DealtEinsum", "contract_blocks", "deal_einsum"]

CONTRACTION_STRIPS = 4  # between which transfers are moved on

AfterStep = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class DealtEinsum:
    """An einsum of two operands with the layouts of all three arrays."""

    letters: tuple[str, str, str]  # of the operands and the result
    contracted: str  # the letter whose blocks are the steps; "" where there is one step only
    layouts: tuple[BlockLayout, BlockLayout, BlockLayout]

    @property
    def text(self) -> str:
        left, right, out = self.letters
        return f"{left},{right}->{out}"

    @property
    def steps(self) -> int:
        if not self.contracted:
            return 1
        return self.dimension(0, self.contracted).blocks

    def dimension(self, operand: int, letter: str) -> BlockedDimension:
        """The dimension of an operand (2: of the result) that a letter names."""
        return self.layouts[operand].dimensions[self.letters[operand].index(letter)]


def deal_einsum(
    subscripts: str, shapes: Sequence[tuple[int, ...]], grid: ProcessGrid, block: int
) -> DealtEinsum:
    """The layouts of an einsum's operands and result over a grid, in blocks of `block`."""
    if len(shapes) != 2:
        raise UsageError("an einsum over a grid has two operands", found=f"{len(shapes)} operands")
    names = parse_subscripts(subscripts, tuple(map(len, shapes)))
    left, right = ("".join(letters) for letters in names.operands)
    out = "".join(names.out)
    sizes = _sizes((left, right), shapes)
    batch = [x for x in out if x in left and x in right]
    rows = _largest([x for x in out if x in left and x not in right], sizes) or _largest(
        batch, sizes
    )
    columns = _largest([x for x in out if x in right and x not in left], sizes) or _largest(
        [x for x in batch if x != rows], sizes
    )
    inner = _largest([x for x in left if x in right and x not in out], sizes)
    axes = ({rows: 0, columns: 1}, {rows: 0, columns: 1}, {rows: 0, columns: 1})
    if inner:
        for operand, (letters, axis) in enumerate(((left, 1), (right, 0))):
            taken = (columns, rows)[operand]
            if not taken or taken not in letters:
                axes[operand][inner] = axis
    layouts = []
    for letters, axis_of in zip((left, right, out), axes, strict=True):
        # A letter that the array does not have takes no axis from one that it has.
        found = {x: axis for x, axis in axis_of.items() if x and x in letters}
        dimensions = (BlockedDimension(sizes[x], block, found.get(x)) for x in letters)
        layouts.append(BlockLayout(grid, tuple(dimensions)))
    return DealtEinsum((left, right, out), inner, (layouts[0], layouts[1], layouts[2]))


def _sizes(letters: tuple[str, str], shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for number, (names, shape) in enumerate(zip(letters, shapes, strict=True), 1):
        if len(set(names)) < len(names):
            raise UsageError(
                f"operand {number} repeats a letter, and a dealt array has no diagonals",
                found=names,
                hint="take the diagonal first",
            )
        for name, size in zip(names, shape, strict=True):
            if sizes.setdefault(name, size) != size:
                raise UsageError(
                    f"'{name}' has two sizes over a grid", found=f"{sizes[name]} and {size}"
                )
    return sizes


def _largest(letters: list[str], sizes: dict[str, int]) -> str:
    return max(letters, key=lambda x: sizes[x], default="")


def contract_blocks(
    plan: DealtEinsum,
    operands: tuple[BlockCyclic, BlockCyclic],
    out: BlockCyclic,
    ring: Semiring,
    ranks: GridRanks,
    *,
    threads: int,
    first: int = 0,
    after_step: AfterStep | None = None,
) -> None:
    """Add the steps of an einsum from `first` on to `out`.

    `after_step` is called on every rank when `out` is what `first` = its argument continues from.
    """
    panels = _start(plan, operands, ranks, first) if first < plan.steps else None
    for step in range(first, plan.steps):
        assert panels is not None
        for transfer in panels.transfers:
            transfer.wait()
        ahead = _start(plan, operands, ranks, step + 1) if step + 1 < plan.steps else None
        _add_panels(plan, panels, out.local, ring, threads, ahead)
        if after_step is not None:
            after_step(step + 1)
        panels = ahead


@dataclass(frozen=True, slots=True, eq=False)
class _Panels:
    """The block of the contracted letter of both operands, as far as a rank needs it."""

    arrays: tuple[Array, Array]
    transfers: tuple[PendingBroadcast, ...]


def _start(
    plan: DealtEinsum, operands: tuple[BlockCyclic, BlockCyclic], ranks: GridRanks, step: int
) -> _Panels:
    found, transfers = [], []
    for number, operand in enumerate(operands):
        local = operand.local
        if not plan.contracted:
            found.append(local)
            continue
        dim = plan.dimension(number, plan.contracted)
        at = plan.letters[number].index(plan.contracted)
        owner, place = dim.find(step, ranks.grid.count(dim.axis))
        if dim.axis is None:
            found.append(_cut(local, at, place))
            continue
        if owner == ranks.place[dim.axis]:
            panel = np.ascontiguousarray(_cut(local, at, place))
        else:
            shape = list(local.shape)
            shape[at] = dim.size_of(step)
            panel = np.empty(shape, local.dtype)
        transfers.append(ranks.along[dim.axis].start_broadcast(panel, owner))
        found.append(panel)
    return _Panels((found[0], found[1]), tuple(transfers))


def _add_panels(
    plan: DealtEinsum,
    panels: _Panels,
    out: Array,
    ring: Semiring,
    threads: int,
    ahead: _Panels | None,
) -> None:
    """Add the product of two panels, in strips between which the next ones are moved on."""
    left, right, result = plan.letters
    if not out.size or not all(panel.size for panel in panels.arrays):
        return
    along = max(range(out.ndim), key=lambda d: out.shape[d], default=-1)
    is_cut = ahead is not None and bool(ahead.transfers) and along >= 0
    strips = min(CONTRACTION_STRIPS, out.shape[along]) if is_cut else 1
    for number in range(strips):
        views = [*panels.arrays, out]
        if strips > 1:
            size, letter = out.shape[along], result[along]
            part = slice(number * size // strips, (number + 1) * size // strips)
            views = [
                _cut(view, letters.index(letter), part) if letter in letters else view
                for view, letters in zip(views, (left, right, result), strict=True)
            ]
        operands = views[:2]
        einsum(plan.text, *operands, semiring=ring, out=views[2], accumulate=True, threads=threads)
        if ahead is not None:
            for transfer in ahead.transfers:
                transfer.test()


def _cut(array: Array, dimension: int, part: slice) -> Array:
    return array[(slice(None),) * dimension + (part,)]
