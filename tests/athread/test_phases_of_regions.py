"""Products one after another in one region: each has a function, and all of them one stack."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from athread.emulated import Emulated
from athread.test_generated_kernels import has_bits_of, program_named
from drawn import drawn
from kernels.build import system_compiler
from kernels.corpus import KERNELS, make_inputs, reference
from loopwright.backends.athread import athread_module
from loopwright.machines.load_mesh import load_mesh
from loopwright.planner.mesh_plans import tiled_nests
from loopwright.planner.mesh_plans.mesh import mesh_planner
from loopwright.planner.mesh_plans.mesh_tiles import TiledLoop, TileSizes
from loopwright.runtime.athread_emulator.athread_run import AthreadFault

SW = load_mesh("sw26010")
KINDS = {
    "2mm": {"ni": 41, "nj": 37, "nk": 50, "nl": 45},
    "3mm": {"ni": 41, "nj": 37, "nk": 50, "nl": 45, "nm": 26},
}
# All of the scratchpad but what arguments and the stack of one product need.
TILES, WINDOW, STRIP = (38, 140, 16), 16, 48

needs_compiler = pytest.mark.skipif(system_compiler() is None, reason="there is no C compiler")


def largest(loops: Sequence[TiledLoop], *_: object) -> TileSizes | None:
    """Tiles as for large matrices."""
    if len(loops) < 3:
        return None
    names = [loop.name for loop in loops]
    sizes = dict(zip(names, TILES, strict=True))
    return TileSizes(sizes, {names[2]: WINDOW}, 1.0, {names[1]: STRIP})


def run(kernel: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Run a kernel with such tiles; the arrays that differ from plain C."""
    monkeypatch.setattr(tiled_nests, "product_sizes", largest)
    program, sizes = program_named(kernel), KINDS[kernel]
    plan, schedule = mesh_planner(program, SW)
    assert sum(box.panel is not None for box in schedule.boxes) == 2 * int(kernel[0])
    inputs = make_inputs(KERNELS[kernel], sizes)
    expected = reference(KERNELS[kernel], inputs)
    assert expected is not None
    arrays = {
        key: value.copy() if isinstance(value, np.ndarray) else np.array(value)
        for key, value in inputs.items()
    }
    build = Emulated({kernel: program}, SW, (8, 8), folder, plans={kernel: plan})
    build.run([(kernel, arrays, sizes)])
    return [name for name, found in expected.items() if not has_bits_of(arrays[name], found)]


@needs_compiler
@pytest.mark.parametrize("kernel", drawn(KINDS, 2))
def test_products_fill_the_scratchpad_one_after_another(
    kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not run(kernel, tmp_path, monkeypatch)


@pytest.mark.only_in_all(
    "what phases prevent; test_products_fill_the_scratchpad_one_after_another watches that they do"
)
@needs_compiler
def test_in_one_function_their_stacks_add_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(athread_module, "phases_apart", lambda _: ())
    with pytest.raises(AthreadFault, match="LDM"):
        run("3mm", tmp_path, monkeypatch)
