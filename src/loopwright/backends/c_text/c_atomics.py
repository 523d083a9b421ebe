"""Atomic updates as functions of CUDA C++ and OpenCL C, by operator and type."""

from __future__ import annotations

from loopwright.backends.c_text.c_syntax import c_type
from loopwright.ir.dtypes import DTYPES, DType

__all__ = ["CUDA_ATOMICS", "OPENCL_ATOMICS", "atomic_name"]

_CUDA = """static __device__ inline void {name}({type} *lw_to, const {type} lw_value)
{{
    {function}(({own} *)lw_to, ({own})lw_value);
}}
"""
_OPENCL = """static inline void {name}(volatile __global {type} *lw_to, const {type} lw_value)
{{
    {function}(lw_to, lw_value);
}}
"""
# OpenCL has no atomic sum of floats: whoever finds the old value still there has stored its sum.
_OPENCL_SUM = """static inline void {name}(volatile __global float *lw_to, const float lw_value)
{{
    volatile __global unsigned *lw_bits = (volatile __global unsigned *)lw_to;
    unsigned lw_old = *lw_bits, lw_seen;
    for (;;) {{
        lw_seen = atomic_cmpxchg(lw_bits, lw_old, as_uint(as_float(lw_old) + lw_value));
        if (lw_seen == lw_old)
            break;
        lw_old = lw_seen;
    }}
}}
"""
_OPS = ("add", "min", "max", "and", "or", "xor")


def atomic_name(op: str, dtype: DType) -> str:
    """The function that updates an element."""
    return f"lw_atomic_{op}_{dtype.name}"


def _cuda(op: str, dtype: DType) -> str:
    own = c_type(dtype)
    if dtype.name in ("int64", "uint64"):
        # Sums and bits of 64 bits are those of unsigned numbers.
        is_signed = dtype.name == "int64" and op in ("min", "max")
        own = "long" if is_signed else "unsigned long"  # in CUDA's words long long
    function = f"atomic{op.capitalize()}"
    return _CUDA.format(name=atomic_name(op, dtype), type=c_type(dtype), own=own, function=function)


def _opencl(op: str, dtype: DType) -> str:
    name = atomic_name(op, dtype)
    if dtype.is_float:
        return _OPENCL_SUM.format(name=name)
    return _OPENCL.format(name=name, type=c_type(dtype), function=f"atomic_{op}")


_WORDS = tuple(DTYPES[name] for name in ("int32", "uint32"))
_FLOATS = tuple(DTYPES[name] for name in ("float32", "float64"))
_LONG = tuple(DTYPES[name] for name in ("int64", "uint64"))
CUDA_ATOMICS = {
    atomic_name(op, dtype): _cuda(op, dtype)
    for op in _OPS
    for dtype in (*_WORDS, *_LONG, *(_FLOATS if op == "add" else ()))
}
OPENCL_ATOMICS = {
    atomic_name(op, dtype): _opencl(op, dtype)
    for op in _OPS
    for dtype in (*_WORDS, *(_FLOATS[:1] if op == "add" else ()))
}
