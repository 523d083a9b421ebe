"""The shim that runs CUDA C++ on the host: right kernels pass, each kind of fault is seen."""

import numpy as np
import pytest

from gpu.shim.cuda_shim import ShimError, ShimModule, has_compiler, run_program
from loopwright.ir.device import DeviceKernel, DeviceMemory, DeviceProgram, LaunchKernel
from loopwright.ir.dtypes import FLOAT32
from loopwright.ir.expr import Const, Var
from loopwright.ir.loops import Block, Buffer

pytestmark = pytest.mark.skipif(not has_compiler(), reason="there is no C++ compiler")

HEAD = """
#ifndef LW_INDEX
#define LW_INDEX int
#endif
typedef LW_INDEX lw_index;
"""
MATMUL = (
    HEAD
    + """
extern "C" __global__ void __launch_bounds__(256) matmul(
    const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, lw_index n)
{
    __shared__ float a[16][16];
    __shared__ float b[16][16];
    lw_index i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (lw_index k = 0; k < n; k += 16) {
        a[threadIdx.y][threadIdx.x] = A[i * n + k + threadIdx.x];
        b[threadIdx.y][threadIdx.x] = B[(k + threadIdx.y) * n + j];
        __syncthreads();
        for (int q = 0; q < 16; q++) sum = fmaf(a[threadIdx.y][q], b[q][threadIdx.x], sum);
        __syncthreads(); // second
    }
    C[i * n + j] = sum;
}
"""
)
PIPELINE = """
#ifdef __CUDA_ARCH__
#error the shim is no device
#endif
extern "C" __global__ void shift(const float *A, float *C) {
    __shared__ __align__(16) float tile[2][128];
    int t = threadIdx.x;
    lw_copy_async<16>(&tile[0][4 * t], A + 4 * t);
    lw_commit();
    lw_copy_async<16>(&tile[1][4 * t], A + 128 + 4 * t);
    lw_commit();
    lw_wait<1>();
    __syncthreads();
    for (int q = 0; q < 4; q++) C[4 * t + q] = tile[0][127 - 4 * t - q];
    lw_wait<0>();
    __syncthreads();
    for (int q = 0; q < 4; q++) C[128 + 4 * t + q] = tile[1][127 - 4 * t - q];
}
"""
ONE = (1, 1, 1)


def matrices(n: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(n)
    left, right = random.standard_normal((2, n, n)).astype(np.float32)
    return left, right


@pytest.mark.drawn(2)
@pytest.mark.parametrize("index", ["int", "long long"])
@pytest.mark.parametrize("seed", range(3))
def test_tiled_product(index: str, seed: int) -> None:
    left, right = matrices(64)
    out = np.zeros((64, 64), np.float32)
    module = ShimModule(MATMUL, index=index)
    module.launch("matmul", (4, 4, 1), (16, 16, 1), [left, right, out, 64], seed=seed)
    np.testing.assert_allclose(out, left @ right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("line", ["__syncthreads();\n", "__syncthreads(); // second\n"])
def test_missing_barrier_gives_another_result(line: str) -> None:
    left, right = matrices(64)
    out = np.zeros((64, 64), np.float32)
    module = ShimModule(MATMUL.replace(line, "\n", 1))
    module.launch("matmul", (4, 4, 1), (16, 16, 1), [left, right, out, 64], seed=1)
    assert not np.allclose(out, left @ right, rtol=1e-3, atol=1e-3)


def test_barrier_that_some_threads_leave_out() -> None:
    text = 'extern "C" __global__ void f(int *x) {\n if (threadIdx.x < 3) __syncthreads();\n}'
    with pytest.raises(ShimError) as told:
        ShimModule(text).launch("f", ONE, (8, 1, 1), [np.zeros(1, np.int32)])
    assert str(told.value) == (
        "kernel 'f', block (0, 0, 0): the barrier of line 2 is not reached by all threads: "
        "3 wait, 5 have ended"
    )


def test_barriers_at_different_places() -> None:
    text = """extern "C" __global__ void f(int *x) {
    if (threadIdx.x < 3)
        __syncthreads();
    else
        __syncthreads();
}"""
    with pytest.raises(ShimError, match=r"threads wait at different barriers, of lines 3 and 5"):
        ShimModule(text).launch("f", ONE, (8, 1, 1), [np.zeros(1, np.int32)])


def test_a_module_runs_after_a_fault() -> None:
    text = """extern "C" __global__ void f(int *x, int n) {
    if (n && threadIdx.x) __syncthreads();
    x[threadIdx.x] = threadIdx.x;
}"""
    module = ShimModule(text)
    out = np.zeros(64, np.int32)
    with pytest.raises(ShimError):
        module.launch("f", ONE, (64, 1, 1), [out, 1])
    module.launch("f", ONE, (64, 1, 1), [out, 0])
    assert out.tolist() == list(range(64))


def test_asynchronous_copies_arrive_at_their_wait() -> None:
    source = np.arange(256, dtype=np.float32)
    expected = np.concatenate([source[127::-1], source[:127:-1]])
    for seed in range(3):
        out = np.zeros(256, np.float32)
        ShimModule(PIPELINE).launch("shift", ONE, (32, 1, 1), [source, out], seed=seed)
        np.testing.assert_array_equal(out, expected)


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("line", "half"), [("lw_wait<1>();", slice(0, 128)), ("lw_wait<0>();", slice(128, 256))]
)
def test_missing_wait_shows_no_data(line: str, half: slice) -> None:
    source = np.arange(256, dtype=np.float32)
    out = np.zeros(256, np.float32)
    module = ShimModule(PIPELINE.replace(line, ""))
    module.launch("shift", ONE, (32, 1, 1), [source, out])
    assert np.isnan(out[half]).any()


def test_shared_memory_starts_undefined_in_each_block() -> None:
    text = """extern "C" __global__ void f(float *x) {
    __shared__ float s[1];
    x[blockIdx.x] = s[0];
    s[0] = 7.0f;
}"""
    out = np.zeros(5, np.float32)
    ShimModule(text).launch("f", (5, 1, 1), ONE, [out])
    assert np.isnan(out).all()


DYNAMIC = """extern "C" __global__ void f(float *x) {
    extern __shared__ __align__(16) float s[];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}"""


@pytest.mark.drawn(2)
@pytest.mark.parametrize("sanitize", [False, True])
def test_dynamic_shared_memory(sanitize: bool) -> None:
    out = np.arange(96, dtype=np.float32)
    module = ShimModule(DYNAMIC, sanitize=sanitize)
    module.launch("f", ONE, (96, 1, 1), [out], shared_bytes=4 * 96)
    assert out.tolist() == list(range(95, -1, -1))


def test_too_little_dynamic_memory_is_seen() -> None:
    out = np.arange(96, dtype=np.float32)
    with pytest.raises(ShimError, match=r"use-after-poison"):
        ShimModule(DYNAMIC, sanitize=True).launch("f", ONE, (96, 1, 1), [out], shared_bytes=4 * 95)


def test_addresses_beyond_an_array_are_seen() -> None:
    text = HEAD + 'extern "C" __global__ void f(float *x, lw_index n) { x[threadIdx.x] = n; }'
    module = ShimModule(text, sanitize=True)
    out = np.zeros(20, np.float32)
    module.launch("f", ONE, (20, 1, 1), [out, 3])
    assert (out == 3).all()
    with pytest.raises(ShimError, match=r"heap-buffer-overflow"):
        module.launch("f", ONE, (21, 1, 1), [out, 3])


UNDEFINED = {
    "*(float4 *)(x + threadIdx.x + 1) = make_float4(0, 0, 0, 0);": "misaligned address",
    "__shared__ float s[4]; s[threadIdx.x + 4] = 1; x[0] = s[0];": "out of bounds",
    "int n = 0x7fffffff - threadIdx.x; x[0] = n + 1;": "signed integer overflow",
}


@pytest.mark.parametrize("body", UNDEFINED)
def test_undefined_behaviour_is_seen(body: str) -> None:
    text = "\n".join(
        f'extern "C" __global__ void f{at}(float *x) {{ {each} }}'
        for at, each in enumerate(UNDEFINED)
    )
    name = f"f{list(UNDEFINED).index(body)}"
    with pytest.raises(ShimError, match=UNDEFINED[body]):
        ShimModule(text, sanitize=True).launch(name, ONE, ONE, [np.zeros(64, np.float32)])


def test_strided_views_go_back_from_a_sanitised_run() -> None:
    text = HEAD + (
        'extern "C" __global__ void f(const double *x, double *y, lw_index s)'
        "{ y[-2 * (int)threadIdx.x] = x[s * (int)threadIdx.x]; }"
    )
    source = np.arange(40.0)
    memory = np.zeros(20)
    out = memory[19::-2]
    ShimModule(text, sanitize=True).launch("f", ONE, (10, 1, 1), [source[::4], out, 4])
    assert out.tolist() == source[::4].tolist()
    assert not memory[::2].any()


def test_lanes_of_a_warp() -> None:
    text = """extern "C" __global__ void f(const int *x, int *y) {
    int v = x[threadIdx.x];
    for (int by = 16; by > 0; by /= 2) v += __shfl_xor_sync(0xffffffffu, v, by);
    y[threadIdx.x] = v;
    y[64 + threadIdx.x] = __shfl_sync(0xffffffffu, x[threadIdx.x], 3);
    y[128 + threadIdx.x] = __shfl_down_sync(0xffffffffu, x[threadIdx.x], 1);
    y[192 + threadIdx.x] = __shfl_up_sync(0xffffffffu, x[threadIdx.x], 1, 8);
    __syncwarp();
    y[256 + threadIdx.x] = __popc(__ballot_sync(0xffffffffu, x[threadIdx.x] % 3 == 0));
}"""
    source = np.arange(1, 65, dtype=np.int32) ** 2
    out = np.zeros((5, 64), np.int32)
    ShimModule(text).launch("f", ONE, (64, 1, 1), [source, out], seed=5)
    warps = source.reshape(2, 32)
    expected = [
        np.repeat(warps.sum(axis=1), 32),
        np.repeat(warps[:, 3], 32),
        np.concatenate([warps[:, 1:], warps[:, -1:]], axis=1).ravel(),
        np.concatenate([(e := source.reshape(8, 8))[:, :1], e[:, :-1]], axis=1).ravel(),
        np.repeat((warps % 3 == 0).sum(axis=1), 32),
    ]
    np.testing.assert_array_equal(out, expected)


def test_lanes_that_never_come() -> None:
    text = 'extern "C" __global__ void f(int *x) { if (threadIdx.x) __syncwarp(); }'
    with pytest.raises(ShimError, match=r"31 of 32 threads wait for lanes of their warp"):
        ShimModule(text).launch("f", ONE, (32, 1, 1), [np.zeros(1, np.int32)])


def test_halves_are_those_of_numpy() -> None:
    text = """#include <cuda_fp16.h>
#include <cuda_bf16.h>
extern "C" __global__ void f(const float *x, __half *h, float *back, __nv_bfloat16 *b, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        h[i] = __float2half(x[i]);
        back[i] = __half2float(h[i]);
        b[i] = __float2bfloat16(x[i]);
    }
}"""
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    every = halves[np.isfinite(halves)].astype(np.float32)
    random = np.random.default_rng(1).integers(0, 2**32, 100_000, dtype=np.uint32)
    # Halves, the points in the middle of two neighbours, and any floats.
    between = (every[:-1] + every[1:]) / 2
    source = np.concatenate([every, between, random.view(np.float32)])
    source = source[~np.isnan(source)]
    halves, back = np.zeros(len(source), np.float16), np.zeros(len(source), np.float32)
    brain = np.zeros(len(source), np.uint16)
    arguments = [source, halves, back, brain, len(source)]
    ShimModule(text).launch("f", ONE, (32, 1, 1), arguments)
    with np.errstate(over="ignore"):
        expected = source.astype(np.float16)
    np.testing.assert_array_equal(halves.view(np.uint16), expected.view(np.uint16))
    np.testing.assert_array_equal(back, expected.astype(np.float32))
    bits = source.view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    np.testing.assert_array_equal(brain, rounded)


def test_atomics_and_loads_with_hints() -> None:
    text = """extern "C" __global__ void f(const float *x, float *sum, int *most) {
    atomicAdd(sum, __ldg(x + blockIdx.x * blockDim.x + threadIdx.x));
    atomicMax(most, (int)(blockIdx.x * blockDim.x + threadIdx.x));
}"""
    source = np.arange(128, dtype=np.float32)
    total, most = np.zeros(1, np.float32), np.zeros(1, np.int32)
    ShimModule(text).launch("f", (4, 1, 1), (32, 1, 1), [source, total, most])
    assert (total[0], most[0]) == (source.sum(), 127)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("sanitize", [False, True])
def test_program_of_two_kernels_with_memory_between(sanitize: bool) -> None:
    text = HEAD + (
        'extern "C" __global__ void twice(const float *A, float *T, lw_index n)'
        "{ lw_index i = blockIdx.x * 32 + threadIdx.x; if (i < n) T[i] = 2 * A[i]; }\n"
        'extern "C" __global__ void turn(const float *T, float *C, lw_index n)'
        "{ lw_index i = blockIdx.x * 32 + threadIdx.x; if (i < n) C[i] = T[n - 1 - i]; }\n"
    )
    n, one = Var("n"), Const(1)
    a, t, c = (Buffer(x, FLOAT32, (one,), writable=x != "A") for x in "ATC")
    grid = ((n + 31) // 32, one, one)
    kernels = (
        DeviceKernel("twice", (a, t), ("n",), grid, (32, 1, 1), Block(())),
        DeviceKernel("turn", (t, c), ("n",), grid, (32, 1, 1), Block(())),
    )
    host = (DeviceMemory(t, (n,), (LaunchKernel("twice"), LaunchKernel("turn"))),)
    program = DeviceProgram("reversed", (a, c), ("n",), kernels, host)
    for size, launches in ((100, 2), (0, 0)):
        source, out = np.arange(size, dtype=np.float32), np.zeros(size, np.float32)
        arrays = {"A": source, "C": out}
        assert run_program(program, text, arrays, {"n": size}, sanitize=sanitize) == launches
        assert out.tolist() == (2 * source[::-1]).tolist()


def test_text_that_does_not_compile() -> None:
    with pytest.raises(ShimError, match=r"kernel\.cu:1:47: error: .missing. was not"):
        ShimModule('extern "C" __global__ void f(int *x) { x[0] = missing; }')
