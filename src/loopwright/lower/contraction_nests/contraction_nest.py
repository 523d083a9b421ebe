"""A contraction inside a larger nest: algorithm 6 on the program's own arrays.

    let M, N, K = the extents of the loops i, j, p at this place
    let mc, nc, kc = blocks that divide them evenly
    the loops of lower/contraction_nests/macro_kernel, subscripts affine in i, j, p

What a kernel of its own finds in its launch is computed here where the contraction stands: extents
may depend on the loops around it. Panels are allocated for the largest blocks there may be.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from loopwright.ir.contraction import (
    ELEMENT,
    LOOPS,
    AffineSubscripts,
    Factor,
    InnerContraction,
    InnerProduct,
)
from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Const, Expr, Load, Select, Var
from loopwright.ir.grid_kernel import GridKernel, GridVariant
from loopwright.ir.kernel_variant import Broadcast, ContractionKernel, Initial
from loopwright.ir.loops import Alloc, Block, Buffer, Copy, LoopNest, Space, Stmt
from loopwright.ir.schedule import ScheduledContraction
from loopwright.ir.visit import fresh_name, loads, rebuild, rewrite, substitute
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.build import (
    bound_names,
    lets,
    names_bound,
    nothing,
    renamed,
    renamed_expr,
    seq,
)
from loopwright.lower.contraction_nests.kept_panels import KeptPanels, keep_panels
from loopwright.lower.contraction_nests.launch import round_up
from loopwright.lower.contraction_nests.macro_kernel import block_loops
from loopwright.lower.contraction_nests.operand_layout import Affine, AffineOperand, Clip, StepClip
from loopwright.lower.contraction_nests.packing import PITCH, planes
from loopwright.lower.grid_nests.grid_product import grid_product
from loopwright.lower.linear_forms import normal

__all__ = ["insert_contractions", "lower_inner_contraction", "placeholder"]

_BUNDLES = ("i", "j", "p")
# Steps of p in a block: a quarter more than planned cost less than another pass over out.
_STRETCH = 5, 4
_TURNS = 2  # blocks for each thread at least, where their work grows from one to the next


def placeholder(name: str, found: InnerContraction, outer: Sequence[Expr]) -> Stmt:
    """What stands for a contraction while the loops around it are made plain.

    To every pass it is copies from the arrays that the contraction reads to the one it writes;
    subscripts are the values of the loops around. Its whole text would keep those passes busy for
    nothing.
    """
    read = [x.load.array for product in found.products for x in (product.left, product.right)]
    scalars = [x.array for product in found.products for x in _scalars(product)]
    return Block(
        tuple(
            Copy(found.out.array, tuple(outer), array, (), (Var(name), Const(number)))
            for number, array in enumerate(dict.fromkeys((found.out.array, *read, *scalars)))
        )
    )


def insert_contractions(
    nest: LoopNest, contractions: Mapping[str, ScheduledContraction]
) -> LoopNest:
    """Write contractions out in the places of their placeholders.

        copy [core.0, 0] to C[] from A[]
    ->  let M, N, K, mc, nc, kc = ...; the loops of lower/contraction_nests/macro_kernel

    A third entry of the shape says that sums start from zero (lower/absorb_zeros).
    """
    if not contractions:
        return nest
    nest, kept = keep_panels(nest, contractions, _panels)
    taken = bound_names(nest)

    def change(node: Stmt) -> Stmt:
        match node:
            case Copy(target_start=values, shape=(Var(name=name), Const(value=number), *rest)):
                stay = kept.get(name)
                scheduled = contractions[name if stay is None else stay.contraction]
                outer = dict(zip(scheduled.inner.outer, values, strict=True))
                initial = Initial.ZERO if rest else Initial.OUT
                if number:
                    return nothing
                return lower_inner_contraction(scheduled, outer, taken, initial, stay)
        return node

    return replace(nest, body=rebuild(nest.body, change))


def _scalars(product: InnerProduct) -> list[Load]:
    """The elements that do not vary with the loops of the contraction."""
    values = [side.value for side in (product.left, product.right) if side.value is not None]
    return [load for value in values for load in loads(value)]


def lower_inner_contraction(
    scheduled: ScheduledContraction,
    outer: Mapping[str, Expr],
    taken: Collection[str],
    initial: Initial = Initial.OUT,
    stay: KeptPanels | None = None,
) -> Stmt:
    """The statements that run a contraction for the values `outer` of the loops around it.

    `taken` are the names that must not be bound again; `initial` is what the first product is
    added to; `stay` are panels that an earlier iteration of a loop around may have packed.
    """
    if isinstance(scheduled.grid, GridVariant):
        return _lower_on_grid(scheduled, scheduled.grid, outer, taken)
    found = scheduled.inner
    starts: list[Expr] = []
    sizes: list[tuple[Var, Expr]] = []
    for bounds, size in zip(found.ranges, ("M", "N", "K"), strict=True):
        start = normal(substitute(bounds.start, outer))
        starts.append(start)
        sizes.append((Var(size), normal(substitute(bounds.stop, outer) - start)))
    place = _Place(found, outer, tuple(starts))
    parts: list[_Part] = []
    for product, variant in zip(found.products, scheduled.variants, strict=True):
        algebra = replace(found.algebra(product), initial=Initial.OUT if parts else initial)
        kernel = ContractionKernel(algebra, variant)
        parts.append(_product(scheduled, kernel, place, product, stay))
    blocks = _blocks(scheduled, found)
    own = {var.name for var, _ in (*sizes, *blocks, *(b for part in parts for b in part.bindings))}
    own = own.union(*(names_bound(part.body) for part in parts))
    names = _free_names(own, set(taken))
    bodies = [
        _bound(part.bindings, renamed(part.body, {**names, **part.arrays}), names) for part in parts
    ]
    inside = _bound([(var, renamed_expr(x, names)) for var, x in blocks], seq(*bodies), names)
    return _bound(sizes, inside, names)


def _lower_on_grid(
    scheduled: ScheduledContraction,
    variant: GridVariant,
    outer: Mapping[str, Expr],
    taken: Collection[str],
) -> Stmt:
    """The kernel of a GPU that runs a contraction for the values `outer` of the loops around it."""
    found = scheduled.inner
    starts: list[Expr] = []
    sizes: list[tuple[Var, Expr]] = []
    for bounds, size in zip(found.ranges, ("M", "N", "K"), strict=True):
        start = normal(substitute(bounds.start, outer))
        starts.append(start)
        sizes.append((Var(size), normal(substitute(bounds.stop, outer) - start)))
    place = _Place(found, outer, tuple(starts))
    (product,) = found.products
    bindings: list[tuple[Var, Expr]] = []
    layout, arrays = _layout(place, product, bindings)
    is_stored = None
    if layout.clips:

        def is_stored(x: Expr, y: Expr) -> Expr:
            held = [clip.holds(x, y) for clip in layout.clips]
            return reduce(lambda one, other: Binary("and", one, other), held)

    kernel = GridKernel(found.algebra(product), variant)
    # What is read from memory is bound in the kernel: the host does not see it.
    body = grid_product(kernel, layout, is_stored, around=lambda tile: lets(bindings, tile))
    own = {var.name for var, _ in (*sizes, *bindings)} | names_bound(body)
    names = _free_names({name for name in own if "." not in name}, set(taken))
    return _bound(sizes, renamed(body, {**names, **arrays}), names)


def _free_names(own: set[str], taken: set[str]) -> dict[str, str]:
    """What each of a contraction's own names is called where others are taken."""
    names = {name: name for name in own}
    for name in sorted(own & taken):
        names[name] = fresh_name(name, taken | set(names.values()))
    return names


def _bound(bindings: Sequence[tuple[Var, Expr]], body: Stmt, names: Mapping[str, str]) -> Stmt:
    """`body`, renamed already, with the bindings under their new names around it."""
    return lets([(replace(var, name=names[var.name]), value) for var, value in bindings], body)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a contraction stands: what its loops are, and the values of those around it."""

    found: InnerContraction
    outer: Mapping[str, Expr]
    starts: tuple[Expr, ...]  # first values of the loops i, j, p


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece of a contraction under names of its own, and what these names stand for around it.

    Only the values of `bindings` speak of the nest around the contraction.
    """

    bindings: tuple[tuple[Var, Expr], ...]
    body: Stmt
    arrays: Mapping[str, str]  # operand -> the program's array


def _blocks(scheduled: ScheduledContraction, found: InnerContraction) -> list[tuple[Var, Expr]]:
    """Sizes of the blocks at run time: even shares of the extents, none larger than planned.

    Blocks of rows or of columns go to threads. Every thread packs all of right in the first case,
    and all of left for each of its blocks in the second: the case that packs less is taken. Where
    right is out itself, rows are read by those above them until these are done: columns it is.
    """
    rows, columns, steps = _units(scheduled)
    mc, nc, kc = scheduled.blocks
    more, less = _STRETCH
    M, N, K = Var("M"), Var("N"), Var("K")
    depth = (Var("kc"), _even(K, kc * more // less, steps))
    if scheduled.shares == 1:
        return [(Var("mc"), _even(M, mc, rows)), (Var("nc"), _even(N, nc, columns)), depth]
    clips = found.guards
    row_parts = scheduled.shares * (_TURNS if any(clip.i for clip in clips) else 1)
    column_parts = scheduled.shares * (_TURNS if any(clip.j for clip in clips) else 1)
    is_by_rows = N * (scheduled.shares - 1) <= M * (column_parts - 1)
    by_columns = Const(scheduled.shares)
    deal = Var("column_deal")
    is_whole = deal.equals(1)
    return [
        (deal, by_columns if found.is_in_place else Select(is_by_rows, Const(1), by_columns)),
        (Var("mc"), _even(M, mc, rows, Select(is_whole, Const(row_parts), Const(1)))),
        (Var("nc"), _even(N, nc, columns, Select(is_whole, Const(1), Const(column_parts)))),
        depth,
    ]


def _units(scheduled: ScheduledContraction) -> tuple[int, int, int]:
    variant = scheduled.variants[0]
    return variant.rows, variant.columns, variant.unroll


def _even(total: Expr, block: int, unit: int, parts: Expr | None = None) -> Expr:
    """`total`, at least 1, in equal parts of at most `block`, rounded up to whole units.

    Their number is a multiple of `parts` before that.
    """
    count = (total + (block - 1)) // block
    if parts is not None:
        count = (count + (parts - 1)) // parts * parts
    part = (total + (count - 1)) // count
    return (part + (unit - 1)) // unit * unit


def _product(
    scheduled: ScheduledContraction,
    kernel: ContractionKernel,
    place: _Place,
    product: InnerProduct,
    stay: KeptPanels | None,
) -> _Part:
    """The loops of one product and what they need in scope."""
    bindings: list[tuple[Var, Expr]] = []
    layout, arrays = _layout(place, product, bindings)
    kept: Collection[str] = ()
    if stay is not None:
        bindings.append((Var("before"), normal(stay.before)))
        arrays.update(stay.panels)
        kept = stay.panels

    def memory(body: Stmt) -> Stmt:
        for name, (buffer, size) in _panels(scheduled).items():
            body = body if name in kept else Alloc(buffer, (Const(size),), body)
        return body

    if scheduled.shares > 1:
        # Threads have panels of their own: they are allocated inside the loop that is shared out.
        body = block_loops(kernel, layout, halves=False, shares=scheduled.shares, around=memory)
    else:
        body = memory(block_loops(kernel, layout, halves=False, kept=kept))
    return _Part(tuple(bindings), body, arrays)


def _layout(
    place: _Place, product: InnerProduct, bindings: list[tuple[Var, Expr]]
) -> tuple[Affine, dict[str, str]]:
    """Where the operands of a product lie, and the arrays that they are."""
    out = place.found.out
    operands = {"out": _operand(out.dtype, place.found.subscripts, place, "out", bindings)}
    arrays = {"out": out.array}
    for name, factor in (("left", product.left), ("right", product.right)):
        operand = _operand(factor.load.dtype, factor.subscripts, place, name, bindings)
        value = _prologue(factor, place, name, bindings)
        hole = Var(ELEMENT, factor.load.dtype)
        operands[name] = replace(operand, value=value, hole=hole)
        arrays[name] = factor.load.array
    return Affine(operands, *_clips(place, bindings)), arrays


def _clips(
    place: _Place, bindings: list[tuple[Var, Expr]]
) -> tuple[tuple[Clip, ...], tuple[StepClip, ...]]:
    """Which elements and steps count; what is added to the indices goes to `bindings`."""
    clips: list[Clip] = []
    step_clips: list[StepClip] = []
    for number, clip in enumerate(place.found.guards):
        rest = substitute(clip.rest, place.outer)
        for start, factor in zip(place.starts, (clip.i, clip.j, clip.p), strict=True):
            rest = rest + start * factor
        name = Var(f"clip{number}")
        bindings.append((name, normal(rest)))
        if clip.p:
            step_clips.append(StepClip(clip.i, clip.p, name))
        else:
            clips.append(Clip(clip.i, clip.j, name))
    return tuple(clips), tuple(step_clips)


def _operand(
    dtype: DType,
    subscripts: AffineSubscripts,
    place: _Place,
    name: str,
    bindings: list[tuple[Var, Expr]],
) -> AffineOperand:
    """An operand by its subscripts; where it begins goes to `bindings`."""
    base: list[Expr] = []
    for dimension, entry in enumerate(subscripts.base):
        total = substitute(entry, place.outer)
        for loop, start in zip(LOOPS, place.starts, strict=True):
            total = total + start * subscripts.steps[loop][dimension]
        total = normal(total)
        # Also where it is a constant: kernels that differ in such things only are one procedure.
        bindings.append((Var(f"{name}_base_{dimension}"), total))
        base.append(bindings[-1][0])
    steps = {b: subscripts.steps[loop] for b, loop in zip(_BUNDLES, LOOPS, strict=True)}
    return AffineOperand(dtype, tuple(base), steps)


def _prologue(
    factor: Factor, place: _Place, name: str, bindings: list[tuple[Var, Expr]]
) -> Expr | None:
    """What is done to an element; the scalars it takes for that go to `bindings`, read once."""
    if factor.value is None:
        return None
    hole = Var(ELEMENT, factor.load.dtype)
    scalars: dict[Expr, Var] = {}

    def named(node: Expr) -> Var:
        return scalars.setdefault(node, Var(f"{name}_scalar{len(scalars)}", node.dtype))

    # Loads first: a loop of the nest around may also stand in their subscripts.
    hollow = rewrite(factor.value, lambda x: named(x) if isinstance(x, Load) else x)
    known = {hole, *scalars.values()}
    value = rewrite(hollow, lambda x: named(x) if isinstance(x, Var) and x not in known else x)
    bindings += [(var, substitute(node, place.outer)) for node, var in scalars.items()]
    return value


def _panels(scheduled: ScheduledContraction) -> dict[str, tuple[Buffer, int]]:
    """Memory for the packed blocks of one thread, for the largest blocks there may be."""
    found = scheduled.inner
    kernel = ContractionKernel(found.algebra(found.products[0]), scheduled.variants[0])
    rows, columns, steps = _units(scheduled)
    more, less = _STRETCH
    mc, nc, kc = scheduled.blocks
    depth = round_up(round_up(kc * more // less, steps), PITCH)
    copies = kernel.variant.lanes if kernel.variant.broadcast is Broadcast.REPLICATED else 1
    panels = (
        ("right", kernel.packed_right, round_up(nc, columns)),
        ("left", kernel.packed_left, round_up(mc, rows) * copies),
    )

    def panel(side: str, dtype: DType) -> Buffer:
        in_planes = planes(kernel, side)
        return Buffer(f"{side}_packed", dtype, (Const(1),), Space.PRIVATE, planes=in_planes)

    return {f"{side}_packed": (panel(side, dtype), width * depth) for side, dtype, width in panels}
