"""Guards of remainders, `if (i % p != r)`: each is one piece of a set, however many there are."""

import numpy as np
import pytest

import loopwright as lw
from loopwright.diagnostics import UsageError
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import extract
from loopwright.ir.expr import Binary, Const, Var
from loopwright.ir.islkit import GaveUp, condition, context, is_intricate, isl
from loopwright.lower.astgen import generate_loops
from loopwright.transform.plan import initial_schedule

PRIMES = (3, 5, 7, 11, 13, 17, 19, 23)
TEXT = """void f(int n, double a[n]) {{
#pragma scop
    for (int i = 0; i < n; i++)
        {guard}
            a[i] = a[i] * 2;
#pragma endscop
}}
"""


def guarded(count: int, how: str) -> str:
    tests = [f"i % {p} != {k % p}" for k, p in enumerate(PRIMES[:count])]
    if how == "nested":
        return TEXT.format(guard=" ".join(f"if ({test})" for test in tests))
    return TEXT.format(guard=f"if ({' && '.join(tests)})")


def admitted(count: int, n: int) -> list[int]:
    pairs = list(enumerate(PRIMES[:count]))
    return [i for i in range(n) if all(i % p != k % p for k, p in pairs)]


@pytest.mark.parametrize("how", ["nested", "joined"])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_a_domain_is_one_piece(count: int, how: str) -> None:
    (region,) = read_c(guarded(count, how), compiler="").regions
    (statement,) = extract(region.tree).statements
    assert statement.domain.n_basic_set() == 1
    fixed = statement.domain.fix_val(isl.dim_type.param, 0, isl.Val(60, context=context()))
    points: list[isl.Point] = []
    fixed.foreach_point(points.append)
    values = [p.get_coordinate_val(isl.dim_type.set, 0).to_python() for p in points]
    assert sorted(values) == admitted(count, 60)


@pytest.mark.parametrize("how", ["nested", "joined"])
@pytest.mark.parametrize("count", [3, 8])
def test_many_guards_are_compiled(count: int, how: str) -> None:
    """Three did not end within a minute when joined; what is left undone is no search of isl's."""
    kernel = lw.compile(guarded(count, how))
    found = np.ones(200)
    kernel(200, found)
    assert np.nonzero(found == 2)[0].tolist() == admitted(count, 200)


@pytest.mark.parametrize("value", [-4, -1, 0, 2, 3, 4])
def test_any_remainder_and_any_sign(value: int) -> None:
    """Equal to the comparison as isl makes it, for all integers and any number."""
    space = isl.Space.set_alloc(context(), 0, 1).set_dim_name(isl.dim_type.set, 0, "i")
    rest = Binary("mod", Var("i") - 2, Const(3))
    wanted = condition(Binary("eq", rest, Const(value)), space).complement()
    for found in (Binary("ne", rest, Const(value)), Binary("ne", Const(value), rest)):
        assert condition(found, space).is_equal(wanted)
        assert condition(found, space).n_basic_set() == 1


def test_loops_with_steps_are_not_intricate() -> None:
    """Where a division is given by an equality, isl searches nothing: tiles of six loops."""
    loops = "".join(f"for (int i{k} = 0; i{k} < n; i{k} += 4) " for k in range(6))
    text = TEXT.format(guard="").replace("for (int i = 0; i < n; i++)", loops)
    (region,) = read_c(text.replace("a[i]", "a[i0]"), compiler="").regions
    (statement,) = extract(region.tree).statements
    assert not is_intricate(statement.domain)


def test_nests_of_very_many_loops_are_left_as_they_are() -> None:
    """isl's work on 60 loops is exponential, and counted by no quota."""
    loops = "".join(f"for (int i{k} = 0; i{k} < n; i{k}++) " for k in range(60))
    text = TEXT.format(guard="").replace("for (int i = 0; i < n; i++)", loops)
    (region,) = read_c(text.replace("a[i]", "a[i0]"), compiler="").regions
    with pytest.raises(GaveUp, match="60 loops around a statement are more than 32"):
        generate_loops(initial_schedule(extract(region.tree)))


def test_many_remainders_of_sums_are_refused() -> None:
    """isl took for ever over the subscripts, the dependences and the sizes of such a nest."""
    guard = "(2 * i + j) % 7 < 3 && (i + 3 * j) % 5 < 4 && (i + j) % 11 > 2"
    guard += " && (j + 5 * i) % 13 < 9"
    text = TEXT.format(guard=f"for (int j = 0; j < n; j++) if ({guard})")
    with pytest.raises(UsageError) as caught:
        lw.compile(text)(20, np.ones(20))
    assert str(caught.value) == (
        "the loops of 'f' are too hard to write down\n"
        "note: found statement S0 stands under many remainders of sums\n"
        "try: simpler conditions, or several functions"
    )
