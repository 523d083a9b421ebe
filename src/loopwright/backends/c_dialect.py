"""Dialects of the C printer: what a parallel loop, a vector loop and a barrier look like.

A dialect is a table (ADR 5). A line of a table that is empty is left out of the text. The printer
writes GNU C; `words` are what a dialect calls otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field

from loopwright.lazy_dataclass import dataclass

__all__ = ["CUDA", "OPENCL", "OPENMP", "C", "Dialect"]


@dataclass(frozen=True, slots=True)
class Dialect:
    """The pragmas of one kind of C; empty ones are left out."""

    name: str
    team: str  # before a block that all threads run
    share: str  # before a worksharing loop inside such a block
    team_share: str  # before a parallel loop that is a block of its own
    once: str  # before what one thread of a block does
    no_wait: str  # after `share` and `once`: others need not wait at the end
    barrier: str  # threads of a block wait for one another
    vector: str  # before a loop of independent iterations
    reduction: str  # before a loop of reductions, with a clause for each; empty: in source order
    unroll: str  # before a loop to be repeated {count} times
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
    helper: str = "static inline"  # head of a function that kernels call
    prelude: str = ""  # first lines of a file of kernels
    prelude_half: str = ""  # precedes code of half precision
    prelude_async: str = ""  # then, where some copy asynchronously
    block: str = ""  # the coordinate of the block along axis {axis}, which is x, y or z
    thread: str = ""  # likewise of the thread in its block
    run: str = ""  # copies a run of {count} elements of {type} to {target} from {source}
    # Names of vector types, without their {count}, by element type; others have the type's own.
    vectors: Mapping[str, str] = field(default_factory=dict)
    run_async: str = ""  # starts such a copy of {bytes} bytes
    commit: str = ""
    wait: str = ""  # for all groups of copies but {pending}
    words: Mapping[str, str] = field(default_factory=dict)
    helpers: Mapping[str, str] = field(default_factory=dict)  # functions in place of the usual ones

    def spelled(self, text: str) -> str:
        """Text of GNU C in the words of the dialect."""
        if not self.words:
            return text
        keys = sorted(self.words, key=len, reverse=True)
        pattern = "|".join(rf"(?<!\w){re.escape(key)}(?!\w)" for key in keys)
        return re.sub(pattern, lambda found: self.words[found[0]], text)


C = Dialect(
    name="c",
    team="",
    share="",
    team_share="",
    once="",
    no_wait="",
    barrier="",
    vector="#pragma GCC ivdep",
    reduction="",
    unroll="#pragma GCC unroll {count}",
)
OPENMP = Dialect(
    name="openmp",
    team="#pragma omp parallel",
    share="#pragma omp for schedule(static)",
    team_share="#pragma omp parallel for schedule(static)",
    once="#pragma omp single",
    no_wait=" nowait",
    barrier="#pragma omp barrier",
    vector="#pragma omp simd",
    reduction="#pragma omp simd",
    unroll="#pragma GCC unroll {count}",
)

_FUNCTIONS = tuple(
    """acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1
    fabs floor fma fmax fmin fmod hypot ldexp lgamma log log10 log1p log2 pow rint round sin sinh
    sqrt tan tanh tgamma trunc""".split()  # noqa: SIM905, a list of words is easier to read so
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
CUDA = Dialect(
    name="cuda",
    team="",
    share="",
    team_share="",
    once="",
    no_wait="",
    barrier="__syncthreads();",
    vector="",
    reduction="",
    unroll="#pragma unroll",
    index="lw_index",
    long_suffix="",
    is_device=True,
    shared="__shared__ ",
    shared_static=48 << 10,
    shared_all="extern __shared__ __align__(16) unsigned char lw_shared[];",
    shared_part="{type} (&{name}){extents} = *({type} (*){extents})(lw_shared + {offset});",
    kernel='extern "C" __global__ void __launch_bounds__({threads}{resident})',
    resident=", {count}",
    helper="static __device__ inline",
    prelude=_PRELUDE,
    prelude_half="#include <cuda_fp16.h>\n",
    prelude_async=_CUDA_ASYNC,
    block="blockIdx.{axis}",
    thread="threadIdx.{axis}",
    run="*({type}{count} *)&{target} = *(const {type}{count} *)&{source};",
    vectors={
        "bool": "uchar",
        "int8": "char",
        "uint8": "uchar",
        "int16": "short",
        "uint16": "ushort",
        "float16": "ushort",
        "uint32": "uint",
        "int64": "longlong",
        "uint64": "ulonglong",
    },
    run_async="lw_copy_async<{bytes}>(&{target}, &{source});",
    commit="lw_commit();",
    wait="lw_wait<{pending}>();",
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
        "long": "long long",
        "restrict": "__restrict__",
    },
    helpers={
        f"lw_{what}_float32": _CUDA_EXTREME.format(what=what, op=op, sign=sign)
        for what, op, sign in (("least", "min", "<"), ("most", "max", ">"))
    },
)
OPENCL = Dialect(
    name="opencl",
    team="",
    share="",
    team_share="",
    once="",
    no_wait="",
    barrier="barrier(CLK_LOCAL_MEM_FENCE);",
    vector="",
    reduction="",
    unroll="#pragma unroll",
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
    },
)
