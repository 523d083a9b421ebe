"""SplitByDistance: strips where iterations that share an element are far apart; refusals."""

from __future__ import annotations

from textwrap import dedent

import pytest

from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.ir.program import Program
from loopwright.ir.text import stmt_text
from loopwright.lower.passes import lower_schedule
from loopwright.transform.distance_splitting import SplitByDistance
from loopwright.transform.loop_marks import Simd
from loopwright.transform.plan import apply_plan
from loopwright.transform.schedule_legality import initial_schedule
from oracle import assert_same
from programs import Do, For, matmul, program


def partitions() -> Program:
    body = For("s", "c", "n", Do("t[s]", "t[s] + t[s - c]"))
    return program("partitions", {"t": "inout int32 [n]"}, For("c", 1, "n", body))


def comb(*, down: bool = False, ahead: bool = False) -> Program:
    """A loop in either direction that reads d elements behind or ahead of what it writes."""
    arrays = {"t": "inout float64 [n + 60]"}
    read = "t[s + d + 30]" if ahead else "t[s - d + 30]"
    first = For("s", "n - 1", "-1", Do("t[s + 30]", f"t[s + 30] + {read}"), step=-1)
    loop = first if down else For("s", 0, "n", Do("t[s + 30]", f"t[s + 30] + {read}"))
    return program("comb", arrays, loop, params="n d")


def constant(distance: int) -> Program:
    loop = For("s", distance, "n", Do("t[s]", f"t[s] + t[s - {distance}]"))
    return program("constant", {"t": "inout float64 [n]"}, loop)


STEPS = SplitByDistance("s", 4), Simd("s")


def test_golden() -> None:
    assert stmt_text(lower_schedule(apply_plan(partitions(), STEPS)).body) + "\n" == dedent("""\
        for c in range(1, n):
            if c >= 4:
                for s_t in range(c, n - 3, 4):
                    simd for s in range(s_t, s_t + 4):
                        t[s] = t[s] + t[s - c]
                simd for s in range(c + max(n - c, 0) // 4 * 4, n):
                    t[s] = t[s] + t[s - c]
            else:
                for s_2 in range(c, n):
                    t[s_2] = t[s_2] + t[s_2 - c]
        """)


@pytest.mark.parametrize("n", [0, 1, 2, 13, 31])
def test_distances_of_a_loop_around(n: int) -> None:
    source = partitions()
    assert_same(source, lower_schedule(apply_plan(source, STEPS)), {"n": n})


@pytest.mark.drawn(2)
@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("ahead", [False, True])
def test_all_small_distances(down: bool, ahead: bool) -> None:
    source = comb(down=down, ahead=ahead)
    nest = lower_schedule(apply_plan(source, STEPS))
    for d in range(-9, 10):
        for n in (0, 1, 3, 4, 5, 17):
            assert_same(source, nest, {"n": n, "d": d})


def test_longer_strips_than_distances_have_no_vectors() -> None:
    with pytest.raises(IllegalStep, match="loop 's_2' carries"):
        apply_plan(partitions(), [SplitByDistance("s", 4), Simd("s_2")])


REFUSED = (
    (constant(3), SplitByDistance("s", 4), "no run of loop 's' is far"),
    (constant(5), SplitByDistance("s", 4), "no run of loop 's' is near"),
    (matmul(), SplitByDistance("i", 4), "loop 'i' is not innermost"),
    (matmul(), SplitByDistance("x", 4), "there is no loop 'x'"),
)


@pytest.mark.parametrize(("source", "step", "reason"), REFUSED, ids=range(len(REFUSED)))
def test_refused(source: Program, step: SplitByDistance, reason: str) -> None:
    with pytest.raises(IllegalStep) as error:
        apply_plan(source, [step])
    assert f"{step}: {reason}" in str(error.value)


def test_candidates_are_innermost_loops() -> None:
    assert list(SplitByDistance.candidates(initial_schedule(partitions()))) == [
        SplitByDistance("s", 8)
    ]


def test_a_distance_is_two_or_more() -> None:
    with pytest.raises(UsageError, match="a distance of at least 2"):
        SplitByDistance("s", 1)
