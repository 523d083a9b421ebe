"""Which kernel a contraction gets on a GPU, and that the code of all tiles keeps to registers."""

import math
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from drawn import drawn
from loopwright.backends.c_text.c_dialect import CUDA
from loopwright.backends.device_text.device_module import emit_kernels
from loopwright.diagnostics import UsageError
from loopwright.ir.contraction_shape import MOST_TABLE_BYTES, ContractionShape, Dim
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.grid_kernel import ElementsVariant, GridKernel, GridVariant
from loopwright.ir.kernel_variant import Algebra, Initial
from loopwright.lower.grid_nests.grid_launch import product_launch
from loopwright.lower.grid_nests.grid_product import lower_grid_product
from loopwright.lower.grid_nests.split_kernels import split_kernels
from loopwright.machines.load_gpu import load_gpu
from loopwright.planner.grid_plans.given_grid import given_grid_choice, grid_plan_of
from loopwright.planner.grid_plans.grid_products import GridChoice, choose_grid
from loopwright.transform.plan import Plan

MACHINE = load_gpu("sm_90")


def algebra(name: str, plus: str = "add", times: str = "mul") -> Algebra:
    dtype = DTYPES[name]
    total = DTYPES["float32"] if name == "float16" else dtype
    zero = math.inf if plus == "min" else 0
    return Algebra(plus, times, zero, dtype, dtype, dtype, total, Initial.ZERO, scaled=False)


def product(m: int, n: int, k: int, batch: int = 1) -> ContractionShape:
    groups = (Dim(batch, m * k, k * n, m * n),) if batch > 1 else ()
    return ContractionShape(groups, (Dim(m, k, 0, n),), (Dim(n, 0, 1, 1),), (Dim(k, 1, n, 0),))


def chosen(
    shape: ContractionShape, name: str = "float32", **more: tuple[int, int, int]
) -> GridChoice:
    return choose_grid(shape, algebra(name), MACHINE, **more)


def tile(choice: GridChoice) -> tuple[int, int]:
    variant = choice.kernel.variant
    assert isinstance(variant, GridVariant)
    return variant.rows, variant.columns


def test_operators_of_several_instructions_take_smaller_tiles() -> None:
    found = choose_grid(product(4096, 4096, 4096), algebra("int32", "min", "add_top"), MACHINE)
    assert found.kernel.variant.thread_rows * found.kernel.variant.thread_columns <= 64


def test_there_are_blocks_for_all_multiprocessors() -> None:
    """But for products that are done when a second launch would begin."""
    for n in (512, 1024):
        choice = chosen(product(n, n, n))
        rows, columns = tile(choice)
        blocks = choice.parts * -(-n // rows) * -(-n // columns)
        assert blocks >= 0.9 * MACHINE.multiprocessors


def test_tiles_of_the_matrix_unit_of_one_wave() -> None:
    """Two blocks to a multiprocessor hide loads; where p has tables, larger tiles look up less."""
    assert tile(chosen(product(1024, 1024, 1024), "float64")) == (64, 64)
    shape = product(1024, 1024, 1024)
    p = (Dim(32, 32, 1 << 20, 0), Dim(32, 1, 1024, 0))
    shape = ContractionShape((), (Dim(1024, 1024, 0, 1024),), shape.j, p)
    choice = chosen(shape, "float64")
    assert tile(choice) == (128, 64)
    assert choice.kernel.variant.by_tiles


def test_plans_that_do_not_fit_other_tensors() -> None:
    c, b = Dim(32, 0, 32, 1), Dim(32, 0, 1, 32)
    shape = ContractionShape((), (Dim(1024, 1024, 0, 1024),), (c, b), (Dim(1024, 1, 1024, 0),))
    turned = grid_plan_of(chosen(shape))
    others = replace(shape, j=(Dim(32, 0, 32, 32), Dim(32, 0, 1, 1)))
    aligned = (16, 16, 16)
    with pytest.raises(UsageError, match="neighbours of out are not 8 columns apart"):
        given_grid_choice(turned, others, algebra("float32"), MACHINE, aligned)
    given_grid_choice(turned, shape, algebra("float32"), MACHINE, aligned)
    p = (Dim(32, 32, 1 << 20, 0), Dim(32, 1, 1024, 0))
    tables = ContractionShape((), shape.i, (Dim(1024, 0, 1, 1),), p)
    odd = replace(tables, p=(p[0], replace(p[1], extent=36)))
    with pytest.raises(UsageError, match="tiles of 32 steps of the reduction are not alike"):
        given_grid_choice(grid_plan_of(chosen(tables)), odd, algebra("float32"), MACHINE, aligned)


def test_long_reductions_are_split() -> None:
    choice = chosen(product(64, 64, 1 << 18))
    assert choice.parts > 8
    assert choice.joined is not None
    assert (choice.parts - 1) * choice.chunk < 1 << 18 <= choice.parts * choice.chunk
    assert choice.sums.i[0].out == 64


def test_few_elements_of_long_reductions() -> None:
    """All multiprocessors load, and lanes add up the parts: memory bounds it, at 16 us."""
    choice = chosen(product(32, 32, 1 << 18))
    assert tile(choice) == (32, 32)
    assert choice.parts >= 1.5 * MACHINE.multiprocessors
    assert choice.joined is not None
    assert isinstance(choice.joined.kernel.variant, ElementsVariant)
    assert choice.joined.kernel.variant.lanes == 32
    assert choice.joined.seconds < 5e-6
    assert choice.seconds < 45e-6  # measured: 36 us


def test_vectors_are_loaded_where_memory_allows() -> None:
    def widths(shape: ContractionShape, **more: tuple[int, int, int]) -> tuple[int, int]:
        variant = chosen(shape, **more).kernel.variant
        assert isinstance(variant, GridVariant)
        return variant.left_width, variant.right_width

    assert widths(product(1024, 1024, 1024)) == (4, 4)
    assert widths(product(1024, 1022, 1024)) == (4, 2)
    assert widths(product(1024, 1024, 1023)) == (1, 4)
    assert widths(product(256, 256, 256), alignment=(16, 4, 16)) == (4, 1)


def test_matrix_and_vector_go_by_elements() -> None:
    along = ContractionShape((), (Dim(4096, 4096, 0, 1),), (), (Dim(4096, 1, 1, 0),))
    across = ContractionShape((), (Dim(4096, 1, 0, 1),), (), (Dim(4096, 4096, 1, 0),))
    first, second = chosen(along).kernel.variant, chosen(across)
    assert isinstance(first, ElementsVariant)
    assert first.lanes >= 32
    assert isinstance(second.kernel.variant, ElementsVariant)
    assert second.kernel.variant.lanes == 1
    assert second.parts > 1


@pytest.mark.parametrize("steps", [64, 1 << 12])
def test_tables_have_a_limit(steps: int) -> None:
    """Rows beyond it are counted by division; steps of tiles that are alike need few entries."""

    def shape(rows: int) -> ContractionShape:
        i = (Dim(rows, steps, 0, 1 << 20), Dim(1 << 10, steps * rows, 0, 512))
        p = (Dim(steps // 32, 32, 512, 0), Dim(32, 1, 512 * steps // 32, 0))
        return ContractionShape((), i, (Dim(512, 0, 1, 1),), p)

    def variant(rows: int) -> GridVariant:
        found = chosen(shape(rows))
        assert isinstance(found.kernel.variant, GridVariant)
        launch = product_launch(found.kernel, found.shape)
        assert launch.table.nbytes <= MOST_TABLE_BYTES
        return found.kernel.variant

    assert variant(1 << 9).strided == "gj"
    assert variant(1 << 11).strided == "giij"
    assert variant(1 << 20).strided == "giij"


def test_a_plan_whose_tables_are_too_large() -> None:
    def shape(rows: int) -> ContractionShape:
        i = (Dim(rows, 64, 0, 1 << 23), Dim(1 << 10, 64 * rows, 0, 512))
        return ContractionShape((), i, (Dim(512, 0, 1, 1),), (Dim(64, 1, 512, 0),))

    given = algebra("float32"), MACHINE, (16, 16, 16)
    plan = grid_plan_of(chosen(shape(1 << 9)))
    with pytest.raises(UsageError) as error:
        given_grid_choice(plan, shape(1 << 20), *given)
    assert str(error.value) == (
        "the plan does not fit this call\n"
        "note: found offset tables of i take 17,179,869,184 bytes, at most 16,777,216 are "
        "allocated\n"
        "try: a plan made for it"
    )
    divided = grid_plan_of(chosen(shape(1 << 20)))
    assert Plan.loads(divided.dumps()) == divided
    given_grid_choice(divided, shape(1 << 19), *given)
    loops = "bundle i is counted by division as 2 loops, here it has 3"
    i = (Dim(3, 1 << 30, 0, 1 << 40), *shape(1 << 20).i)
    with pytest.raises(UsageError, match=loops):
        given_grid_choice(divided, replace(shape(1 << 20), i=i), *given)


KINDS = (
    ("float32", "add", "mul"),
    ("float64", "add", "mul"),
    ("int32", "add", "mul"),
    ("float16", "add", "mul"),
    ("float32", "min", "add"),
    ("complex64", "add", "mul"),
    ("complex128", "add", "mul"),
)


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")
@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("arch", "kind"), drawn([("sm_80", KINDS[0]), *(("sm_90", kind) for kind in KINDS)], 4)
)
def test_chosen_kernel_keeps_to_registers(
    arch: str, kind: tuple[str, str, str], tmp_path: Path
) -> None:
    keeps_to_registers(product(4096, 4096, 4096), arch, kind, tmp_path)


def keeps_to_registers(
    shape: ContractionShape, arch: str, kind: tuple[str, str, str], tmp_path: Path
) -> None:
    choice = choose_grid(shape, algebra(*kind), load_gpu(arch))
    assert isinstance(choice.kernel, GridKernel)
    program = split_kernels(lower_grid_product(choice.kernel, "product"))
    source = tmp_path / "kernels.cu"
    source.write_text(emit_kernels([program], CUDA), encoding="utf-8")
    command = ["nvcc", "-cubin", f"-arch={arch}", "-Xptxas", "-v", "-o", f"{source}bin", source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    assert re.findall(r"(\d+) bytes spill stores", done.stderr) == ["0"]
