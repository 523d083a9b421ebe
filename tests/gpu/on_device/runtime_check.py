"""Checks the CUDA runtime on a real device, with kernels written by hand.

    PYTHONPATH=src python3 tests/gpu/on_device/runtime_check.py

A plain script: it needs cuda-bindings, NVRTC and NumPy, and uses PyTorch, CuPy and Numba where they
are installed. It loads neither pytest nor isl. Each check prints a line; the exit status is the
number of checks that failed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "src"))

import numpy as np

from loopwright.diagnostics import DeviceError, LoopwrightError, UsageError
from loopwright.ir.device import DeviceKernel, DeviceMemory, DeviceProgram, LaunchKernel, Repeat
from loopwright.ir.dtypes import FLOAT32
from loopwright.ir.expr import Const, Var
from loopwright.ir.loops import Block, Buffer
from loopwright.runtime.argument_sizes import scalars_from_arrays
from loopwright.runtime.cuda_compiler import compile_cuda, nvrtc_version
from loopwright.runtime.cuda_driver import cuda_device
from loopwright.runtime.cuda_executable import NARROW, CudaExecutable
from loopwright.runtime.cuda_timing import time_launches
from loopwright.runtime.cuda_transfers import run_from_host
from loopwright.runtime.device_arrays import device_array, empty_like_arguments
from loopwright.runtime.device_bundle import load_bundle, save_bundle

HEAD = """
#ifndef LW_INDEX
#define LW_INDEX int
#endif
typedef LW_INDEX lw_index;
"""
ADD = (
    HEAD
    + """
extern "C" __global__ void add(const float *A, const float *B, float *C,
                               lw_index n, lw_index A_s0, lw_index B_s0, lw_index C_s0)
{
    lw_index i = (lw_index)blockIdx.x * 256 + threadIdx.x;
    if (i < n) C[i * C_s0] = A[i * A_s0] + B[i * B_s0];
}
"""
)
# TILE x TILE tiles in dynamic shared memory behind PAD more floats: with 64 KiB of them the kernel
# needs the driver's leave.
MATMUL = (
    HEAD
    + """
#define TILE 32
extern __shared__ __align__(16) float tiles[];
extern "C" __global__ void __launch_bounds__(1024) matmul(
    const float *A, const float *B, float *C, lw_index m, lw_index n, lw_index k,
    lw_index A_s0, lw_index A_s1, lw_index B_s0, lw_index B_s1, lw_index C_s0, lw_index C_s1)
{
    float *a = tiles + PAD, *b = a + TILE * TILE;
    int x = threadIdx.x, y = threadIdx.y;
    lw_index i = (lw_index)blockIdx.y * TILE + y, j = (lw_index)blockIdx.x * TILE + x;
    float sum = 0.0f;
    for (lw_index p = 0; p < k; p += TILE) {
        a[y * TILE + x] = i < m && p + x < k ? A[i * A_s0 + (p + x) * A_s1] : 0.0f;
        b[y * TILE + x] = p + y < k && j < n ? B[(p + y) * B_s0 + j * B_s1] : 0.0f;
        __syncthreads();
        for (int q = 0; q < TILE; q++) sum = fmaf(a[y * TILE + q], b[q * TILE + x], sum);
        __syncthreads();
    }
    if (i < m && j < n) C[i * C_s0 + j * C_s1] = sum;
}
"""
)
# Memory between launches: T = A, then `n` times T = T + B, then C = T.
CHAIN = (
    HEAD
    + """
extern "C" __global__ void begin(const float *A, float *T, lw_index n)
{ lw_index i = (lw_index)blockIdx.x * 256 + threadIdx.x; if (i < n) T[i] = A[i]; }
extern "C" __global__ void further(const float *B, float *T, lw_index n)
{ lw_index i = (lw_index)blockIdx.x * 256 + threadIdx.x; if (i < n) T[i] += B[i]; }
extern "C" __global__ void finish(const float *T, float *C, lw_index n)
{ lw_index i = (lw_index)blockIdx.x * 256 + threadIdx.x; if (i < n) C[i] = T[i]; }
"""
)
BAD = 'extern "C" __global__ void bad(float *C) { C[1ll << 40] = 1.0f; }\n'
one = Const(1)
n, m, k = Var("n"), Var("m"), Var("k")


def strided(name: str, rank: int, writable: bool = False) -> Buffer:
    return Buffer(name, FLOAT32, tuple(Var(f"{name}_s{d}") for d in range(rank)), writable=writable)


def packed(name: str, writable: bool = False) -> Buffer:
    return Buffer(name, FLOAT32, (one,), writable=writable)


def add_program() -> DeviceProgram:
    buffers = (strided("A", 1), strided("B", 1), strided("C", 1, True))
    scalars = ("n", "A_s0", "B_s0", "C_s0")
    add = DeviceKernel(
        "add", buffers, scalars, ((n + 255) // 256, one, one), (256, 1, 1), Block(())
    )
    return DeviceProgram("add", buffers, scalars, (add,), (LaunchKernel("add"),))


ADD_SHAPES = {"A": (n,), "B": (n,), "C": (n,)}


def matmul_program(pad: int) -> DeviceProgram:
    buffers = (strided("A", 2), strided("B", 2), strided("C", 2, True))
    scalars = ("m", "n", "k", *(f"{b}_s{d}" for b in "ABC" for d in range(2)))
    grid = ((n + 31) // 32, (m + 31) // 32, one)
    shared = 4 * (pad + 2 * 32 * 32)
    kernel = DeviceKernel("matmul", buffers, scalars, grid, (32, 32, 1), Block(()), shared)
    return DeviceProgram("matmul", buffers, scalars, (kernel,), (LaunchKernel("matmul"),))


MATMUL_SHAPES = {"A": (m, k), "B": (k, n), "C": (m, n)}


def chain_program() -> DeviceProgram:
    a, b, t, c = packed("A"), packed("B"), packed("T", True), packed("C", True)
    grid = ((n + 255) // 256, one, one)
    kernels = tuple(
        DeviceKernel(name, arguments, ("n",), grid, (256, 1, 1), Block(()))
        for name, arguments in (("begin", (a, t)), ("further", (b, t)), ("finish", (t, c)))
    )
    repeat = Repeat("i", Const(0), Var("times"), one, (LaunchKernel("further"),))
    host = (DeviceMemory(t, (n,), (LaunchKernel("begin"), repeat, LaunchKernel("finish"))),)
    return DeviceProgram("chain", (a, b, c), ("n", "times"), kernels, host)


def call(run: CudaExecutable, shapes: Any, arrays: Any, **given: int) -> None:
    """A call with the scalars that the arrays tell, in the library's current stream."""
    views = [device_array(x, b.name) for x, b in zip(arrays, run.program.buffers, strict=True)]
    run(arrays, scalars_from_arrays(run.program, shapes, views, given))


# -- libraries ------------------------------------------------------------------------------------


class Library:
    """How one library moves arrays and waits."""

    def __init__(self, name: str, put: Any, get: Any) -> None:
        self.name, self.put, self.get = name, put, get


def libraries() -> list[Library]:
    found = []
    try:
        import torch

        found.append(
            Library("torch", lambda x: torch.from_numpy(x.copy()).cuda(), lambda x: x.cpu().numpy())
        )
    except ImportError:
        print("skip torch: not installed")
    try:
        import cupy

        found.append(Library("cupy", cupy.asarray, cupy.asnumpy))
    except ImportError:
        print("skip cupy: not installed")
    try:
        from numba import cuda

        found.append(Library("numba", cuda.to_device, lambda x: x.copy_to_host()))
    except ImportError:
        print("skip numba: not installed")
    return found


failed = 0


def check(name: str, body: Callable[[], Any]) -> None:
    """Run a check and print what came of it."""
    global failed
    start = time.perf_counter()
    try:
        told = body()
    except Exception:  # noqa: BLE001, the other checks go on
        failed += 1
        print(f"FAIL {name}")
        traceback.print_exc()
    else:
        took = 1e3 * (time.perf_counter() - start)
        print(f"ok   {name} ({took:.1f} ms){': ' + str(told) if told else ''}")
    sys.stdout.flush()


def expect(kind: type[BaseException], words: str, body: Callable[[], Any]) -> None:
    try:
        body()
    except kind as error:
        if words not in str(error):
            raise AssertionError(f"{words!r} not in {str(error)!r}") from error
    else:
        raise AssertionError(f"no {kind.__name__} with {words!r}")


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def near(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-3)


# -- checks ---------------------------------------------------------------------------------------

add = CudaExecutable(add_program(), ADD)
matmul = CudaExecutable(matmul_program(0), MATMUL, ["-DPAD=0"])
matmul_large = CudaExecutable(matmul_program(16384), MATMUL, ["-DPAD=16384"])
chain = CudaExecutable(chain_program(), CHAIN)


def check_library(library: Library) -> None:
    def vectors() -> None:
        a, b = random(100_001), random(100_001)[::-1].copy()
        x, y = library.put(a), library.put(b)
        out = empty_like_arguments([device_array(x, "A")], (100_001,), FLOAT32)
        assert type(out) is type(x)
        call(add, ADD_SHAPES, (x, y, out))
        near(library.get(out), a + b)

    def views() -> None:
        a, b = random(1000), random(3000)
        x, y, out = library.put(a), library.put(b), library.put(np.zeros(2000, np.float32))
        call(add, ADD_SHAPES, (x, y[::3], out[::2]))
        near(library.get(out)[::2], a + b[::3])
        assert not library.get(out)[1::2].any()

    def product(run: CudaExecutable) -> None:
        a, b = random(200, 300), random(300, 170)
        x, y, out = library.put(a), library.put(b), library.put(np.zeros((200, 170), np.float32))
        call(run, MATMUL_SHAPES, (x, y, out))
        near(library.get(out), a @ b)

    def many() -> None:
        a, b = random(5000), random(5000)
        x, y, out = library.put(a), library.put(b), library.put(np.zeros(5000, np.float32))
        chain((x, y, out), (5000, 10))
        near(library.get(out), a + 10 * b)

    check(f"{library.name}: vector sum, result of the same library", vectors)
    check(f"{library.name}: views with strides", views)
    check(f"{library.name}: tiled product, 8 KiB of shared memory", lambda: product(matmul))
    check(f"{library.name}: tiled product, 72 KiB of shared memory", lambda: product(matmul_large))
    check(f"{library.name}: memory between 12 launches", many)


def check_torch() -> None:
    import torch

    def stream_order() -> None:
        side = torch.cuda.Stream()
        x = torch.zeros(1 << 20, device="cuda")
        y, out = torch.ones_like(x), torch.zeros_like(x)
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(200_000_000)  # about 0.1 s: what does not wait reads zeros
            x.fill_(3.0)
            call(add, ADD_SHAPES, (x, y, out))
            result = out.clone()
        assert not side.query(), "the launch has waited for the device"
        side.synchronize()
        assert (result == 4).all()

    def graph() -> None:
        x, y = torch.zeros(1 << 16, device="cuda"), torch.ones(1 << 16, device="cuda")
        out = torch.zeros_like(x)
        chain((x, y, out), (1 << 16, 3))  # compiles and loads
        torch.cuda.synchronize()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            chain((x, y, out), (1 << 16, 3))
            call(add, ADD_SHAPES, (out, y, out))
        for value in (1.0, 5.0):
            x.fill_(value)
            captured.replay()
            torch.cuda.synchronize()
            assert (out == value + 4).all()

    def refusals() -> None:
        x = torch.zeros(8, device="cuda")
        host = torch.zeros(8)
        ones = (8, 1, 1, 1)
        expect(UsageError, "has dtype 'float64'", lambda: add((x.double(), x, x), ones))
        expect(UsageError, "'B' is no array of a CUDA", lambda: add((x, "b", x), ones))
        expect(UsageError, "'B' lies in the host's memory", lambda: add((x, host, x), ones))
        expect(UsageError, "'B' lies in the host's memory", lambda: add((x, host.numpy(), x), ones))
        expect(UsageError, "2 dimensions", lambda: add((x[None], x, x), ones))
        expect(UsageError, "share memory", lambda: add((x, x, x[:1].expand(8)), ones))
        expect(UsageError, "a gradient", lambda: add((x.requires_grad_(), x, x), ones))
        y, z = torch.ones(8, device="cuda"), torch.zeros(8, device="cuda")
        call(add, ADD_SHAPES, (y, y, z))
        assert (z == 2).all()

    def large() -> str:
        count = (1 << 31) + 5
        x = torch.ones(count, device="cuda")
        out = torch.empty_like(x)
        call(add, ADD_SHAPES, (x, x, out))
        assert (float(out[-1]), float(out[1 << 30])) == (2, 2)
        assert (0, True) in add._ready
        return f"{count} elements"

    check("torch: order in a stream, without waiting", stream_order)
    check("torch: capture in a graph and two replays", graph)
    check("torch: arguments that do not fit", refusals)
    check("torch: subscripts of 64 bits", large)
    torch.cuda.empty_cache()


def check_cupy() -> None:
    import cupy

    def stream_order() -> None:
        x, y = cupy.zeros(1 << 20, np.float32), cupy.ones(1 << 20, np.float32)
        out = cupy.zeros_like(x)
        cupy.cuda.Device().synchronize()
        with cupy.cuda.Stream(non_blocking=True) as stream:
            big = cupy.ones((4096, 4096), np.float32)
            for _ in range(20):
                big = big @ big * np.float32(1e-4)
            x.fill(3.0)
            call(add, ADD_SHAPES, (x, y, out))
            stream.synchronize()
        assert (out == 4).all()

    check("cupy: order in a stream", stream_order)


def launch_cost() -> str:
    device = cuda_device()
    with device.current():
        memory = device.allocate(0, 1 << 12)
        own = int(device.driver.call("cuStreamCreate", 1))
    pointers, scalars, results = [memory] * 3, (256, 1, 1, 1), []
    for stream in (0, own):
        best = 1e9
        for _ in range(20):
            start = time.perf_counter()
            for _ in range(200):
                add.launch(pointers, scalars, stream, device)
            best = min(best, (time.perf_counter() - start) / 200)
            device.synchronize(stream)
        results.append(1e6 * best)
    with device.current():
        device.release(0, memory)
    return f"launch {results[0]:.2f} us, in a stream of its own {results[1]:.2f} us"


def call_cost(library: Library) -> str:
    x = library.put(random(256))
    out = library.put(random(256))
    best = 1e9
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(200):
            add((x, x, out), (256, 1, 1, 1))
        best = min(best, (time.perf_counter() - start) / 200)
        cuda_device().synchronize()
    return f"{1e6 * best:.2f} us"


def host_arrays() -> None:
    a, b, out = random(4000), random(4000), np.zeros(8000, np.float32)
    run_from_host(
        add,
        (a[::-1], b, out[::2]),
        lambda views: scalars_from_arrays(add.program, ADD_SHAPES, views),
        (True, True, False),
    )
    near(out[::2], a[::-1] + b)
    assert not out[1::2].any()


def bundles() -> None:
    device = cuda_device()
    for arch in (device.arch, "compute_80"):
        image = compile_cuda(ADD, arch, (f"-DLW_INDEX={NARROW}",))
        with tempfile.TemporaryDirectory() as folder:
            save_bundle(
                folder, add_program(), ADD, images={(arch, NARROW): image}, shapes=ADD_SHAPES
            )
            function = load_bundle(folder).function()
        a, b, out = random(999), random(999), np.zeros(999, np.float32)
        function(a, b, out)
        near(out, a + b)


def threads() -> None:
    """Eight threads launch one kernel at once; none sees the arguments of another."""
    device = cuda_device()
    results: list[bool] = []

    def work(number: int) -> None:
        a, out = np.full(5000, number, np.float32), np.zeros(5000, np.float32)
        for _ in range(50):
            run_from_host(
                add, (a, a, out), lambda v: scalars_from_arrays(add.program, ADD_SHAPES, v)
            )
            results.append(bool((out == 2 * number).all()))

    workers = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    device.synchronize()
    assert results == [True] * 400


def event_times() -> str:
    device = cuda_device()
    with device.current():
        memory = device.allocate(0, 1 << 30)
    size = (1 << 28) - 64
    pointers, scalars = [memory] * 3, (size, 1, 1, 1)
    seconds = min(time_launches(lambda: add.launch(pointers, scalars, 0, device)))
    with device.current():
        device.release(0, memory)
    assert seconds > 0
    return f"{12 * size / seconds / 1e12:.2f} TB/s of 12 bytes an element, in place"


def other_errors() -> None:
    expect(UsageError, "there is no such CUDA device", lambda: cuda_device(99))
    huge = ((1 << 40) + 1, 1, 1, 1)
    expect(UsageError, "needs too many blocks", lambda: add.launch([0, 0, 0], huge))
    program = matmul_program(1 << 20)
    run = CudaExecutable(program, MATMUL, [f"-DPAD={1 << 20}"])
    scalars = (32,) * 9
    expect(UsageError, "more shared memory", lambda: run.launch([0, 0, 0], scalars))
    expect(
        LoopwrightError,
        "line 1 of kernel 'bad'",
        lambda: compile_cuda(BAD.replace("1.0f", "x"), "sm_90"),
    )
    host_arrays()


def fault() -> None:
    """A kernel that leaves its array: in a process of its own, as no other call survives it."""
    done = subprocess.run(
        [sys.executable, __file__, "--fault"], capture_output=True, text=True, check=False
    )
    assert "the program launched last is 'culprit'" in done.stdout, done.stdout + done.stderr
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in done.stdout


def commit_fault() -> None:
    c = packed("C", True)
    bad = DeviceKernel("bad", (c,), (), (one, one, one), (1, 1, 1), Block(()))
    run = CudaExecutable(DeviceProgram("culprit", (c,), (), (bad,), (LaunchKernel("bad"),)), BAD)
    out = np.full(8, 5, np.float32)
    try:
        run_from_host(run, (out,), lambda _: ())
    except DeviceError as error:
        assert (out == 5).all()
        print(error)


def main() -> int:
    if "--fault" in sys.argv:
        commit_fault()
        return 0
    device = cuda_device()
    print(f"{device.name}, {device.arch}, NVRTC {'.'.join(map(str, nvrtc_version()))}")
    assert not {"islpy", "llvmlite"} & sys.modules.keys()
    check("arrays of the host", host_arrays)
    check("cost of a launch", launch_cost)
    found = libraries()
    for library in found:
        check_library(library)
        check(f"{library.name}: cost of a call with arrays", lambda x=library: call_cost(x))
    names = {library.name for library in found}
    if "torch" in names:
        check_torch()
    if "cupy" in names:
        check_cupy()
    check("bundles of machine code and of PTX", bundles)
    check("eight threads", threads)
    check("times by events", event_times)
    check("errors that leave the device as it was", other_errors)
    check("a fault of a kernel names its program", fault)
    print("all is well" if not failed else f"{failed} checks failed")
    return failed


if __name__ == "__main__":
    sys.exit(main())
