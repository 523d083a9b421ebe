"""Recipe: what calls of a compiled function need to know of it, without isl, storable as JSON.

A recipe is made once from the function's meaning and kept beside its kernels in the disk cache.
In a later process the function is parsed, its recipe and kernels are found, and isl stays unloaded.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from loopwright.diagnostics import Span
from loopwright.frontends.tree import SourceTree
from loopwright.ir.check_expr import InvalidExpr, Scope, check_expr, check_integer
from loopwright.ir.contraction import ACCUMULATOR, Contraction
from loopwright.ir.dtypes import INT64, DType
from loopwright.ir.program import Array
from loopwright.ir.serial import Malformed, read_array, read_contraction, to_json

__all__ = ["Recipe", "compile_test", "recipe_key"]

Test = Callable[[Mapping[str, int]], bool]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A function of given argument types: its data, its limits and what was recognised in it."""

    params: tuple[str, ...]  # sizes of the arrays, then integer arguments
    arrays: tuple[Array, ...]  # arguments in call order, then locals
    unsafe: str  # where the function would leave its arrays: Python text over p['param']
    contraction: Contraction | None  # that the whole function is; None: it is something else

    def to_json(self) -> dict[str, Any]:
        found = self.contraction
        return {
            "params": list(self.params),
            "arrays": [to_json(array) for array in self.arrays],
            "unsafe": self.unsafe,
            "contraction": None if found is None else to_json(found),
        }

    @classmethod
    def from_json(cls, data: Any) -> Recipe:
        """The recipe that `to_json` wrote; raises Malformed for anything else."""
        match data:
            case {
                "params": list(params),
                "arrays": list(arrays),
                "unsafe": str(unsafe),
                "contraction": found,
            } if all(isinstance(name, str) for name in params):
                contraction = None if found is None else read_contraction(found)
                recipe = cls(tuple(params), tuple(map(read_array, arrays)), unsafe, contraction)
                _check(recipe)
                compile_test(unsafe, recipe.params)
                return recipe
        raise Malformed("a recipe", data)


def _check(recipe: Recipe) -> None:
    """Raise Malformed unless every expression is well typed and uses known names only."""
    params = dict.fromkeys(recipe.params, INT64)
    arrays = {a.name: (a.dtype, a.rank) for a in recipe.arrays}
    sizes = Scope(params, {})
    try:
        for array in recipe.arrays:
            for extent in array.shape:
                check_integer(extent, sizes)
        if recipe.contraction is not None:
            _check_contraction(recipe.contraction, sizes, arrays)
    except InvalidExpr as error:
        raise Malformed("a recipe", error.rule) from error


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


def compile_test(text: str, params: tuple[str, ...]) -> Test:
    """The text of `analysis.bounds.predicate_text` as a function; raises Malformed.

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


def recipe_key(tree: SourceTree, *, reassoc: bool) -> str:
    """Everything the meaning of a function depends on, as text.

    Argument types and captured values are part of the tree. Places in the file are not: a
    function that moves keeps its kernels.
    """
    return repr(("recipe", _without_places(replace(tree, captured=())), reassoc))


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
