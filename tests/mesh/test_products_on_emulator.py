"""Products on a mesh with broadcasts and vectors: their text on the emulator, results to the bit.

The emulator checks every access: parts of panels that are still on their way, messages of two roots
that mix, scratchpads that overflow.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from drawn import drawn
from kernels.build import system_compiler
from kernels.corpus import KERNELS, SYMBOLIC, make_inputs, reference, write_source
from loopwright.cli import main
from loopwright.ir.mesh_machine import MeshMachine
from loopwright.machines.load_mesh import load_mesh
from loopwright.machines.mesh_timeline import predict_teams
from loopwright.runtime.athread_emulator.athread_run import AthreadRun, run_athread
from loopwright.runtime.athread_emulator.athread_trace import count_events

needs_compiler = pytest.mark.skipif(system_compiler() is None, reason="there is no C compiler")

# Sizes that are no multiples of tiles, vectors, or rows of cores.
CASES = [
    ("gemm", "sw26010", (37, 75, 53)), ("gemm", "sw26010pro", (70, 53, 41)),
    ("2mm", "sw26010", (50, 39, 66, 45)), ("syrk", "sw26010", (77, 35)),
    ("syr2k", "sw26010", (59, 50)), ("symm", "sw26010", (50, 70)),
    ("covariance", "sw26010", (70, 33)), ("syrk", "sw26010pro", (41, 59)),
]  # fmt: skip

_READ = """static void *given(FILE *file, long size)
{
    void *place = aligned_alloc(128, (size / 128 + 1) * 128);
    if (!place || fread(place, 1, size, file) != (size_t)size)
        abort();
    return place;
}
"""


def emulated(
    folder: Path, name: str, machine: MeshMachine, sizes: dict[str, int], *, profile: bool = False
) -> tuple[AthreadRun, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """A kernel run on the emulator: the run, the arrays behind it, and those of the reference."""
    kernel = KERNELS[name]
    source = write_source(kernel, folder, mode=SYMBOLIC)
    out = folder / "out"
    command = ["cc", str(source), "--target", "athread", "--machine", machine.name, "-o", str(out)]
    assert main(command) == 0
    inputs = make_inputs(kernel, sizes)
    wanted = reference(kernel, inputs)
    assert wanted is not None
    arrays = {key: value for key, value in inputs.items() if isinstance(value, np.ndarray)}
    (folder / "in.bin").write_bytes(b"".join(value.tobytes() for value in arrays.values()))
    kinds = ["void *" if k in arrays else "int" if k in sizes else "double" for k in inputs]
    lines = [
        "#include <stdio.h>\n#include <stdlib.h>\n",
        f"void {kernel.function}({', '.join(kinds)});\n{_READ}",
        f'int main(void)\n{{\n    FILE *in = fopen("{folder / "in.bin"}", "rb");\n',
        *(f"    void *p_{key} = given(in, {value.nbytes});\n" for key, value in arrays.items()),
    ]
    values = [f"p_{k}" if k in arrays else repr(np.asarray(v).item()) for k, v in inputs.items()]
    lines.append(f"    {kernel.function}({', '.join(values)});\n")
    lines.append(f'    FILE *to = fopen("{folder / "out.bin"}", "wb");\n')
    for key, value in arrays.items():
        lines.append(f"    fwrite(p_{key}, 1, {value.nbytes}, to);\n")
    lines.append("    return fclose(to);\n}\n")
    (folder / "main.c").write_text("".join(lines), encoding="utf-8")
    flags = [f"-I{out}", f"-I{folder}", "-DLW_LEAST_WORK=0"]
    flags += ["-DLW_ATHREAD_PRO"] if machine.has_remote_access else []
    masters = [str(folder / "main.c"), str(out / f"{name}.c"), str(out / f"{name}_master.c")]
    slaves = [str(out / f"{name}_slave.c")]
    run = run_athread(masters, slaves, machine, flags=flags, profile=profile, timeout=600)
    data = (folder / "out.bin").read_bytes()
    found: dict[str, np.ndarray] = {}
    at = 0
    for key, value in arrays.items():
        part = np.frombuffer(data, value.dtype, value.size, at)
        found[key] = part.reshape(value.shape)
        at += value.nbytes
    return run, found, {key: wanted[key] for key in arrays}


@pytest.mark.only_in_all("more products than test_parts_of_panels_are_brought_in_once compares")
@needs_compiler
@pytest.mark.drawn(2)
@pytest.mark.parametrize(("name", "machine", "extents"), drawn(CASES, 5))
def test_results_to_the_bit(
    name: str, machine: str, extents: tuple[int, ...], tmp_path: Path
) -> None:
    sizes = dict(zip(KERNELS[name].sizes, extents, strict=True))
    run, found, wanted = emulated(tmp_path, name, load_mesh(machine), sizes)
    assert run.status == 0
    for key, value in wanted.items():
        assert np.array_equal(found[key], value), key


@needs_compiler
def test_parts_of_panels_are_brought_in_once(tmp_path: Path) -> None:
    machine = load_mesh("sw26010")
    sizes = {"ni": 96, "nj": 128, "nk": 192}  # of whole tiles
    run, found, wanted = emulated(tmp_path, "gemm", machine, sizes, profile=True)
    assert np.array_equal(found["C"], wanted["C"])
    assert run.trace is not None
    counts = count_events(run.trace)
    # C there and back, A and B once: cores of a row and of a column give them to each other. Of C
    # and of arguments all is needed.
    arguments = 64 * 72
    bytes_ = 8 * (2 * 96 * 128 + 96 * 192 + 192 * 128)
    assert bytes_ <= counts.bytes <= bytes_ + arguments
    assert counts.messages > 0
    assert counts.global_accesses == 0
    # Vectors: four products and sums in a slot.
    prediction = predict_teams(machine, run.trace.teams)
    busiest = 2 * 48 * 64 * 192 / 8
    assert busiest <= prediction.vector_cycles < 1.5 * busiest
