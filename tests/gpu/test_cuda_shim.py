"""The shim that runs CUDA C++ on the host: right kernels pass, each kind of fault is seen."""

import numpy as np
import pytest

from gpu.shim.cuda_shim import ShimError, ShimModule, has_compiler

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


DYNAMIC = """extern "C" __global__ void f(float *x) {
    extern __shared__ __align__(16) float s[];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}"""


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


def test_lanes_that_never_come() -> None:
    text = 'extern "C" __global__ void f(int *x) { if (threadIdx.x) __syncwarp(); }'
    with pytest.raises(ShimError, match=r"31 of 32 threads wait for lanes of their warp"):
        ShimModule(text).launch("f", ONE, (32, 1, 1), [np.zeros(1, np.int32)])
