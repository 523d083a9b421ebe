"""Device programs on OpenCL, where a driver is installed (PoCL runs on any processor)."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright.diagnostics import DtypeError, ToolchainError, UsageError
from loopwright.ir.device import DeviceKernel, DeviceMemory, DeviceProgram, LaunchKernel
from loopwright.ir.dtypes import FLOAT32
from loopwright.ir.expr import Const, Var
from loopwright.ir.loops import Block, Buffer
from loopwright.runtime import opencl_executable
from loopwright.runtime.device_bundle import load_bundle, save_bundle
from loopwright.runtime.opencl_executable import OpenclExecutable, opencl_context

HEAD = "typedef LW_INDEX lw_index;\n"
MATMUL = (
    HEAD
    + """
__kernel __attribute__((reqd_work_group_size(16, 16, 1))) void matmul(
    __global const float *A, __global const float *B, __global float *C, lw_index n)
{
    __local float a[16][16], b[16][16];
    int x = get_local_id(0), y = get_local_id(1);
    lw_index i = get_group_id(1) * 16 + y, j = get_group_id(0) * 16 + x;
    float sum = 0.0f;
    for (lw_index k = 0; k < n; k += 16) {
        a[y][x] = A[i * n + k + x];
        b[y][x] = B[(k + y) * n + j];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int q = 0; q < 16; q++) sum = fma(a[y][q], b[q][x], sum);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    C[i * n + j] = sum;
}
"""
)
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


def why_not() -> str:
    try:
        opencl_context()
    except UsageError as error:
        return error.message
    return ""


needs_opencl = pytest.mark.skipif(bool(why_not()), reason=why_not())


def packed(name: str, rank: int = 1) -> Buffer:
    strides = (n, one)[2 - rank :]
    return Buffer(name, FLOAT32, strides, writable=name != "A")


def matmul() -> DeviceProgram:
    buffers = (packed("A", 2), Buffer("B", FLOAT32, (n, one)), packed("C", 2))
    grid = (n // 16, n // 16, one)
    kernel = DeviceKernel("matmul", buffers, ("n",), grid, (16, 16, 1), Block(()))
    return DeviceProgram("matmul", buffers, ("n",), (kernel,), (LaunchKernel("matmul"),))


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
def test_tiled_product() -> None:
    left, right = np.random.default_rng(0).standard_normal((2, 64, 64)).astype(np.float32)
    out = np.zeros((64, 64), np.float32)
    OpenclExecutable(matmul(), MATMUL).run_from_host((left, right, out), size)
    np.testing.assert_allclose(out, left @ right, rtol=1e-4, atol=1e-5)


@needs_opencl
@pytest.mark.parametrize("count", [0, 100])
def test_memory_between_launches(count: int) -> None:
    source, memory = np.arange(2 * count, dtype=np.float32), np.zeros(2 * count, np.float32)
    run = OpenclExecutable(turn(), TURN)
    run.run_from_host((source[::2], memory[::-2]), size, reads=(True, False))
    assert memory[::-2].tolist() == (2 * source[::2][::-1]).tolist()
    assert not memory[::2].any()


@needs_opencl
def test_buffers_of_the_caller_with_wide_subscripts() -> None:
    cl = pytest.importorskip("pyopencl")
    run = OpenclExecutable(turn(), TURN)
    source, out = np.arange(50, dtype=np.float32), np.zeros(50, np.float32)
    queue = cl.CommandQueue(run.context)
    flags = cl.mem_flags
    a = cl.Buffer(run.context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=source)
    c = cl.Buffer(run.context, flags.READ_WRITE, out.nbytes)
    run.launch(queue, (a, c), (50,), reach=1 << 30)
    cl.enqueue_copy(queue, out, c)
    assert out.tolist() == (2 * source[::-1]).tolist()


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


@needs_opencl
def test_text_that_does_not_compile() -> None:
    run = OpenclExecutable(turn(), TURN.replace("2 * A", "2 * Q"))
    arrays = np.zeros(4, np.float32), np.zeros(4, np.float32)
    with pytest.raises(ToolchainError, match=r"'Q'"):
        run.run_from_host(arrays, size)


@needs_opencl
def test_arguments_that_do_not_fit() -> None:
    run = OpenclExecutable(turn(), TURN)
    good = np.zeros(4, np.float32)
    with pytest.raises(DtypeError, match=r"'A' has dtype 'int32'"):
        run.run_from_host((good.astype(np.int32), good), size)
    with pytest.raises(UsageError, match=r"there is no such OpenCL device"):
        opencl_context("no device has this name")


def test_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    with pytest.raises(UsageError) as raised:
        opencl_executable.opencl_context()
    assert raised.value.message == "OpenCL needs the package pyopencl"
    assert raised.value.hint == "pip install 'loopwright[opencl]'"
