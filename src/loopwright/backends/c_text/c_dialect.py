"""Dialects of the C printer: what a parallel loop, a vector loop and a barrier look like.

A dialect is a table (ADR 5). A line of a table that is empty is left out of the text. The printer
writes GNU C; `words` are what a dialect calls otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, replace

from loopwright.backends.c_text.c_atomics import CUDA_ATOMICS, OPENCL_ATOMICS
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "ANY_FLAG",
    "ATHREAD",
    "CUDA",
    "C_AS_WRITTEN",
    "FAR_FLAG",
    "OPENCL",
    "OPENMP",
    "C",
    "Dialect",
]

ANY_FLAG = "lw_any"  # a variable: lanes in which a condition holds
FAR_FLAG = "lw_far"  # a variable: whether a loop had numbers that its functions cannot take


@dataclass(frozen=True, slots=True)
class Dialect:
    """The pragmas of one kind of C; empty ones are left out."""

    name: str
    team: str = ""  # before a block that all threads run
    share: str = ""  # before a worksharing loop inside such a block
    team_share: str = ""  # before a parallel loop that is a block of its own
    once: str = ""  # before what one thread of a block does, the same every time
    # The number of pieces where {parts} were planned: fewer if fewer threads run the block.
    pieces: str = ""
    no_wait: str = ""  # after `share`: others need not wait at the end
    barrier: str = ""  # threads of a block wait for one another
    vector: str = ""  # before a loop of independent iterations
    vector_far: str = ""  # before one that also finds whether to set FAR_FLAG
    vector_any: str = ""  # before one that finds whether to set ANY_FLAG
    single: str = ""  # before one that is to run them one by one
    reduction: str = ""  # before a loop of reductions, a clause for each; empty: in source order
    unroll: str = ""  # before a loop to be repeated {count} times
    # After each copy of an unrolled body with registers of its own: the next one loads after it.
    apart: str = ""
    # At the end of a serial loop that is in the code once: compilers make no vectors of it.
    singly: str = ""
    copies: str = ""  # before a loop whose body the code has {count} times, fewer than it runs
    # Whether a fused product is the function of that name, not left to the compiler to make.
    is_fused: bool = False
    # -- devices: each thread of a block runs the text of a kernel
    index: str = "long"  # type of loop variables, bounds and subscripts
    long_suffix: str = "L"  # of literals that make a sum of narrow integers an index
    is_device: bool = False  # no heap, no team; memory of a block
    shared: str = ""  # before the declaration of memory of a block
    shared_static: int = 0  # bytes of it that may be declared so; 0: any number
    # For more: one array of all of it, an array of {type} and {extents} at {offset} of that.
    shared_all: str = ""
    shared_part: str = ""
    global_: str = ""  # before the type of what a pointer argument points to
    kernel: str = ""  # head of a kernel of {threads} threads in blocks of {x}, {y}, {z}
    resident: str = ""  # in the head, where a multiprocessor must hold {count} blocks at a time
    capped: str = ""  # head of a kernel whose threads have at most {registers}; empty: as `kernel`
    helper: str = "static inline"  # head of a function that kernels call
    prelude: str = ""  # first lines of a file of kernels
    prelude_half: str = ""  # precedes code of half precision
    prelude_async: str = ""  # then, where some copy asynchronously
    block: str = ""  # the coordinate of the block along axis {axis}, which is x, y or z
    thread: str = ""  # likewise of the thread in its block
    run: str = ""  # copies a run of {count} elements of {type} to {target} from {source}
    has_runs_of_pairs: bool = False  # whether it takes places of complex numbers, too
    # Names of vector types, without their {count}, by element type; others have the type's own.
    vectors: Mapping[str, str] = field(default_factory=dict)
    run_async: str = ""  # starts such a copy of {bytes} bytes
    commit: str = ""
    wait: str = ""  # for all groups of copies but {pending}
    # sums[16, 8] += left[16, 4] * right[4, 8] by a warp: {sums}, {left}, {right} of the lane
    mma: str = ""
    prelude_mma: str = ""  # precedes code of such products
    # -- cores with scratchpads: an array of {type} {name} at {offset} of the scratchpad
    scratchpad: str = ""
    # DMA of {rows} blocks of {width} bytes, {gap} bytes apart in main memory, to {target} from
    # {source}; `get_ahead` and `put_ahead` only start it, `wait` is for all that were started.
    get: str = ""
    put: str = ""
    get_ahead: str = ""
    put_ahead: str = ""
    after_puts: str = ""  # what a core has put is in memory before it gets anything more
    landed: str = ""  # what it has put is in memory before it goes on
    get_part: str = ""  # likewise, one of several requests
    put_part: str = ""
    end_parts: str = ""  # waits for these
    # From a scratchpad to those of all cores of a row or column ({axis}), {rows} blocks of {width}
    # bytes, each {target_pitch} or {source_pitch} behind the one before, by the core {root}.
    broadcast: str = ""
    # {width} bytes of a scratchpad to the next core of the circle of {rows} x {columns} cores, or
    # from the one before ({word}: hand_on, take_over).
    message: str = ""
    # Vectors are loaded, stored and made of scalars by functions: lw_load_float64x4, lw_store_...
    has_vector_functions: bool = False
    words: Mapping[str, str] = field(default_factory=dict)
    helpers: Mapping[str, str] = field(default_factory=dict)  # functions in place of the usual ones

    def spelled(self, text: str) -> str:
        """Text of GNU C in the words of the dialect."""
        if not self.words:
            return text
        keys = sorted(self.words, key=len, reverse=True)
        pattern = rf"(?<!\w)(?:{'|'.join(map(re.escape, keys))})(?!\w)"
        return re.sub(pattern, lambda found: self.words[found[0]], text)


# Compilers that schedule before they allocate registers (gcc on AArch64) load for several copies at
# once, and spill sums: a register tile of 24 vectors took 12% longer.
_APART = '__asm__ volatile("" ::: "memory");'
_SINGLY = '__asm__ volatile("");'
C = Dialect(
    name="c",
    vector="lw_simd()",  # see c_scopes: compilers without OpenMP have another word
    vector_far="lw_simd_far()",
    vector_any="lw_simd_any()",
    unroll="#pragma GCC unroll {count}",
    apart=_APART,
    singly=_SINGLY,
)
C_AS_WRITTEN = replace(C, is_fused=True)  # for compilers that are told to fuse nothing
OPENMP = Dialect(
    name="openmp",
    team="#pragma omp parallel",
    share="#pragma omp for schedule(static)",
    team_share="#pragma omp parallel for schedule(static)",
    once="#pragma omp master",
    pieces="lw_pieces({parts})",
    no_wait=" nowait",
    barrier="#pragma omp barrier",
    vector="#pragma omp simd",
    vector_far=f"#pragma omp simd reduction(|:{FAR_FLAG})",
    vector_any=f"#pragma omp simd reduction(|:{ANY_FLAG})",
    single="#pragma omp simd simdlen(1)",
    reduction="#pragma omp simd",
    unroll="#pragma GCC unroll {count}",
    apart=_APART,
    singly=_SINGLY,
)

_FUNCTIONS = tuple(
    """acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1
    fabs floor fma fmax fmin fmod hypot ldexp lgamma log log10 log1p log2 pow remainder rint
    round sin sinh sqrt tan tanh tgamma trunc""".split()  # noqa: SIM905, a list of words is easier to read so
)
_PRELUDE = """#ifndef LW_INDEX
#define LW_INDEX int
#endif
typedef LW_INDEX lw_index;
"""
_CUDA_ASYNC = """#ifndef LW_HAS_COPIES /* of whoever compiles this for something else than a GPU */
template <int bytes>
static __device__ inline void lw_copy_async(void *target, const void *source)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(target));
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(source), "n"(bytes)
                 : "memory");
#else
    __builtin_memcpy(target, source, bytes);
#endif
}
static __device__ inline void lw_commit()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int pending> static __device__ inline void lw_wait()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
#endif
}
#endif
"""
# NVRTC 13.0 for sm_90 joins max(max(-n, a), b) to one instruction and forgets to negate n. Of
# this negation it does not know what it is.
_CUDA_NEGATED = """[[maybe_unused]] static __device__ inline int lw_negated(int lw_a)
{
#ifdef __CUDA_ARCH__
    int lw_r;
    asm("{ .reg .b32 lw_t; not.b32 lw_t, %1; add.s32 %0, lw_t, 1; }" : "=r"(lw_r) : "r"(lw_a));
    return lw_r;
#else
    return (int)(0u - (unsigned)lw_a);
#endif
}
[[maybe_unused]] static __device__ inline long lw_negated(long lw_a)
{
    return (long)(0ull - (unsigned long)lw_a);
}
"""
# A copy of which compilers do not know what it is a copy of.
_CUDA_ANEW = """template <typename lw_type> static __device__ inline lw_type lw_anew(lw_type lw_a)
{
#ifdef __CUDA_ARCH__
    if constexpr (sizeof(lw_type) == 8) {
        asm volatile("mov.b64 %0, %0;" : "+l"(lw_a));
    } else {
        asm volatile("mov.b32 %0, %0;" : "+r"(lw_a));
    }
#endif
    return lw_a;
}
"""
# Lane 4 g + t holds a[g][t], a[g + 8][t], b[t][g], and of c rows g, g + 8 in columns 2 t, 2 t + 1.
_CUDA_MMA = """static __device__ inline void lw_mma(double &c0, double &c1, double &c2, double &c3,
                                     double a0, double a1, double b)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64"
                 " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+d"(c0), "+d"(c1), "+d"(c2), "+d"(c3) : "d"(a0), "d"(a1), "d"(b));
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(c0), "+d"(c1) : "d"(a0), "d"(b));
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(c2), "+d"(c3) : "d"(a1), "d"(b));
#else
    const int lane = threadIdx.x % 32;
    for (int k = 0; k < 4; k++) {
        const double top = __shfl_sync(0xffffffffu, a0, lane / 4 * 4 + k);
        const double bottom = __shfl_sync(0xffffffffu, a1, lane / 4 * 4 + k);
        const double even = __shfl_sync(0xffffffffu, b, lane % 4 * 8 + k);
        const double odd = __shfl_sync(0xffffffffu, b, lane % 4 * 8 + 4 + k);
        c0 = fma(top, even, c0);
        c1 = fma(top, odd, c1);
        c2 = fma(bottom, even, c2);
        c3 = fma(bottom, odd, c3);
    }
#endif
}
"""
# One instruction, which gives NaN where an operand is NaN.
_CUDA_EXTREME = """static __device__ inline float lw_{what}_float32(float lw_a, float lw_b)
{{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    float lw_r;
    asm("{op}.NaN.f32 %0, %1, %2;" : "=f"(lw_r) : "f"(lw_a), "f"(lw_b));
    return lw_r;
#else
    return lw_a {sign} lw_b || lw_a != lw_a ? lw_a : lw_b;
#endif
}}
"""
# The least of a number and a saturating sum, or the greatest: five instructions of int32, four from
# sm_90 on, and some for each row and column of a tile, where the compiler finds what is common.
# lw_b plus what lies between lw_low and lw_high stays within the type. Where lw_b is {end}, which
# absorbs as infinity does, it gets zero added; where lw_c is, the sum is replaced.
_CUDA_SATURATING = """static __device__ inline int
lw_{what}_{sum}_int32(int lw_a, int lw_b, int lw_c)
{{
    const int lw_least = -2147483647 - 1, lw_most = 2147483647;
    const int lw_down = lw_least - min(lw_b, 0), lw_up = lw_most - max(lw_b, 0);
    const int lw_low = {low}, lw_high = {high};
    const int lw_end = lw_c == {end} ? {end} : {other};
    return {op}({reach}(lw_b + min(max(lw_c, lw_low), lw_high), lw_end), lw_a);
}}
"""
CUDA = Dialect(
    name="cuda",
    barrier="__syncthreads();",
    unroll="#pragma unroll",
    copies="#pragma unroll {count}",
    index="lw_index",
    long_suffix="",
    is_device=True,
    shared="__shared__ ",
    shared_static=48 << 10,
    shared_all="extern __shared__ __align__(16) unsigned char lw_shared[];",
    shared_part="{type} (&{name}){extents} = *({type} (*){extents})(lw_shared + {offset});",
    kernel='extern "C" __global__ void __launch_bounds__({threads}{resident})',
    resident=", {count}",
    capped='extern "C" __global__ void __maxnreg__({registers})',
    helper="static __device__ inline",
    prelude=_PRELUDE,
    prelude_half="#include <cuda_fp16.h>\n",
    prelude_async=_CUDA_ASYNC,
    block="blockIdx.{axis}",
    thread="threadIdx.{axis}",
    run="*({type}{count} *)&{target} = *(const {type}{count} *)&{source};",
    has_runs_of_pairs=True,
    vectors={
        "bool": "uchar",
        "int8": "char",
        "uint8": "uchar",
        "int16": "short",
        "uint16": "ushort",
        "float16": "ushort",
        "bfloat16": "ushort",
        "uint32": "uint",
        "int64": "longlong",
        "uint64": "ulonglong",
    },
    run_async="lw_copy_async<{bytes}>(&{target}, &{source});",
    commit="lw_commit();",
    wait="lw_wait<{pending}>();",
    mma="lw_mma({sums}, {left}, {right});",
    prelude_mma=_CUDA_MMA,
    words={
        **{f"__builtin_{name}": name for name in _FUNCTIONS},
        **{f"__builtin_{name}f": f"{name}f" for name in _FUNCTIONS},
        "__builtin_inff()": "__int_as_float(0x7f800000)",
        "__builtin_inf()": "__longlong_as_double(0x7ff0000000000000LL)",
        '__builtin_nanf("")': "__int_as_float(0x7fffffff)",
        '__builtin_nan("")': "__longlong_as_double(0x7fffffffffffffffLL)",
        "__builtin_signbit": "signbit",
        "_Bool": "bool",
        "_Float16": "__half",
        "float _Complex": "float2",
        "double _Complex": "double2",
        "long": "long long",
        "restrict": "__restrict__",
    },
    helpers={
        "lw_negated": _CUDA_NEGATED,
        "lw_anew": _CUDA_ANEW,
        **CUDA_ATOMICS,
        **{
            f"lw_{what}_float32": _CUDA_EXTREME.format(what=what, op=op, sign=sign)
            for what, op, sign in (("least", "min", "<"), ("most", "max", ">"))
        },
        **{
            f"lw_{row['what']}_{row['sum']}_int32": _CUDA_SATURATING.format(**row)
            for row in (
                {
                    "what": "least",
                    "sum": "add_top",
                    "op": "min",
                    "reach": "max",
                    "end": "lw_most",
                    "other": "lw_least",
                    "low": "lw_b == lw_most ? 0 : lw_down",
                    "high": "lw_up",
                },
                {
                    "what": "most",
                    "sum": "add_bottom",
                    "op": "max",
                    "reach": "min",
                    "end": "lw_least",
                    "other": "lw_most",
                    "low": "lw_down",
                    "high": "lw_b == lw_least ? 0 : lw_up",
                },
            )
        },
    },
)
OPENCL = Dialect(
    name="opencl",
    barrier="barrier(CLK_LOCAL_MEM_FENCE);",
    unroll="#pragma unroll",
    copies="#pragma unroll {count}",
    index="lw_index",
    long_suffix="",
    is_device=True,
    shared="__local ",
    global_="__global ",
    kernel="__kernel __attribute__((reqd_work_group_size({x}, {y}, {z}))) void",
    helper="static inline",
    prelude=_PRELUDE,
    block="get_group_id({number})",
    thread="get_local_id({number})",
    run="vstore{count}(vload{count}(0, &{source}), 0, &{target});",
    words={
        **{f"__builtin_{name}": name for name in _FUNCTIONS},
        **{f"__builtin_{name}f": name for name in _FUNCTIONS},
        "__builtin_inff()": "INFINITY",
        "__builtin_inf()": "(double)INFINITY",
        '__builtin_nanf("")': "NAN",
        '__builtin_nan("")': "(double)NAN",
        "__builtin_signbit": "signbit",
        "_Bool": "uchar",
        "_Float16": "half",
        "float _Complex": "float2",
        "double _Complex": "double2",
    },
    helpers=OPENCL_ATOMICS,
)
ATHREAD = Dialect(
    name="athread",
    barrier="lw_barrier();",
    is_device=True,
    wait="lw_wait_ahead();",
    scratchpad="{type} *const {name} = ({type} *)(lw_boxes + {offset});",
    get="lw_get({target}, {source}, {rows}, {width}, {gap});",
    put="lw_put({target}, {source}, {rows}, {width}, {gap});",
    get_ahead="lw_get_ahead({target}, {source}, {rows}, {width}, {gap});",
    put_ahead="lw_put_ahead({target}, {source}, {rows}, {width}, {gap});",
    broadcast=(
        "lw_{word}_{axis}({target}, {target_pitch}, {source}, {source_pitch}, {rows}, "
        "{width}, {root});"
    ),
    message="lw_{word}({place}, {width}, {rows}, {columns});",
    has_vector_functions=True,
    get_part="lw_get_part({target}, {source}, {rows}, {width}, {gap});",
    put_part="lw_put_part({target}, {source}, {rows}, {width}, {gap});",
    end_parts="lw_end_parts();",
    after_puts="lw_after_puts();",
    landed="lw_land(lw_argument);",
)
