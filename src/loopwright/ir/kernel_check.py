"""Which kernel variants can be written down: what `lower` takes for granted of every kernel."""

from __future__ import annotations

from collections.abc import Iterator

from loopwright.ir.kernel_variant import (
    Algorithm,
    Broadcast,
    ContractionKernel,
    Initial,
    KernelVariant,
    Packing,
)

__all__ = ["unsupported"]

_MOST_LANES = 64
_MOST_SUMS = 128  # vectors of accumulators: more make code that no compiler gets done with
_MOST_UPDATES = 1024  # of accumulators in an iteration of the innermost loop, likewise
_IN_PLACE = frozenset({Packing.DIRECT, Packing.ALONG_TILE, Packing.ANY})
_PACKINGS: dict[Algorithm, tuple[frozenset[Packing], frozenset[Packing]]] = {
    Algorithm.PRODUCT: (
        frozenset(Packing) - {Packing.ANY, Packing.STRIDED, Packing.BY_TILE},
        frozenset(Packing) - {Packing.ANY, Packing.STRIDED},
    ),
    Algorithm.ROWS: (
        frozenset({Packing.DIRECT, Packing.ALONG_P, Packing.ANY}),
        frozenset({Packing.DIRECT, Packing.ANY, Packing.STRIDED}),
    ),
    Algorithm.COLUMNS: (frozenset({Packing.ANY}), _IN_PLACE),
    Algorithm.ELEMENTS: (_IN_PLACE, _IN_PLACE),
}
_PARALLEL = {
    Algorithm.PRODUCT: ("none", "batch", "i", "j"),
    Algorithm.ROWS: ("none", "batch", "i"),
    Algorithm.COLUMNS: ("none", "batch", "j"),
    Algorithm.ELEMENTS: ("none", "batch"),
}
_NARROW = frozenset({"int8", "uint8", "int16"})


def unsupported(kernel: ContractionKernel) -> str | None:
    """Why there is no code for a kernel, whatever the shape; None where there is."""
    return next(_faults(kernel), None)


def _faults(kernel: ContractionKernel) -> Iterator[str]:
    variant = kernel.variant
    word = f"kernel of {variant.algorithm.value}"
    yield from _size_faults(variant)
    sides = (("left", variant.left_packing), ("right", variant.right_packing))
    for (side, chosen), known in zip(sides, _PACKINGS[variant.algorithm], strict=True):
        if chosen not in known:
            yield f"a {word} does not take {side} by '{chosen.value}'"
    if "".join(sorted(variant.strided)) != variant.strided or set(variant.strided) - set("gijp"):
        yield "bundles with strides are some of 'gijp', in this order"
    if variant.parallel not in _PARALLEL[variant.algorithm]:
        yield f"a {word} does not share out '{variant.parallel}'"
    if variant.algorithm is Algorithm.PRODUCT:
        yield from _product_faults(kernel)
        return
    if variant.group > 1 or variant.flipped or variant.guarded:
        yield f"a {word} has no groups of steps, turned signs or guards"
    streams = {Algorithm.ROWS: variant.left_packing, Algorithm.COLUMNS: variant.right_packing}
    reads_elements = (
        streams.get(variant.algorithm) is Packing.ANY or variant.right_packing is Packing.STRIDED
    )
    if reads_elements and variant.lanes > 1:
        yield f"a {word} that reads element by element has one lane"
    if variant.apart and (variant.algorithm is not Algorithm.COLUMNS or variant.rows == 1):
        yield "only columns of several steps take these from different parts of p"


def _size_faults(variant: KernelVariant) -> Iterator[str]:
    if min(variant.rows, variant.vectors, variant.lanes, variant.unroll) < 1 or variant.ahead < 0:
        yield "the sizes of a register tile are at least 1"
    elif variant.lanes > _MOST_LANES or variant.lanes & (variant.lanes - 1):
        yield f"lanes are a power of two of at most {_MOST_LANES}"
    elif variant.rows * variant.vectors > _MOST_SUMS:
        yield f"a register tile has at most {_MOST_SUMS} vectors"
    elif variant.rows * variant.vectors * variant.unroll > _MOST_UPDATES:
        yield f"an iteration has at most {_MOST_UPDATES} updates of vectors"


def _product_faults(kernel: ContractionKernel) -> Iterator[str]:
    variant, algebra = kernel.variant, kernel.algebra
    is_direct = variant.left_packing is Packing.DIRECT
    is_uniform = kernel.left == kernel.right == algebra.accumulator and not algebra.scaled
    if variant.apart:
        yield "only columns of several steps take these from different parts of p"
    if is_direct and (not is_uniform or variant.group > 1):
        yield "left is read in place only in the type of the sums and unscaled"
    is_right_read = variant.right_packing in (Packing.DIRECT, Packing.BY_TILE)
    if is_direct and variant.ahead and not is_right_read:
        yield "of an operand in place only right is prefetched"
    if is_direct and (variant.broadcast is Broadcast.REPLICATED or algebra.accumulator.is_complex):
        yield "left is read in place by lanes or loads of real numbers"
    if is_right_read and not is_direct:
        yield "right is read in place only where left is"
    if variant.right_packing is Packing.BY_TILE and variant.parallel == "i":
        yield "threads that share rows do not pack right by tiles"
    if variant.group > 1 or variant.flipped:
        yield from _dot_faults(kernel)
    if variant.guarded and (not is_uniform or not _may_be_guarded(kernel)):
        yield "guards are for packed minima and maxima in one type, see operand_scan"


def _dot_faults(kernel: ContractionKernel) -> Iterator[str]:
    """Groups of steps are for sums of products of narrow integers, as dot instructions take."""
    variant, algebra = kernel.variant, kernel.algebra
    types = {kernel.left.name, kernel.right.name}
    is_sum = (algebra.plus, algebra.times, algebra.accumulator.name) == ("add", "mul", "int32")
    if not is_sum or algebra.scaled or not types <= _NARROW or variant.group not in (2, 4):
        yield "groups of 2 or 4 steps are for products of 8 or 16 bits summed in int32"
    elif variant.group == 4 and "int16" in types:
        yield "groups of 4 steps are for products of bytes"
    elif variant.flipped and (variant.group != 4 or len(types) > 1):
        yield "signs are turned for products of bytes of one type, 4 steps at a time"
    elif variant.broadcast is Broadcast.REPLICATED:
        yield "groups of steps are not replicated"


def _may_be_guarded(kernel: ContractionKernel) -> bool:
    variant, algebra = kernel.variant, kernel.algebra
    if Packing.DIRECT in (variant.left_packing, variant.right_packing):
        return False
    if algebra.out != algebra.accumulator:
        return False
    if algebra.times in ("add_top", "add_bottom"):
        return algebra.accumulator.kind == "i"
    is_wide = algebra.accumulator.name in ("float32", "float64")
    is_known = algebra.plus in ("min", "max") and algebra.times in ("add", "mul", "min", "max")
    return is_known and is_wide and algebra.initial is not Initial.SCALED
