"""Innermost loops of packed products on x86-64: a tile and all that feeds it stay in registers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks.inner_loops import (
    PAIRS,
    TYPES,
    innermost,
    kernels_of,
    nest_of,
    product_kernel,
)

from drawn import combined
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.kernel_variant import ContractionKernel, Packing
from loopwright.ir.machine import Machine
from loopwright.kernels import stage_text
from loopwright.machines.load import load_machine, machine_names

MACHINES = tuple(map(load_machine, machine_names()))


def on_x86(kinds: str, pairs: tuple[str, ...]) -> dict[str, tuple[Machine, ContractionKernel]]:
    """The kernels of products on x86-64, each once: machines may share a model and a plan.

    Without FMA instructions sums of products call the C library's function; instructions that
    overwrite an operand (SSE) need a copy of it in extremes. Neither keeps to the registers.
    """
    found: dict[tuple[object, ...], tuple[str, Machine, ContractionKernel]] = {}
    for machine in MACHINES:
        has_plus_times = machine.fused("fma", "float64") is not None
        if machine.isa != "x86_64" or "avx" not in machine.features:
            continue
        for dtype in (name for name in TYPES if DTYPES[name].kind in kinds):
            for pair in pairs if has_plus_times else [x for x in pairs if x != "plus_times"]:
                for data, kernel in kernels_of(product_kernel(machine, dtype, pair)).items():
                    name = f"{machine.name} {dtype} {pair} {data}"
                    key = (machine.llvm_cpu, machine.features, kernel)
                    found.setdefault(key, (name, machine, kernel))
    return {name: (machine, kernel) for name, machine, kernel in found.values()}


SUMS = on_x86("fc", PAIRS[:1])
OTHERS = on_x86("f", PAIRS[1:])
CASES = [*combined(SUMS, one_in=8), *combined(OTHERS, one_in=48)]


def assembly(machine: Machine, kernel: ContractionKernel) -> str:
    """The assembly of a kernel that packs by single elements, which is little code."""
    variant = kernel.variant
    walks = {"left_packing": Packing.WALK_TILE, "right_packing": Packing.WALK_TILE}
    return stage_text(nest_of(replace(kernel, variant=replace(variant, **walks))), "asm", machine)


@pytest.mark.parametrize("name", [name for (name,) in CASES])
def test_innermost_loops_use_registers_only(name: str) -> None:
    machine, kernel = (SUMS | OTHERS)[name]
    variant = kernel.variant
    loop = innermost(assembly(machine, kernel))
    assert loop is not None
    assert loop.stack == loop.calls == 0
    if name not in SUMS:
        return
    # As in the model: a multiply-add for each update, a load for each vector of right, and each
    # element of left once, in all lanes.
    parts = 2 if kernel.algebra.accumulator.is_complex else 1
    assert loop.fused == parts**2 * variant.rows * variant.vectors * variant.unroll
    assert loop.loads == parts * variant.vectors * variant.unroll
    assert loop.broadcasts == parts * variant.rows * variant.unroll
    assert loop.moves == loop.shuffles == loop.arithmetic == 0


@pytest.mark.parametrize("dtype", TYPES)
def test_tiles_fill_the_registers(dtype: str) -> None:
    """Sums take at least half of the registers, whatever the machine: no tile is 1 x 1."""
    parts = 2 if DTYPES[dtype].is_complex else 1
    for machine in MACHINES:
        variant = product_kernel(machine, dtype, "plus_times").variant
        sums = parts * variant.rows * variant.vectors
        assert variant.rows > 1, machine.name
        assert sums <= machine.vector_registers <= 2 * sums, machine.name


def test_thin_tiles_of_complex_numbers_fit() -> None:
    """A vector of complex numbers takes two registers in flat and narrow tiles too."""
    for machine in MACHINES:
        for m, n in ((4, 1000), (14, 1024), (26, 500), (3, 64), (1000, 20)):
            variant = product_kernel(machine, "complex128", "plus_times", m, n).variant
            sums = 2 * (variant.rows + 1) * variant.vectors
            assert sums < machine.vector_registers, (machine.name, m, n)


def test_loops_are_read_from_assembly() -> None:
    """The loop with most arithmetic counts; what follows a number sign does not."""
    text = """
.LBB0_1:
	vmovapd	64(%rsp), %zmm1
	addq	$1, %rax
	jne	.LBB0_1
.LBB0_2:
	# a comment
	vmovupd	-64(%rdi), %zmm0            # the row of right
	vbroadcastsd	8(%rsi,%rax), %zmm1
	vfmadd231pd	%zmm0, %zmm1, %zmm2
	vfmadd231pd	16(%rsi){1to8}, %zmm0, %zmm3
	vmovapd	%zmm3, %zmm4
	vmovapd	%zmm4, 320(%rsp)            # 64-byte Spill
	vmovapd	320(%rsp), %zmm5            # 64-byte Reload
	vpermt2pd	%zmm5, %zmm0, %zmm6
	jb	.LBB0_2
	jmp	.LBB0_1
"""
    loop = innermost(text)
    assert loop is not None
    assert (loop.instructions, loop.fused, loop.loads, loop.broadcasts) == (9, 2, 1, 2)
    assert (loop.moves, loop.shuffles, loop.calls, loop.stack) == (1, 1, 0, 2)
    assert innermost("ret") is None
