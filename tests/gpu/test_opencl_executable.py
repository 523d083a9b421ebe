"""Device programs on OpenCL, where a driver is installed (PoCL runs on any processor)."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from gpu.ways import needs_opencl
from loopwright.diagnostics import UsageError
from loopwright.ir.device import DeviceKernel, DeviceMemory, DeviceProgram, LaunchKernel
from loopwright.ir.dtypes import FLOAT32
from loopwright.ir.expr import Const, Var
from loopwright.ir.loops import Block, Buffer
from loopwright.runtime import opencl_executable
from loopwright.runtime.device_bundle import load_bundle, save_bundle
from loopwright.runtime.opencl_executable import OpenclExecutable

HEAD = "typedef LW_INDEX lw_index;\n"
TURN = (
    HEAD
    + """
__kernel void twice(__global const float *A, __global float *T, lw_index n)
{ lw_index i = get_global_id(0); if (i < n) T[i] = 2 * A[i]; }
__kernel void turn(__global const float *T, __global float *C, lw_index n)
{ lw_index i = get_global_id(0); if (i < n) C[i] = T[n - 1 - i]; }
"""
)
n, one = Var("n"), Const(1)


def packed(name: str, rank: int = 1) -> Buffer:
    strides = (n, one)[2 - rank :]
    return Buffer(name, FLOAT32, strides, writable=name != "A")


def turn() -> DeviceProgram:
    a, t, c = packed("A"), packed("T"), packed("C")
    grid = ((n + 31) // 32, one, one)
    kernels = (
        DeviceKernel("twice", (a, t), ("n",), grid, (32, 1, 1), Block(())),
        DeviceKernel("turn", (t, c), ("n",), grid, (32, 1, 1), Block(())),
    )
    host = (DeviceMemory(t, (n,), (LaunchKernel("twice"), LaunchKernel("turn"))),)
    return DeviceProgram("turn", (a, c), ("n",), kernels, host)


def size(views: Any) -> tuple[int]:
    return (views[0].shape[0],)


@needs_opencl
@pytest.mark.parametrize("count", [0, 100])
def test_memory_between_launches(count: int) -> None:
    source, memory = np.arange(2 * count, dtype=np.float32), np.zeros(2 * count, np.float32)
    run = OpenclExecutable(turn(), TURN)
    run.run_from_host((source[::2], memory[::-2]), size, reads=(True, False))
    assert memory[::-2].tolist() == (2 * source[::2][::-1]).tolist()
    assert not memory[::2].any()


@needs_opencl
def test_bundle_of_opencl(tmp_path: Path) -> None:
    shapes = {"A": (n,), "C": (n,)}
    save_bundle(tmp_path, turn(), TURN, language="opencl", shapes=shapes)
    source, out = np.arange(50, dtype=np.float32), np.zeros(50, np.float32)
    bundle = load_bundle(tmp_path)
    bundle.opencl_executable().run_from_host((source, out), size)
    assert out.tolist() == (2 * source[::-1]).tolist()
    with pytest.raises(UsageError, match=r"the bundle is not for CUDA"):
        bundle.executable()
    out[:] = 0
    loaded = lw.load(tmp_path)
    assert repr(loaded) == "<loopwright bundle turn(A, C) for opencl>"
    loaded(source, out)
    assert out.tolist() == (2 * source[::-1]).tolist()


def test_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    with pytest.raises(UsageError) as raised:
        opencl_executable.opencl_context()
    assert raised.value.message == "OpenCL needs the package pyopencl"
    assert raised.value.hint == "pip install 'loopwright[opencl]'"
