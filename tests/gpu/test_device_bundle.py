"""Bundles: what is saved is loaded and runs; what is damaged is refused and nothing of it runs."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from gpu.fake_cuda import FakeArray, fake_driver
from gpu.shim.cuda_shim import has_compiler
from loopwright.diagnostics import UsageError
from loopwright.ir.device import (
    Bind,
    DeviceKernel,
    DeviceMemory,
    DeviceProgram,
    LaunchKernel,
    Repeat,
    When,
)
from loopwright.ir.device_serial import device_program_to_json, read_device_program
from loopwright.ir.dtypes import FLOAT32
from loopwright.ir.expr import Binary, Const, Var
from loopwright.ir.loops import Block, Buffer
from loopwright.ir.serial import Malformed
from loopwright.runtime import cuda_executable
from loopwright.runtime.argument_sizes import scalars_from_arrays
from loopwright.runtime.device_bundle import load_bundle, save_bundle

TEXT = """
typedef LW_INDEX lw_index;
extern "C" __global__ void add(const float *A, float *C, lw_index n, lw_index A_s0, lw_index k)
{ lw_index i = blockIdx.x * 32 + threadIdx.x; if (i < n) C[i] += A[i * A_s0] + k; }
"""
n, one = Var("n"), Const(1)
A = Buffer("A", FLOAT32, (Var("A_s0"),))
C = Buffer("C", FLOAT32, (one,), writable=True)
SHAPES = {"A": (n,), "C": (n,)}
IMAGES = {("sm_90", "int"): TEXT.encode()}


def program() -> DeviceProgram:
    add = DeviceKernel(
        "add", (A, C), ("n", "A_s0", "k"), ((n + 31) // 32, one, one), (32, 1, 1), Block(())
    )
    return DeviceProgram("sum", (A, C), ("n", "A_s0", "k"), (add,), (LaunchKernel("add"),))


def test_every_step_survives() -> None:
    t = Buffer("T", FLOAT32, (n, one), writable=True)
    steps = (
        Repeat("i", Const(0), n, Const(2), (LaunchKernel("add"),), until=Binary("gt", Var("i"), n)),
        Repeat("i", Const(0), n, one, ()),
        When(
            Binary("lt", n, one),
            (LaunchKernel("add"),),
            (Bind("m", n * 3, (LaunchKernel("add"),)),),
        ),
        DeviceMemory(t, (n, Const(4)), (LaunchKernel("add"),)),
    )
    made = DeviceProgram("all", (A, C), ("n", "A_s0", "k"), program().kernels, steps)
    assert read_device_program(json.loads(json.dumps(device_program_to_json(made)))) == made


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("kernels", 0, "name"), "add(); system", "not a kernel"),
        (("kernels", 0, "block"), [0, 1, 1], "not a kernel"),
        (("kernels", 0, "block"), [True, 1, 1], "not a kernel"),
        (("kernels", 0, "grid"), [["const", 1, "int64"]], "not a kernel"),
        (("kernels", 0, "shared_bytes"), -1, "not a kernel"),
        (("buffers", 0), ["global", "A", "float33", [], True], "not a buffer"),
        (("host", 0), ["run", "add"], "not a step of a host's part"),
        (("host",), "add", "not a device program"),
        (("scalars", 0), 3, "not a name"),
    ],
)
def test_other_values_are_refused(path: tuple[Any, ...], value: Any, told: str) -> None:
    data = device_program_to_json(program())
    place = data
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(Malformed, match=told):
        read_device_program(data)


def save(folder: Path) -> None:
    save_bundle(folder, program(), TEXT, images=IMAGES, shapes=SHAPES, reads=(True, True))


@pytest.mark.skipif(not has_compiler(), reason="there is no C++ compiler")
def test_bundle_runs_on_device_and_host_arrays(tmp_path: Path) -> None:
    save(tmp_path)
    source, out = np.arange(80, dtype=np.float32), np.ones(40, np.float32)
    with fake_driver() as api:
        run = load_bundle(tmp_path).function()
        run(FakeArray(source[::2], api), FakeArray(out, api), k=5)
        assert out.tolist() == (source[::2] + 6).tolist()
        run(source[::2], out, k=0)
        assert out.tolist() == (2 * source[::2] + 6).tolist()
        with pytest.raises(UsageError, match=r"arrays do not tell 'k' of 'sum'"):
            run(source[::2], out)
        with pytest.raises(UsageError, match=r"'n' would have two values"):
            run(source, out, k=1)
        memory = FakeArray(np.zeros(80, np.float32)[::2], api)
        with pytest.raises(UsageError, match=r"'C' has stride 2 in dimension 0"):
            run(FakeArray(source[::2], api), memory, k=5)
        with pytest.raises(UsageError, match=r"'sum' has no scalar 'q'"):
            run(source[::2], out, q=1)


def test_sizes_are_held_against_the_arrays() -> None:
    views = [np.zeros(5, np.int8), np.zeros(4, np.int8)]  # strides in bytes are those in elements
    shapes = {"A": (n + 1,), "C": (n,)}
    assert scalars_from_arrays(program(), shapes, views, {"k": 7}) == (4, 1, 7)
    with pytest.raises(UsageError) as raised:
        scalars_from_arrays(program(), {"A": (n * 2,), "C": (n,)}, views, {"k": 7})
    assert str(raised.value) == "'A' has extent 5 in dimension 0\ntry: extent 8"


def change(folder: Path, **changes: Any) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def without_manifest(folder: Path) -> None:
    (folder / "manifest.json").unlink()


def no_json(folder: Path) -> None:
    (folder / "manifest.json").write_text("{")


def too_deep(folder: Path) -> None:
    (folder / "manifest.json").write_text("[" * 100_000)


def later_version(folder: Path) -> None:
    change(folder, version=2)


def damaged_code(folder: Path) -> None:
    (folder / "sm_90.int.cubin").write_bytes(b"other")


def missing_text(folder: Path) -> None:
    (folder / "kernels.cu").unlink()


def outside(folder: Path) -> None:
    change(folder, images=[{"arch": "sm_90", "index": "int", "file": "../secret"}])


def other_signature(folder: Path) -> None:
    change(folder, signature={"arguments": [], "scalars": ["n", "A_s0", "k"]})


def unknown_kernel(folder: Path) -> None:
    data = device_program_to_json(program())
    data["host"] = [["launch", "sub"]]
    change(folder, program=data)


DAMAGES = [
    (without_manifest, "No such file or directory"),
    (no_json, "Expecting property name enclosed in double quotes"),
    (too_deep, "parts lie in parts too deeply"),
    (later_version, "not a manifest of version 1: 2"),
    (damaged_code, "not what was saved as sm_90.int.cubin: '5 bytes'"),
    (missing_text, "No such file or directory"),
    (outside, "not an image: "),
    (other_signature, "not the signature of its program"),
    (unknown_kernel, "'sum' launches 'sub', which it does not have"),
]


@pytest.mark.parametrize(("damage", "told"), DAMAGES)
def test_damaged_bundles_are_refused(tmp_path: Path, damage: Any, told: str) -> None:
    save(tmp_path)
    damage(tmp_path)
    with pytest.raises(UsageError) as raised:
        load_bundle(tmp_path)
    assert raised.value.message == "this folder holds no bundle that can be used"
    assert raised.value.found.startswith(f"{tmp_path}: {told}")


def test_bundle_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"the bundle cannot be written: "):
        save(tmp_path / "file" / "b")
    with pytest.raises(UsageError, match=r"no language of bundles"):
        save_bundle(tmp_path, program(), TEXT, language="metal")


# -- what users save and load ---------------------------------------------------------------------

SOURCE = b"""
void scale(int n, int m, float c, float A[n][m]) {
#pragma scop
  for (int i = 0; i < n; i++)
    for (int j = 0; j < m; j++)
      A[i][j] = c * A[i][j] + i;
#pragma endscop
}
"""


@pytest.mark.skipif(not has_compiler(), reason="there is no C++ compiler")
def test_load_runs_what_compiled_code_saves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process that has neither isl nor LLVM."""
    monkeypatch.setattr(cuda_executable, "compile_cuda", lambda text, *_: text.encode())
    file = lw.compile(SOURCE, "cuda", machine="sm_90")
    file.save(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "kernels.cu",
        "manifest.json",
        "sm_90.int.cubin",
    ]
    code = f"""
import sys
sys.modules["islpy"] = sys.modules["llvmlite"] = sys.modules["scipy"] = None
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
import numpy as np
import loopwright as lw
from gpu.fake_cuda import FakeArray, fake_driver
scale = lw.load({str(tmp_path)!r})
print(scale)
old = np.arange(35, dtype=np.float32).reshape(5, 7)
with fake_driver() as api:
    on_device, here = old.copy(), old.copy()
    arguments = {{"c": np.float32(3)}}
    scale(*[arguments.get(name, FakeArray(on_device, api)) for name in scale.parameters])
    scale(*[arguments.get(name, here) for name in scale.parameters])
    wanted = 3 * old + np.arange(5, dtype=np.float32)[:, None]
    assert (on_device == wanted).all() and (here == wanted).all()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout in (
        "<loopwright bundle scale(c, A) for cuda>\n",
        "<loopwright bundle scale(A, c) for cuda>\n",
    )


def test_code_of_processors_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        lw.compile(SOURCE).save(str(tmp_path))
    assert str(raised.value) == 'bundles are of code for a GPU\ntry: compile(..., target="cuda")'
    with pytest.raises(UsageError, match="this folder holds no bundle that can be used"):
        lw.load(tmp_path)


def test_a_function_of_two_regions_is_no_bundle(tmp_path: Path) -> None:
    region = SOURCE[SOURCE.index(b"#pragma scop") : SOURCE.rindex(b"}")]
    twice = lw.compile(SOURCE.replace(region, region + region), "cuda", machine="sm_90")
    with pytest.raises(UsageError) as raised:
        twice["scale"].save(str(tmp_path))
    assert str(raised.value) == (
        "'scale' has 2 regions\ntry: a function of one region for each bundle"
    )
