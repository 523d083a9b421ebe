"""The front end for C: regions between `#pragma scop` and `#pragma endscop` to SourceTrees.

    file = read_c("heat.c", cpp_args=("-DN=1000",))
    for region in file.regions:
        program = extract(region.tree)
    new_text = file.with_regions({region.index: "..."})

Accepted are for loops with affine bounds and constant steps, ifs on affine conditions and on data,
assignments to array elements and scalars of char to long, float, double and _Bool, and expressions
of numbers, functions of <math.h> and functions that the file defines (`inline`); conversions,
promotions and the rounding of quotients are C's. Subscripts may have cases, as those of periodic
borders: `i == 0 ? n - 1 : i - 1` and `(i + 1) % n` are piecewise affine.

What is assumed, beyond what C itself says:
- Arrays of different names do not overlap. `CVariable.storage` is what C says of that, and whoever
  runs a region in another order proves or tests the rest (`calls/disjoint_memory.py`).
- Bounds, subscripts and loop variables stay within their types: they are computed in int64.
  Unsigned arithmetic that may fall below zero is not, unless the extent of an array excludes it.
- Elements that are read on either side of a conditional expression or an if on data are in bounds.
  Conditions on loop variables guard what they guard in C.

A variable of the function that the region writes keeps its value for later, unless nothing reads it
(`CVariable.is_live_out`). A loop variable that is read after the region has a `final` value; where
that is not an expression of the sizes, the region is refused.
"""

from loopwright.frontends.c.initial_values import InitialValue
from loopwright.frontends.c.reader import CFile, CRegion, CVariable, Origin, VariableKind, read_c

__all__ = ["CFile", "CRegion", "CVariable", "InitialValue", "Origin", "VariableKind", "read_c"]
