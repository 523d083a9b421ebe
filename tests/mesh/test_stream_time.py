"""Stencils whose planes stream through scratchpads: right at ragged sizes, less DMA, refusals."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from drawn import HUNTS, drawn
from loopwright.analysis.find_plane_stream import find_plane_stream
from loopwright.analysis.find_time_stencil import find_time_stencil
from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.ir.check import check_nest
from loopwright.ir.plane_stream import PlaneStream
from loopwright.ir.program import Program
from loopwright.ir.text import schedule_text, stmt_text
from loopwright.ir.time_stencil import TimeStencil
from loopwright.lower.passes import lower_schedule
from loopwright.lower.tiles.stream_time_tiles import stream_time_tiles
from loopwright.transform.plan import apply_plan, initial_schedule
from loopwright.transform.schedule_legality import reordered
from loopwright.transform.stream_time import StreamTime, streamed_order
from loopwright.validate import check_translation
from mesh.streamed_programs import GAUSS_SEIDEL, PLANE, SPACE, nest_of
from mesh.test_time_tiles import ONE_SIDED, source, stencil
from programs import Do, For, program


def stream_of(wanted: Program) -> tuple[TimeStencil, PlaneStream]:
    found = find_time_stencil(wanted)
    assert isinstance(found, TimeStencil)
    stream = find_plane_stream(wanted, found)
    assert isinstance(stream, PlaneStream)
    return found, stream


def differences(wanted: Program, step: StreamTime, sizes: list[dict[str, int]]) -> object:
    nest = lower_schedule(apply_plan(wanted, [step]))
    check_nest(nest)
    return check_translation(wanted, nest, sizes)


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("name", "steps", "cut"),
    drawn([(n, t, c) for n in SPACE for t in (1, 2, 3) for c in ((3, 4, 3), (9, 2, 7))], 11, 3),
)
def test_in_space(name: str, steps: int, cut: tuple[int, ...]) -> None:
    sizes = [(4, 0, 4, 1), (1, 2, 1, 2), (3, 3, 4, 0), (6, 5, 5, min(steps + 1, 3))]
    known = [dict(zip("abcm", each, strict=True)) for each in sizes]
    assert differences(SPACE[name], StreamTime(steps, cut, 2, 2), known) == ()


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("name", "steps", "cut"),
    drawn([(n, t, c) for n in PLANE for t in (1, 3) for c in ((4, 3), (20, 5))], 5),
)
def test_in_the_plane(name: str, steps: int, cut: tuple[int, ...]) -> None:
    sizes = [(0, 4, 1), (1, 1, 2), (4, 3, 0), (5, 7, 1), (8, 7, steps + 1)]
    known = [dict(zip("abm", each, strict=True)) for each in sizes]
    assert differences(PLANE[name], StreamTime(steps, cut, 1, 3), known) == ()


@st.composite
def random_stencils(draw: st.DrawFn) -> Program:
    """One to three statements on two grids of a plane, with neighbours up to two elements away."""
    near = st.integers(-2, 2)
    body: list[For | Do] = []
    grids = draw(st.sampled_from(["BA", "A", "BAB", "AB"]))
    for grid in grids:
        terms = ["0.25"]
        for _ in range(draw(st.integers(1, 3))):
            other = draw(st.sampled_from("ABc"))
            i, j = (0, 0) if other == grid else (draw(near), draw(near))
            terms.append(f"{other}[i + {i}, j + {j}]".replace("+ -", "- "))
        border = draw(st.integers(2, 3))
        body.append(nest_of(border, Do(f"{grid}[i, j]", " - ".join(terms)), "ij", "ab"))
    arrays = dict.fromkeys("AB", "inout float64 [a, b]") | {"c": "in float64 [a, b]"}
    return program("random", arrays, For("t", 0, "m", *body), params="a b m")


@settings(max_examples=60 if HUNTS else 3, deadline=None)
@given(random_stencils(), st.integers(1, 3), st.integers(1, 9), st.integers(1, 5))
def test_random_stencils(wanted: Program, steps: int, planes: int, width: int) -> None:
    # Some are refused, such as ONCE_WIDER below.
    assume(isinstance(find_time_stencil(wanted), TimeStencil))
    known = [{"a": a, "b": b, "m": m} for a, b, m in ((4, 5, 1), (8, 7, steps + 1))]
    assert differences(wanted, StreamTime(steps, (planes, width), 2, 1), known) == ()


# -- the order ------------------------------------------------------------------------------------


def test_the_order_of_a_stream() -> None:
    schedule = apply_plan(source("heat-3d"), [StreamTime(2, (8, 8, 8), 2, 2)])
    lines = [line.strip() for line in schedule_text(schedule).splitlines()]
    assert lines[1:4] == [
        "for plane: S0[t, i, j, k] -> [(1 + 2t + i)]; S1[t, i_1, j_1, k_1] -> [(2 + 2t + i_1)]",
        "for t: S0[t, i, j, k] -> [(t)]; S1[t, i_1, j_1, k_1] -> [(t)]",
        "in order:",
    ]


@pytest.mark.parametrize("change", [{"rate": 1}, {"delays": (1, 1)}])
def test_an_order_that_is_too_close_is_refused(change: dict[str, object]) -> None:
    """The proof is that of all schedules: it knows nothing of how delays were found."""
    wanted = source("heat-3d")
    found, stream = stream_of(wanted)
    step = StreamTime(2, (8, 8, 8), 2, 2)
    closer = replace(stream, **change)  # type: ignore[arg-type]
    with pytest.raises(IllegalStep, match="would reverse"):
        reordered(step, initial_schedule(wanted), streamed_order(wanted, found, closer))


def test_golden() -> None:
    wanted = PLANE["in_place"]
    tiles = apply_plan(wanted, [StreamTime(4, (16, 8), 1, 2)]).time_tiles
    assert tiles is not None
    text = stmt_text(stream_time_tiles(wanted, tiles).body)
    start = text.rindex("\n", 0, text.index("for position")) + 1
    end = text.rindex("\n", 0, text.index("let first_step", start)) + 1
    assert "\n" + dedent(text[start:end]) == dedent("""
        for position in range(A_at0 - 1, tile0 + min(a - tile0, 16)):
            wait
            let next_plane: int64 = position + 1
            if (next_plane >= A_at0) & (next_plane < A_at0 + A_by0):
                let slot: int64 = (next_plane - A_at0) % 2
                async copy [A_by1] to A_box[slot, 0] from A[next_plane, A_at1]
            for step in range(steps):
                let x0: int64 = position
                if (x0 >= max(tile0, 0)) & (x0 < min(tile0 + 16, a)):
                    let A_slot: int64 = (x0 - A_at0) % 2
                    for x1 in range(max(tile1, 0), min(tile1 + 8, b)):
                        A_box[A_slot, x1 - A_at1] = A_box[A_slot, x1 - A_at1] * 0.5 + 1.0
            let x0: int64 = position
            if (x0 >= tile0) & (x0 < tile0 + min(a - tile0, 16)):
                let slot: int64 = (x0 - A_at0) % 2
                async copy [min(b - tile1, 8)] to A_next[x0, tile1] from A_box[slot, tile1 - A_at1]
            commit
        wait
        """)


# -- plans ----------------------------------------------------------------------------------------


# -- refusals -------------------------------------------------------------------------------------

# Only the last B counts: it needs one column more of A, and that A no more of the one before it.
ONCE_WIDER = program(
    "once", {"A": "inout float64 [a, a]", "B": "inout float64 [a, a]"},
    For("t", 0, "m",
        For("i", 2, "a - 2", For("j", 2, "a - 2", Do("B[i, j]", "A[i, j + 1]"))),
        For("i", 2, "a - 2", For("j", 2, "a - 2", Do("A[i, j]", "A[i, j] - 1")))),
    params="a m",
)  # fmt: skip

WIDE_EDGE = program(
    "edge", {"A": "inout float64 [a, a]", "B": "inout float64 [a, a]"},
    For("t", 0, "m",
        For("i", 1, "a - 1", For("j", "e", "a - 1", Do("B[i, j]", "A[i, j] + A[i - 1, j]"))),
        For("i", 1, "a - 1", For("j", 1, "a - 1", Do("A[i, j]", "B[i, j]")))),
    params="a e m", known="1 <= e",
)  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (GAUSS_SEIDEL, "S0 reads what it writes in the same step"),
        (ONE_SIDED, "planes of grids of 1 dimensions do not stream"),
        (stencil("A[2 * i]"), "S0 reads 'A' at no constant distance"),
        (ONCE_WIDER, "what S1 needs does not grow evenly"),
        (WIDE_EDGE, "what nobody writes of 'B' has no constant width"),
    ],
)
def test_refused(wanted: Program, told: str) -> None:
    rank = wanted.arrays[0].rank
    step = StreamTime(2, (4,) * rank, 2, 2)
    with pytest.raises(IllegalStep) as caught:
        apply_plan(wanted, [step])
    assert str(caught.value) == f"{step}: {told}"


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ((33, (4, 4), 2, 2), "stream_time takes 1 to 32 steps"),
        ((2, (4, 0), 2, 2), "stream_time takes tiles of one element or more"),
        ((2, (4, 4), 2, 0), "stream_time takes one or more rows and columns"),
    ],
)
def test_numbers(values: tuple[int, tuple[int, ...], int, int], told: str) -> None:
    with pytest.raises(UsageError) as caught:
        StreamTime(*values)
    assert told in str(caught.value)
