"""Footprints of an iteration of a loop in a block: exact sets and their boxes, by enumeration."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import islpy as isl
import pytest

from brute_force import Element, Memory, element, evaluate, instances
from loopwright.analysis.footprints import BoxHull, box_hull, find_footprint
from loopwright.ir.islkit import points_in
from loopwright.ir.program import Program
from loopwright.transform.grid_mapping import MapToBlocks, MapToThreads
from loopwright.transform.plan import apply_plan
from loopwright.transform.tiling import StripMine
from programs import Do, For, program

Values = Callable[[Mapping[str, int]], tuple[int, ...]]

ROWS = (StripMine("i", 4), MapToBlocks("i_t", "x"), MapToThreads("i", "x", 4), StripMine("j", 4))
BY_ROWS: Values = lambda at: (at["i"] // 4 * 4, at["j"] // 4 * 4)  # noqa: E731


def rows(subscripts: str, *, start: str | int = 0, stop: str = "m", where: str = "") -> Program:
    arrays = {"A": "in float64 [3 * n + m, 4 * m + n]", "y": "inout float64 [n]"}
    body = Do("y[i]", f"y[i] + A[{subscripts}]", where)
    return program("rows", arrays, For("i", 0, "n", For("j", start, stop, body)), params="n m")


def enumerated(
    known: Program, array: str, values: Values, sizes: Mapping[str, int], *, is_write: bool
) -> dict[tuple[int, ...], set[Element]]:
    """The elements that the instances with equal values of the loops access."""
    memory = Memory(known)
    found: dict[tuple[int, ...], set[Element]] = {}
    for name, point in instances(known, sizes):
        statement = known.statement(name)
        loops = dict(zip(statement.iterators, point, strict=True))
        names = {**sizes, **loops}
        for access in (statement.write,) if is_write else statement.reads:
            if access.array == array:
                found.setdefault(values(loops), set()).add(element(access, names, memory))
    return found


def as_sets(elements: isl.Map, sizes: Mapping[str, int]) -> dict[tuple[int, ...], set[Element]]:
    """The points of `{ [v] -> A[e] }` for given parameters."""
    for name, value in sizes.items():
        at = elements.find_dim_by_name(isl.dim_type.param, name)
        elements = elements.fix_val(isl.dim_type.param, at, value)
    count, name = elements.dim(isl.dim_type.in_), elements.get_tuple_name(isl.dim_type.out)
    found: dict[tuple[int, ...], set[Element]] = {}
    for point in points_in(elements.wrap().flatten().project_out_all_params()):
        rank = count + elements.dim(isl.dim_type.out)
        at = [point.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(rank)]
        found.setdefault(tuple(at[:count]), set()).add((name, tuple(at[count:])))
    return found


def box_of(hull: BoxHull, names: Mapping[str, int], known: Program) -> set[tuple[int, ...]]:
    """The elements of a box by its bounds."""
    lower = [int(evaluate(low, names, Memory(known))) for low in hull.lower]
    found: set[tuple[int, ...]] = {()}
    for low, extent, stride in zip(lower, hull.extents, hull.strides, strict=True):
        found = {(*index, low + stride * k) for index in found for k in range(extent)}
    return found


CASES: dict[str, tuple[Program, tuple[int, ...], tuple[int, ...]]] = {
    # accesses -> extents and strides of the box
    "plain": (rows("i, j"), (4, 4), (1, 1)),
    "transposed": (rows("j, i"), (4, 4), (1, 1)),
    "shifted": (rows("i + 2, j - i + n"), (4, 7), (1, 1)),
    "strided": (rows("3 * i, 2 * j + 1"), (4, 4), (3, 2)),
    "stencil": (rows("i, j + 1"), (4, 4), (1, 1)),
    "one column": (rows("i, 0"), (4, 1), (1, 1)),
    "triangle": (rows("i, j", stop="i + 1"), (4, 4), (1, 1)),
    "upper triangle": (rows("i, j", start="i"), (4, 4), (1, 1)),
    "condition": (rows("i, j", where="(i + j) mod 2 = 0"), (4, 4), (1, 1)),
}


@pytest.mark.parametrize("case", CASES)
def test_footprints_are_exact_and_boxes_around_them(case: str) -> None:
    known, extents, strides = CASES[case]
    schedule = apply_plan(known, ROWS)
    found = find_footprint(schedule, "A", "j_t")
    assert (found.loops, found.variables) == (("i_t", "j_t"), ("i_t", "j_t"))
    assert found.writes.is_empty()
    hull = box_hull(found.reads, found.variables)
    assert hull is not None
    assert (hull.extents, hull.strides) == (extents, strides)
    for sizes in ({"n": 9, "m": 7}, {"n": 8, "m": 8}, {"n": 3, "m": 10}):
        exact = enumerated(known, "A", BY_ROWS, sizes, is_write=False)
        assert as_sets(found.reads, sizes) == exact
        boxes = as_sets(hull.elements, sizes)
        assert boxes.keys() == exact.keys()
        for values, elements in exact.items():
            names = {**sizes, **dict(zip(found.variables, values, strict=True))}
            box = box_of(hull, names, known)
            assert {index for _, index in boxes[values]} == box
            assert {index for _, index in elements} <= box
            assert not hull.is_exact or {index for _, index in elements} == box


def test_writes_are_apart_from_reads() -> None:
    known = rows("i, j")
    found = find_footprint(apply_plan(known, ROWS), "y", "j_t")
    sizes = {"n": 9, "m": 7}
    for is_write, relation in ((False, found.reads), (True, found.writes)):
        assert as_sets(relation, sizes) == enumerated(known, "y", BY_ROWS, sizes, is_write=is_write)
