"""FunctionSummary: what calls need to know of a compiled function, without isl, storable as JSON.

A summary is made once from the function's meaning and kept beside its kernels in the disk cache.
In a later process it is found there with them, and neither the front end nor isl is loaded.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from loopwright.diagnostics import Span
from loopwright.ir.check_expr import InvalidExpr, Scope, check_expr, check_integer
from loopwright.ir.contraction import ACCUMULATOR, Contraction
from loopwright.ir.dtypes import DTYPES, INT64, DType
from loopwright.ir.program import Array
from loopwright.ir.serial import Malformed, read_array, read_contraction, to_json
from loopwright.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from loopwright.frontends.source_tree import SourceTree

__all__ = ["Argument", "FunctionSummary", "Result", "compile_test", "summary_key"]

Test = Callable[[Mapping[str, int]], bool]


class Argument(NamedTuple):
    """What a call passes for one parameter."""

    kind: str  # "array", "int" or "scalar"
    name: str
    dtype: str  # of the elements; of integers int64
    sizes: tuple[str, ...]  # of an array, by name; empty where it follows from other arguments


class Result(NamedTuple):
    """What a call gives back: arrays by name."""

    names: tuple[str, ...]
    is_tuple: bool


@dataclass(frozen=True, slots=True)
class FunctionSummary:
    """A function of given argument types: its data, its limits and what was recognised in it."""

    name: str
    arguments: tuple[Argument, ...]  # in call order
    result: Result | None
    params: tuple[str, ...]  # sizes of the arrays, then integer arguments
    arrays: tuple[Array, ...]  # arguments in call order, then locals
    unsafe: str  # where the function would leave its arrays: Python text over p['param']
    contraction: Contraction | None  # that the whole function is; None: it is something else

    def to_json(self) -> dict[str, Any]:
        found = self.contraction
        return {
            "name": self.name,
            "arguments": [[*x[:3], list(x.sizes)] for x in self.arguments],
            "result": self.result and [list(self.result.names), self.result.is_tuple],
            "params": list(self.params),
            "arrays": [to_json(array) for array in self.arrays],
            "unsafe": self.unsafe,
            "contraction": None if found is None else to_json(found),
        }

    @classmethod
    def from_json(cls, data: Any) -> FunctionSummary:
        """The summary that `to_json` wrote; raises Malformed for anything else."""
        match data:
            case {
                "name": str(name),
                "arguments": list(arguments),
                "result": result,
                "params": list(params),
                "arrays": list(arrays),
                "unsafe": str(unsafe),
                "contraction": found,
            } if _are_names(params):
                summary = cls(
                    name,
                    tuple(map(_argument, arguments)),
                    None if result is None else _result(result),
                    tuple(params),
                    tuple(map(read_array, arrays)),
                    unsafe,
                    None if found is None else read_contraction(found),
                )
                _check(summary)
                compile_test(unsafe, summary.params)
                return summary
        raise Malformed("a summary", data)


def _are_names(data: list[Any]) -> bool:
    return all(isinstance(name, str) for name in data)


def _argument(data: Any) -> Argument:
    match data:
        case ["array" | "int" | "scalar" as kind, str(name), str(dtype), list(sizes)] if (
            dtype in DTYPES and _are_names(sizes)
        ):
            return Argument(kind, name, dtype, tuple(sizes))
    raise Malformed("an argument", data)


def _result(data: Any) -> Result:
    match data:
        case [list(names), bool(is_tuple)] if _are_names(names):
            return Result(tuple(names), is_tuple)
    raise Malformed("a result", data)


def _check(summary: FunctionSummary) -> None:
    """Raise Malformed unless every expression is well typed and uses known names only."""
    params = dict.fromkeys(summary.params, INT64)
    arrays = {a.name: (a.dtype, a.rank) for a in summary.arrays}
    sizes = Scope(params, {})
    try:
        for array in summary.arrays:
            for extent in array.shape:
                check_integer(extent, sizes)
        if summary.contraction is not None:
            _check_contraction(summary.contraction, sizes, arrays)
    except InvalidExpr as error:
        raise Malformed("a summary", error.rule) from error
    _check_arguments(summary, arrays)


def _check_arguments(summary: FunctionSummary, arrays: Mapping[str, tuple[DType, int]]) -> None:
    """Raise Malformed unless arguments and result are arrays and parameters that exist."""
    for kind, name, dtype, sizes in summary.arguments:
        if kind == "int":
            known = name in summary.params
        else:
            known = arrays.get(name) == (DTYPES[dtype], len(sizes))
        if not known or not set(sizes) - {""} <= set(summary.params):
            raise Malformed("an argument", name)
    given = {argument.name for argument in summary.arguments}
    if summary.result is not None and not set(summary.result.names) <= arrays.keys() | given:
        raise Malformed("a result", summary.result.names)


def _check_contraction(
    found: Contraction, sizes: Scope, arrays: Mapping[str, tuple[DType, int]]
) -> None:
    outer, inner = (*found.batch, *found.i, *found.j), found.p
    for loop in (*outer, *inner):
        check_integer(loop.start, sizes)
        check_integer(loop.stop, sizes)
    around = dict(sizes.variables) | {loop.name: INT64 for loop in outer}
    inside = Scope(around | {loop.name: INT64 for loop in inner}, arrays)
    for operand in (found.left, found.right):
        if operand is not None:
            check_expr(operand.access.load(), inside)
            check_expr(operand.value, inside)
    check_expr(found.out.load(), Scope(around, arrays))
    check_expr(found.initial, Scope(around, arrays))
    check_expr(found.final, Scope(around | {ACCUMULATOR: found.dtype}, arrays))


# -- the test of sizes ------------------------------------------------------------------------

_ALLOWED = (
    ast.BoolOp,
    ast.And,
    ast.Or,
    ast.Compare,
    ast.GtE,
    ast.Eq,
    ast.BinOp,
    ast.Add,
    ast.Mult,
    ast.FloorDiv,
    ast.UnaryOp,
    ast.USub,
    ast.Load,
)


@lru_cache(maxsize=256)
def compile_test(text: str, params: tuple[str, ...]) -> Test:
    """The text of `analysis.subscript_bounds.predicate_text` as a function; raises Malformed.

    Integer arithmetic and comparisons of `p['param']` are all that is let through.
    """
    try:
        tree = ast.parse(f"lambda p: {text}", "<bounds>", "eval")
    except SyntaxError:
        raise Malformed("a test of sizes", text) from None
    if not isinstance(tree.body, ast.Lambda):
        raise Malformed("a test of sizes", text)
    _require_arithmetic(tree.body.body, frozenset(params), text)
    test: Test = eval(compile(tree, "<bounds>", "eval"), {})
    return test


def _require_arithmetic(node: ast.AST, params: frozenset[str], text: str) -> None:
    match node:
        case ast.Constant(value=int()):
            return
        case ast.Subscript(value=ast.Name(id="p"), slice=ast.Constant(value=str(name))):
            if name in params:
                return
        case _ if isinstance(node, _ALLOWED):
            for child in ast.iter_child_nodes(node):
                _require_arithmetic(child, params, text)
            return
    raise Malformed("a test of sizes", text)


# -- identity ---------------------------------------------------------------------------------


def summary_key(tree: SourceTree, *, reassoc: bool) -> str:
    """A hash of everything the meaning of a function depends on.

    Argument types and captured values are part of the tree. Places in the file are not: a
    function that moves keeps its kernels.
    """
    content = repr((_without_places(replace(tree, captured=())), reassoc))
    return f"summary {hashlib.sha256(content.encode()).hexdigest()}"


def _without_places(noun: object) -> object:
    """A noun as nested tuples, spans left out."""
    match noun:
        case Span():
            return None
        case DType(name=name):
            return name
        case tuple():
            return tuple(map(_without_places, noun))
    if is_dataclass(noun):
        values = (getattr(noun, field.name) for field in fields(noun))
        return (type(noun).__name__, *map(_without_places, values))
    return noun
