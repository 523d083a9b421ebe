"""Skewed passes: what they look like, how small slopes are, what is refused, what they compute."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drawn import combined
from loopwright.diagnostics import IllegalStep
from loopwright.ir.program import Program
from loopwright.lower.passes import lower_schedule
from loopwright.machines.host import host
from loopwright.machines.load import load_machine
from loopwright.planner.loop_plans.stencils import plan_stencils
from loopwright.transform.loop_marks import Parallel
from loopwright.transform.plan import apply_plan, initial_schedule
from loopwright.transform.skew import Skew, smallest_skew
from oracle import assert_same
from programs import Do, For, program


def five(a: str, i: str, j: str) -> str:
    """The mean of an element and its four neighbours."""
    near = ((0, 0), (0, -1), (0, 1), (1, 0), (-1, 0))
    return f"0.2 * ({' + '.join(f'{a}[{i} + {x}, {j} + {y}]' for x, y in near)})"


NINE = "(" + " + ".join(f"A[i + {a}, j + {b}]" for a in (-1, 0, 1) for b in (-1, 0, 1)) + ") / 9.0"


def passes(*body: For | Do, **arrays: str) -> Program:
    return program("passes", arrays, For("t", 0, "m", *body), params="n m")


def rows(i: str, j: str, do: Do, first: int = 1, last: str = "n - 1") -> For:
    return For(i, first, last, For(j, first, last, do))


PLANE = "inout float64 [n, n]"
JACOBI = passes(
    rows("i", "j", Do("B[i, j]", five("A", "i", "j"))),
    rows("k", "l", Do("A[k, l]", five("B", "k", "l"))),
    A=PLANE,
    B=PLANE,
)
SEIDEL = passes(rows("i", "j", Do("A[i, j]", NINE)), A=PLANE)
WAVES = passes(
    For("z", 0, "n", Do("ey[0, z]", "f[t]")),
    For(
        "i", 1, "n", For("j", 0, "n", Do("ey[i, j]", "ey[i, j] - 0.5 * (hz[i, j] - hz[i - 1, j])"))
    ),
    For(
        "k", 0, "n", For("l", 1, "n", Do("ex[k, l]", "ex[k, l] - 0.5 * (hz[k, l] - hz[k, l - 1])"))
    ),
    For(
        "p",
        0,
        "n - 1",
        For(
            "q",
            0,
            "n - 1",
            Do("hz[p, q]", "hz[p, q] - 0.5 * (ex[p, q + 1] - ex[p, q] + ey[p + 1, q] - ey[p, q])"),
        ),
    ),
    ex=PLANE,
    ey=PLANE,
    hz=PLANE,
    f="in float64 [m]",
)


@pytest.mark.parametrize(
    ("source", "apart", "slope", "shifts", "counted"),
    [
        (JACOBI, False, 2, (0, 1), (1, 1)),
        (JACOBI, True, 3, (0, 1), (1, 1)),
        (SEIDEL, False, 1, (0,), (1,)),
        (SEIDEL, True, 2, (0,), (1,)),
        (WAVES, False, 1, (0, 0, 0, 1), (0, 1, 1, 1)),
        (WAVES, True, 2, (0, 0, 0, 1), (0, 1, 1, 1)),
    ],
)
def test_smallest(
    source: Program, apart: bool, slope: int, shifts: tuple[int, ...], counted: tuple[int, ...]
) -> None:
    """The slope is the least one: with one less the step is refused."""
    found = smallest_skew(initial_schedule(source), "t", 4, apart=apart)
    assert found == Skew("t", slope, shifts, counted, 4)
    apply_plan(source, [found])
    if not apart:
        with pytest.raises(IllegalStep, match="would reverse"):
            apply_plan(source, [Skew("t", slope - 1, shifts, counted, 4)])


def test_rows_that_depend_on_all_rows() -> None:
    """Elimination reads its pivot row from everywhere: no stencil."""
    body = For(
        "i", "t + 1", "n", For("j", "t + 1", "n", Do("A[i, j]", "A[i, j] - A[i, t] * A[t, j]"))
    )
    source = program("lu", {"A": PLANE}, For("t", 0, "n", body))
    assert smallest_skew(initial_schedule(source), "t", 4, apart=False) is None
    assert plan_stencils(initial_schedule(source), host(), parallel=False) == ()


@pytest.mark.drawn(5)
@pytest.mark.parametrize(
    ("source", "parallel", "sizes"),
    combined(
        [JACOBI, SEIDEL, WAVES],
        [False, True],
        [(0, 3), (1, 2), (2, 5), (3, 1), (7, 0), (11, 21)],
        one_in=2,
    ),
)
def test_meaning(source: Program, parallel: bool, sizes: tuple[int, int]) -> None:
    """The planned order computes the same bits."""
    n, m = sizes
    plan = plan_stencils(initial_schedule(source), host(), parallel=parallel)
    assert isinstance(plan[0], Skew)
    nest = lower_schedule(apply_plan(source, plan))
    assert_same(source, nest, {"n": n, "m": m}, threads=2 if parallel else 1)


def heat(to: str, a: str, i: str, j: str, k: str) -> For:
    """A pass over a grid of three dimensions: elements from their neighbours on all sides."""
    near = ((1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1))
    value = " + ".join(f"{a}[{i} + {x}, {j} + {y}, {k} + {z}]" for x, y, z in near)
    return For(i, 1, "n - 1", rows(j, k, Do(f"{to}[{i}, {j}, {k}]", value)))


CUBE = "inout float64 [n, n, n]"
HEAT = passes(heat("B", "A", "i", "j", "k"), heat("A", "B", "p", "q", "r"), A=CUBE, B=CUBE)


@pytest.mark.parametrize(
    ("source", "width"),
    [(JACOBI, 2), (WAVES, 2), (HEAT, 2), (SEIDEL, 1)],
    ids=["jacobi", "waves", "heat", "seidel"],
)
def test_width(source: Program, width: int) -> None:
    """Rows go side by side where they share what they read, but no recurrences."""
    plan = plan_stencils(initial_schedule(source), load_machine("neoverse-n1"), parallel=False)
    assert isinstance(plan[0], Skew)
    assert plan[0].width == width


@pytest.mark.parametrize(("source", "slope"), [(JACOBI, 4), (WAVES, 3)], ids=["jacobi", "waves"])
def test_wide_waves_apart(source: Program, slope: int) -> None:
    """Passes of a wave of two rows are independent with the slope that is found, not with less."""
    found = smallest_skew(initial_schedule(source), "t", 4, apart=True, width=2)
    assert found is not None
    assert found.slope == slope
    apply_plan(source, [found, Parallel("t")])
    with pytest.raises(IllegalStep):
        apply_plan(source, [replace(found, slope=slope - 1), Parallel("t")])


def test_what_hands_nothing_on_is_no_loop_of_time() -> None:
    """All iterations write the scalar, but none reads what another one wrote."""
    arrays = {"A": "in float64 [n, n, n]", "B": "out float64 [n, n, n]", "s": "local float64 []"}
    cell = (
        Do("s", "0"),
        For("l", 0, 6, Do("s", "s + A[e, i, l]")),
        Do("B[e, i, j]", "s"),
    )
    nest = For("e", 0, "n", For("i", 0, 6, For("j", 0, 6, *cell)))
    source = program("elements", arrays, nest)
    assert plan_stencils(initial_schedule(source), host(), parallel=True) == ()
