"""Reductions whose blocks update an element together: plans, text of both dialects, results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpu.ways import WAYS, require_same
from loopwright.backends.c_text.c_dialect import CUDA, OPENCL
from loopwright.backends.device_text.device_module import emit_kernels
from loopwright.diagnostics import UsageError
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Program
from loopwright.lower.grid_nests.split_kernels import split_kernels
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load_gpu import load_gpu
from loopwright.planner.grid_plans.gpu import gpu_planner
from loopwright.transform.map_reduction import MapReduction
from loopwright.transform.partial_sums import PartialSums
from loopwright.transform.plan import apply_plan

SUM = "for (int i = 0; i < n; i++) s[0] += x[i];"
LEAST = "for (int i = 0; i < n; i++) s[0] = x[i] < s[0] ? x[i] : s[0];"
MOST = "for (int i = 0; i < n; i++) s[0] = s[0] < x[i] ? x[i] : s[0];"
BITS = "for (int i = 0; i < n; i++) s[0] {op}= x[i];"
# operator and type -> C type, loop
UPDATES = {
    ("add", "int32"): ("int", SUM),
    ("add", "uint32"): ("unsigned", SUM),
    ("add", "int64"): ("long", SUM),
    ("add", "uint64"): ("unsigned long", SUM),
    ("add", "float32"): ("float", SUM),
    ("add", "float64"): ("double", SUM),
    ("min", "int32"): ("int", LEAST),
    ("min", "uint64"): ("unsigned long", LEAST),
    ("max", "uint32"): ("unsigned", MOST),
    ("max", "int64"): ("long", MOST),
    ("and", "int32"): ("int", BITS.format(op="&")),
    ("or", "uint32"): ("unsigned", BITS.format(op="|")),
    ("xor", "int64"): ("long", BITS.format(op="^")),
}
IN_OPENCL = [key for key in UPDATES if key[1].endswith("32")]


def program(kind: str, loop: str, folder: Path) -> Program:
    source = folder / "f.c"
    text = (
        f"void f(int n, {kind} x[n], {kind} s[1]) {{\n#pragma scop\n{loop}\n#pragma endscop\n}}\n"
    )
    source.write_text(text)
    (region,) = read_c(source).regions
    return program_of(region.tree, reassoc=True)


def made(key: tuple[str, str], folder: Path) -> tuple[Program, LoopNest]:
    """The reduction in 3 blocks of 8 threads, which update its element together."""
    found = program(*UPDATES[key], folder)
    (statement,) = found.statements
    step = MapReduction(statement.iterators[0], statement.iterators[0], 8, 3)
    return found, lower_schedule(apply_plan(found, (step,)))


@pytest.mark.parametrize("way", WAYS)
def test_results(way: str, tmp_path: Path) -> None:
    """Of updates that the dialect has; sums in any order are exact."""
    keys = IN_OPENCL if way == "opencl" else list(UPDATES)
    sizes = [{"n": n} for n in (0, 1, 2, 31, 300)]
    require_same([(*made(key, tmp_path), sizes) for key in keys], way)


def test_text(tmp_path: Path) -> None:
    nest = made(("add", "int64"), tmp_path)[1]
    text = emit_kernels([split_kernels(nest)], CUDA)
    assert "lw_atomic_add_int64(&s[0], s_sum[0]);" in text
    assert "atomicAdd((unsigned long long *)lw_to, (unsigned long long)lw_value);" in text
    nest = made(("max", "uint32"), tmp_path)[1]
    text = emit_kernels([split_kernels(nest)], OPENCL)
    assert "lw_atomic_max_uint32(&s[0], s_sum[0]);" in text
    assert "    atomic_max(lw_to, lw_value);" in text


def test_opencl_has_none_of_64_bits(tmp_path: Path) -> None:
    nest = made(("add", "float64"), tmp_path)[1]
    with pytest.raises(UsageError) as raised:
        emit_kernels([split_kernels(nest)], OPENCL)
    assert str(raised.value) == (
        "opencl has no atomic 'add' of float64\n"
        "try: a plan without atomics, which joins blocks by a second launch"
    )


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        (("add", "float32"), [MapReduction]),
        (("min", "int32"), [MapReduction]),
        # No atomic minimum of floating-point numbers: two passes.
        (("min", "float64"), [PartialSums, MapReduction, MapReduction]),
    ],
)
def test_plans_on_request(key: tuple[str, str], wanted: list[type], tmp_path: Path) -> None:
    kind, loop = UPDATES.get(key, ("double", LEAST))
    found = program(kind, loop, tmp_path)
    plan, schedule = gpu_planner(found, load_gpu("sm_90"), atomics=True)
    kinds = [type(step) for step in plan if isinstance(step, PartialSums | MapReduction)]
    assert kinds == wanted
    blocks = [step.blocks for step in plan if isinstance(step, MapReduction)]
    assert (blocks[0] > 1) == (len(wanted) == 1)
    assert len(split_kernels(lower_schedule(schedule)).kernels) == len(wanted) - len(wanted) // 2
    plan = gpu_planner(found, load_gpu("sm_90"))[0]
    assert any(isinstance(step, PartialSums) for step in plan)  # unless asked for
    assert np.all([step.blocks == 1 for step in plan if isinstance(step, MapReduction)])
