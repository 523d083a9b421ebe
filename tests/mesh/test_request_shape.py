"""Requests of copies: dimensions that lie one behind another are one, others take a loop."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.ir.expr import Const, Expr
from loopwright.ir.request_shape import request_shape


def row_major(extents: list[int]) -> tuple[Expr, ...]:
    strides, step = [1], 1
    for extent in reversed(extents[1:]):
        step *= extent
        strides.insert(0, step)
    return tuple(map(Const, strides))


def told(shape: list[int], array: list[int], box: list[int] | None = None) -> tuple[object, ...]:
    sides = tuple(map(Const, shape))
    form = request_shape(sides, row_major(array), row_major(box or shape))
    numbers = (form.rows, form.width, form.pitch)
    return (form.around, *(e.value for e in numbers if isinstance(e, Const)))


@pytest.mark.parametrize(
    ("shape", "array", "expected"),
    [
        ([5], [9], ((), 1, 5, 5)),
        ([4, 5], [9, 9], ((), 4, 5, 9)),
        ([4, 5], [9, 5], ((), 4, 5, 5)),  # a gap of 0
        ([8, 64, 3, 3], [16, 64, 3, 3], ((), 1, 4608, 4608)),
        ([8, 5, 3, 3], [16, 64, 3, 3], ((), 8, 45, 576)),
        ([2, 8, 5, 3, 3], [4, 16, 64, 3, 3], ((0,), 8, 45, 576)),
        ([4, 5, 6], [7, 8, 9], ((0,), 5, 6, 9)),
        ([4, 1, 6], [7, 8, 9], ((), 4, 6, 72)),  # rows of planes
        ([4, 1, 1], [7, 8, 9], ((), 4, 1, 72)),
        ([1, 5, 6], [7, 8, 9], ((), 5, 6, 9)),
        ([2, 3, 1, 6], [7, 8, 9, 6], ((0,), 3, 6, 54)),
    ],
)
def test_shapes(shape: list[int], array: list[int], expected: tuple[object, ...]) -> None:
    assert told(shape, array) == expected


def test_boxes_with_gaps_of_their_own_are_not_one_row() -> None:
    assert told([8, 5, 3], [9, 5, 3], [8, 6, 3]) == ((0,), 1, 15, 15)
    assert told([8, 5, 3], [9, 5, 3], [8, 5, 4])[:3] == ((0,), 5, 3)


@given(st.data())
def test_every_element_is_moved_once(data: st.DataObject) -> None:
    """The requests bring what the copy brings, each element to its place in the packed box."""
    rank = data.draw(st.integers(1, 4))
    array = [data.draw(st.integers(1, 4)) for _ in range(rank)]
    shape = [data.draw(st.integers(1, extent)) for extent in array]
    form = request_shape(tuple(map(Const, shape)), row_major(array), row_major(shape))
    far = [int(e.value.real) for e in row_major(array) if isinstance(e, Const)]
    near = [int(e.value.real) for e in row_major(shape) if isinstance(e, Const)]
    numbers = [e.value for e in (form.rows, form.width, form.pitch) if isinstance(e, Const)]
    rows, width, pitch = (int(value.real) for value in numbers)
    wanted = {
        (sum(i * s for i, s in zip(at, far, strict=True)),
         sum(i * s for i, s in zip(at, near, strict=True)))
        for at in product(*map(range, shape))
    }  # fmt: skip
    moved = []
    for at in product(*(range(shape[k]) for k in form.around)):
        start = [
            sum(i * side[k] for i, k in zip(at, form.around, strict=True)) for side in (far, near)
        ]
        moved += [
            (start[0] + row * pitch + x, start[1] + row * width + x)
            for row in range(rows)
            for x in range(width)
        ]
    assert sorted(moved) == sorted(wanted)
