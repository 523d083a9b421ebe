"""The result of reading a C file: its regions between `#pragma scop` and `#pragma endscop`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from loopwright.diagnostics import Span
from loopwright.frontends.source_tree import SourceTree
from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Expr
from loopwright.lazy_dataclass import dataclass

__all__ = ["CFile", "CRegion", "CVariable", "Origin", "VariableKind"]


class VariableKind(Enum):
    """How a variable is represented in the tree of its region."""

    ARRAY = "array"  # ArrayParam or Local with extents
    SCALAR = "scalar"  # ScalarParam, or ArrayParam or Local of rank 0 where the region writes it
    INTEGER = "integer"  # IntParam: an integer that the region only reads
    ITERATOR = "iterator"  # a loop variable, without storage in the tree


class Origin(Enum):
    """Where a variable is declared."""

    PARAMETER = "parameter"
    GLOBAL = "global"
    LOCAL = "local"  # in the function, outside the region
    REGION = "region"  # inside the region


@dataclass(frozen=True, slots=True)
class CVariable:
    """A C variable that a region uses, and its representation in the tree."""

    name: str  # as C spells it
    tree_name: str  # its Param or Local in the tree; "" for an iterator that has none
    kind: VariableKind
    origin: Origin
    ctype: str  # C text of the element type without qualifiers: "double", "unsigned char"
    dtype: DType
    extents: tuple[str, ...]  # C text of each extent, macros expanded; "" where none is given
    shape: tuple[
        Expr, ...
    ]  # the same as expressions of the tree; an unknown extent is Var of a size
    is_written: bool  # the region may assign it
    is_live_out: bool  # its value after the region may be read
    final: Expr | None  # of a live iterator: its value after the region, over IntParams
    span: Span  # of the declaration
    init: str = ""  # C text of its initial value, macros expanded; "" without one


@dataclass(frozen=True, slots=True)
class CRegion:
    """One region of one function.

    `source[start:end]` are the lines between the two pragma lines, whole lines only;
    `source[outer_start:outer_end]` are the same with both pragma lines.
    """

    function: str  # name of the enclosing function
    index: int  # position among the regions of the file, from 0
    start: int
    end: int
    outer_start: int
    outer_end: int
    indent: str  # white space before the first pragma
    parameters: tuple[str, ...]  # names of all parameters of the function, used here or not
    variables: tuple[CVariable, ...]  # those the region uses: in the order of tree.params, then
    # locals, then iterators
    declarations: tuple[str, ...]  # C lines, of variables that it declares and later code uses
    tree: SourceTree  # params: parameters in the function's order, then others by first use
    span: Span  # of the line of `#pragma scop`

    def variable(self, name: str) -> CVariable:
        """The variable that C or the tree calls `name`."""
        return next(v for v in self.variables if name in (v.name, v.tree_name))


@dataclass(frozen=True, slots=True)
class CFile:
    """A C source file and its regions, in source order."""

    name: str  # as the user spelled it
    source: bytes
    encoding: str  # "utf-8" or "latin-1": of `source`, and of text put into it
    regions: tuple[CRegion, ...]

    def with_regions(self, texts: Mapping[int, str], *, keep_pragmas: bool = True) -> bytes:
        """The file with new text between the pragmas of the regions of the given indices.

        All other bytes stay as they are. Each text should end in a newline. Without
        `keep_pragmas` the text also takes the place of the two pragma lines.
        """
        parts: list[bytes] = []
        done = 0
        for region in self.regions:
            if region.index not in texts:
                continue
            start, end = region.start, region.end
            if not keep_pragmas:
                start, end = region.outer_start, region.outer_end
            parts += (self.source[done:start], texts[region.index].encode(self.encoding))
            done = end
        return b"".join((*parts, self.source[done:]))
