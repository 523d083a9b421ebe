"""SPF-IR for those who write computations themselves: from text through checked steps to code.

`computation` reads one from text; `reschedule`, `fuse`, `distribute`, `interchange`, `shift`,
`tile` and `parallelise` move its statements, `inline` puts one into another, `drop_dead`,
`drop_redundant` and `as_scalar` leave out what nobody sees. Every step is refused, with the
dependence that forbids it, unless it is proven legal for all index arrays that obey the facts.
"""

from __future__ import annotations

from .spf.compile import compile_computation
from .spf.computation import Computation, DataSpace, Stmt
from .spf.dataflow import dataflow
from .spf.dataflow_dot import dot_text
from .spf.dataflow_svg import svg_text
from .spf.eliminate import drop_dead, drop_redundant
from .spf.inline import inline
from .spf.reorder import distribute, fuse, interchange, parallelise, reschedule, shift, tile
from .spf.storage import as_scalar
from .spf.written import computation

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
