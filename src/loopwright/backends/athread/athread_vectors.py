"""What the header has for vectors of a compute core: types and functions of Athread's own.

Vectors of all types have four lanes. Places need no more alignment than their elements; arithmetic
is written by operators, which Sunway's compilers and those of the host have for vectors, too.
"""

from __future__ import annotations

__all__ = ["VECTOR_PART"]

_OF_TYPE = """
typedef @VECTOR@ lw_@NAME@x4;

static inline lw_@NAME@x4 lw_load_@NAME@x4(const @TYPE@ *place)
{
    lw_@NAME@x4 v;
    simd_loadu(v, (@TYPE@ *)place);
    return v;
}

static inline void lw_store_@NAME@x4(@TYPE@ *place, lw_@NAME@x4 v)
{
    simd_storeu(v, place);
}

/* One element in all lanes: from memory, and as a number. */
static inline lw_@NAME@x4 lw_spread_@NAME@x4(const @TYPE@ *place)
{
    lw_@NAME@x4 v;
    simd_loade(v, (@TYPE@ *)place);
    return v;
}

static inline lw_@NAME@x4 lw_splat_@NAME@x4(@TYPE@ x)
{
    return simd_set_@VECTOR@(x, x, x, x);
}
"""


def _of(name: str, kind: str, vector: str) -> str:
    return _OF_TYPE.replace("@NAME@", name).replace("@TYPE@", kind).replace("@VECTOR@", vector)


VECTOR_PART = (
    "\n#ifdef LW_SLAVE\n#include <simd.h>\n"
    + _of("float64", "double", "doublev4")
    + _of("float32", "float", "floatv4")
    + "#endif\n"
)
