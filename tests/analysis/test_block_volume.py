"""Elements that a block brings in and takes out, against an enumeration; the ranking by them."""

from fractions import Fraction

import pytest

from loopwright.analysis.block_volume import block_volume, rank_block_sizes
from loopwright.analysis.thread_mapping import LoopTile, tiled_mapping
from loopwright.diagnostics import UsageError
from loopwright.ir.program import Program, Role
from programs import (
    Do,
    For,
    floyd_warshall,
    jacobi,
    lu,
    matmul,
    matmul_in_nest,
    program,
    seidel,
    syrk,
)
from thread_oracle import Use, uses


def enumerated(
    known: Program, everything: list[Use], own: list[Use]
) -> tuple[list[tuple[str, int, int]], int]:
    """(array, elements in, elements out) and the number of instances, in the order of execution."""
    block = own[0].block
    written: set = set()
    brought: set = set()
    instances = dict.fromkeys((use.statement, use.point) for use in own)
    by_instance: dict = {key: [] for key in instances}
    for use in own:
        by_instance[use.statement, use.point].append(use)
    for found in by_instance.values():
        brought |= {use.element for use in found if not use.is_write} - written
        written |= {use.element for use in found if use.is_write}
    elsewhere = {
        use.element
        for use in everything
        if not use.is_write and (use.block != block or (use.statement, use.point) not in instances)
    }
    rows = []
    for array in known.arrays:
        out = {x for x in written if x[0] == array.name}
        if array.role is Role.LOCAL:
            out &= elsewhere
        if any(use.element[0] == array.name for use in own):
            rows.append((array.name, sum(x[0] == array.name for x in brought), len(out)))
    return rows, len(instances)


def local_sums() -> Program:
    """A local array whose elements are read in the block and in the block after it."""
    arrays = {"x": "in float64 [n + 1]", "t": "local float64 [n + 1]", "y": "out float64 [n]"}
    body = For("i", 1, "n", Do("t[i]", "x[i] + x[i + 1]"), Do("y[i]", "t[i] + t[i - 1] + x[i]"))
    return program("sums", arrays, body)


@pytest.mark.parametrize(
    ("known", "sizes", "params"),
    [
        (floyd_warshall(), {"k": 2, "i": 3, "j": 2}, {"n": 7}),
        (matmul(), {"i": 3, "j": 4, "k": 2}, {"n": 7, "m": 6, "q": 5}),
        (matmul_in_nest(), {"i": 3, "j": 2}, {"n": 7, "m": 6, "q": 5}),
        (seidel(), {"t": 2, "i": 3, "j": 3}, {"n": 8, "m": 4}),
        (syrk(), {"i": 2, "j": 2, "k": 2}, {"n": 7, "m": 5}),
        (lu(), {"k": 2, "i": 3}, {"n": 6}),
        (local_sums(), {"i": 4}, {"n": 11}),
    ],
    ids=lambda x: x.name if isinstance(x, Program) else "",
)
def test_volumes_are_those_of_an_enumeration(known: Program, sizes: dict, params: dict) -> None:
    tiles = [LoopTile(loop, size) for loop, size in sizes.items()]
    mapping = tiled_mapping(known, tiles)
    everything = uses(known, tiles, params)
    by_block: dict = {}
    for use in everything:
        by_block.setdefault(use.block, []).append(use)
    for block, own in list(by_block.items())[::3]:
        volume = block_volume(known, mapping, params, block)
        rows, operations = enumerated(known, everything, own)
        assert (list(volume.arrays), volume.operations) == (rows, operations)
        assert volume.bytes_moved == 8 * sum(inward + outward for _, inward, outward in rows)
        assert volume.footprint_bytes == 8 * len({use.element for use in own})
    assert block_volume(known, mapping, params).block in by_block


@pytest.mark.parametrize("r", [4, 8, 16])
def test_cubes_of_shortest_paths(r: int) -> None:
    """3 r^2 elements in and r^2 out for r^3 operations."""
    mapping = tiled_mapping(floyd_warshall(), [LoopTile(loop, r) for loop in "kij"])
    volume = block_volume(floyd_warshall(), mapping, {"n": 1024})
    assert volume.arrays == (("D", 3 * r * r, r * r),)
    assert volume.per_operation == Fraction(4, r)
    assert volume.bytes_per_operation == Fraction(32, r)
    assert len(set(volume.block)) == 3, "not on a diagonal"


def test_ranking_of_a_product() -> None:
    """With all of k in a block the volume per operation is 1 / r_i + 1 / r_j, and little of C."""
    candidates = [(16, 64), (32, 32), (64, 16), (64, 64), (8, 8)]
    sizes = {"n": 512, "m": 512, "q": 512}
    ranked = rank_block_sizes(matmul(), "ij", candidates, sizes)
    assert [block.sizes for block in ranked] == [(64, 64), (32, 32), (16, 64), (64, 16), (8, 8)]
    for (r, s), block in ((block.sizes, block) for block in ranked):
        assert block.volume.per_operation == Fraction(1, r) + Fraction(1, s) + Fraction(2, 512)
    small = rank_block_sizes(matmul(), "ijk", [(8, 8, 8), (64, 64, 64)], sizes, most_bytes=2048)
    assert [block.sizes for block in small] == [(8, 8, 8)]


FIRST = tiled_mapping(jacobi(), [LoopTile("i", 4)], statements=["S0"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: rank_block_sizes(matmul(), "ij", [(4, 4, 4)], {"n": 8, "m": 8, "q": 8}),
            "a candidate has one size for each loop\nnote: found (4, 4, 4)",
        ),
        (
            lambda: rank_block_sizes(matmul(), "ij", [(4, 4)], {"n": 8, "m": 8}),
            "parameter q has no value",
        ),
        (
            lambda: rank_block_sizes(matmul(), "ij", [(4, 4)], {"n": 8, "m": 8, "q": 0}),
            "the kernel has no instances for these sizes",
        ),
        (
            lambda: block_volume(jacobi(), FIRST, {"n": 9, "m": 1}, (2,)),
            "the block has no instances\nnote: found (2,)",
        ),
    ],
)
def test_refusals(call, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert str(caught.value) == message
