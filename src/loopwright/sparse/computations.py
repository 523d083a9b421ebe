"""SPF-IR for those who write computations themselves: from text through checked steps to code.

`computation` reads one from text; `reschedule`, `fuse`, `distribute`, `interchange`, `shift`,
`tile` and `parallelise` reschedule its statements, `inline` inlines one into another, `drop_dead`,
`drop_redundant` and `as_scalar` remove dead code and storage. Every step is refused, with the
dependence that forbids it, unless it is proven legal for all index arrays that obey the facts.
"""

from __future__ import annotations

from .spf.compile_computation import compile_computation
from .spf.computation import Computation, DataSpace, Stmt
from .spf.computation_parser import computation
from .spf.dataflow import dataflow, dot_text, svg_text
from .spf.eliminate import as_scalar, drop_dead, drop_redundant
from .spf.inline_computation import inline
from .spf.rescheduling import distribute, fuse, interchange, parallelise, reschedule, shift, tile

__all__ = [
    "Computation",
    "DataSpace",
    "Stmt",
    "as_scalar",
    "compile_computation",
    "computation",
    "dataflow",
    "distribute",
    "dot_text",
    "drop_dead",
    "drop_redundant",
    "fuse",
    "inline",
    "interchange",
    "parallelise",
    "reschedule",
    "shift",
    "svg_text",
    "tile",
]
