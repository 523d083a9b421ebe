"""A loop program of literal sizes made smaller: the same loops, over fewer iterations.

Sizes are the large whole numbers in extents, bounds, conditions and subscripts. Numbers that lie
close together belong to one size (2048, 2047 and 2046 do) and keep their distances; all sizes
are divided by the same factor, so that most of their ratios stay. What comes out need not make
sense: whoever uses it checks that no subscript leaves its array.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import assert_never

from loopwright.frontends.tree import ArrayParam, Assign, Branch, Loop, Node, SourceTree
from loopwright.ir.expr import Const, Expr, Load
from loopwright.ir.walk import rewrite, walk

__all__ = ["Smaller", "smaller_tree"]

_LEAST = 32  # a size that is left
_CLOSE = 16  # numbers of one size lie within it
_LARGE = _LEAST + _CLOSE  # from here on a number is a size


@dataclass(frozen=True, slots=True)
class Smaller:
    """A tree with other numbers, and which stand for which."""

    tree: SourceTree
    sizes: dict[int, int]  # the largest number of each size that changed, and what it became


def smaller_tree(tree: SourceTree, factor: int) -> Smaller | None:
    """`tree` with its literal sizes divided by `factor`; None where it has none to divide."""
    found: set[int] = set()

    def collect(expr: Expr) -> Expr:
        found.update(abs(size) for size in map(_size, walk(expr)) if size)
        return expr

    _mapped(tree, collect)
    sizes, numbers = _divided(sorted(found, reverse=True), factor)
    if not sizes:
        return None

    def change(expr: Expr) -> Expr:
        size = _size(expr)
        if not size:
            return expr
        return Const(numbers[size] if size > 0 else -numbers[-size], expr.dtype)

    return Smaller(_mapped(tree, lambda expr: rewrite(expr, change)), sizes)


def _size(expr: Expr) -> int:
    """The number that an expression is, if it is a size; else 0."""
    match expr:
        case Const(value=int(value)) if not isinstance(value, bool) and abs(value) >= _LARGE:
            return value
        case _:
            return 0


def _divided(numbers: list[int], factor: int) -> tuple[dict[int, int], dict[int, int]]:
    """What sizes become, and what every number becomes; numbers come in descending order."""
    sizes: dict[int, int] = {}
    changed: dict[int, int] = {}
    largest = 0
    for number in numbers:
        if not changed or largest - number > _CLOSE:
            largest = number
            sizes[largest] = min(largest, max(_LEAST, -(-largest // factor)))
        changed[number] = sizes[largest] - (largest - number)
    return {size: new for size, new in sizes.items() if new < size}, changed


def _mapped(tree: SourceTree, change: Callable[[Expr], Expr]) -> SourceTree:
    """The tree with the affine expressions of its extents, bounds, conditions and subscripts."""

    def each(index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(map(change, index))

    def load(expr: Expr) -> Expr:
        return replace(expr, index=each(expr.index)) if isinstance(expr, Load) else expr

    def node(found: Node) -> Node:
        match found:
            case Assign(target=target, value=value):
                target = replace(target, index=each(target.index))
                return replace(found, target=target, value=rewrite(value, load))
            case Loop(start=start, stop=stop, body=body):
                ends = change(start), change(stop)
                return replace(found, start=ends[0], stop=ends[1], body=tuple(map(node, body)))
            case Branch(cond=cond, body=body, orelse=orelse):
                parts = tuple(map(node, body)), tuple(map(node, orelse))
                return Branch(change(cond), *parts, found.span)
            case _:
                assert_never(found)

    params = tuple(
        replace(p, shape=each(p.shape)) if isinstance(p, ArrayParam) else p for p in tree.params
    )
    local = tuple(replace(x, shape=each(x.shape)) for x in tree.locals)
    return replace(tree, params=params, locals=local, body=tuple(map(node, tree.body)))
