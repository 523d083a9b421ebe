"""Contractions mean what the program means: small random programs, run both ways, bit by bit.

Floating-point sums come out different when they are added up in another order, so equal bits show
that the order of the reduction, its first value and its last change are all kept.
"""

from hypothesis import event, given
from hypothesis import strategies as st

import brute_force
from loopwright.analysis.find_contractions import explain, find_contractions
from loopwright.ir.program import Program
from programs import Do, For, program

ARRAYS = {
    "A": "inout {dtype} [n, q]",
    "B": "in {dtype} [q, m]",
    "C": "inout {dtype} [n, m]",
    "D": "in {dtype} [n, m]",
    "E": "inout {dtype} [n, m]",
    "b": "in {dtype} [m]",
    "beta": "in {dtype} []",
    "s": "local {dtype} []",
    "r": "local {dtype} []",
    "t": "local {dtype} [m]",
}
UPDATES = (
    Do("C[i, j]", "C[i, j] + A[i, k] * B[k, j]"),
    Do("C[i, j]", "beta * A[i, k] * B[k, j] + C[i, j]"),
    Do("C[i, j]", "C[i, j] - A[i + k, 2 * k] * B[k, j]"),
    Do("C[i, j]", "min(C[i, j], A[i, k] + B[k, j])"),
    Do("C[i, j]", "C[i, j] + C[k, j] * B[k, i]"),
    Do("C[i, j]", "C[i, j] + r * B[k, j]"),
    Do("C[i, 3 - j]", "C[i, 3 - j] + A[k, i] * (B[j, k] * beta)"),
    Do("s", "s + A[i, k] * B[k, j]"),
    Do("s", "s + A[i, k] * A[i, k]"),
    Do("s", "s + A[i, k]"),
    Do("t[j]", "t[j] + A[i, k] * B[k, j]"),
    Do("C[i, j]", "C[i, j] * B[k, j]"),
    Do("C[i + j, j]", "C[i + j, j] + A[i, k] * B[k, j]"),
    Do("C[i + j, 0]", "C[i + j, 0] + A[i, k] * B[k, j]"),
)
OTHERS = (
    Do("C[i, j]", "0"),
    Do("C[i, j]", "beta * C[i, j]"),
    Do("C[i, j]", "D[i, j]"),
    Do("C[i, j]", "max(C[i, j] + b[j], 0)"),
    Do("C[i, j]", "C[i, j] + C[i, j]"),
    Do("C[i, j]", "C[j, i]"),
    Do("C[i, 3 - j]", "1"),
    Do("C[i, j]", "s"),
    Do("C[i, j]", "C[i, j] + beta * s"),
    Do("C[i, j]", "t[j]"),
    Do("E[i, j]", "C[i, j]"),
    Do("E[i, j]", "E[i, j] + 2 * s"),
    Do("E[i, j]", "max(E[i, j], 0)"),
    Do("E[j, i]", "s"),
    Do("s", "0"),
    Do("s", "C[i, j]"),
    Do("s", "s + 1"),
    Do("t[j]", "0"),
    Do("t[j]", "b[j]"),
    Do("r", "A[i, k]"),
    Do("r", "beta * A[i, k]"),
    Do("A[i, k]", "b[k]"),
    Do("A[i, 0]", "s"),
    Do("C[0, 0]", "1"),
)
STOPS = {"i": "n", "j": "m", "k": "q"}


def fits(do: Do, loops: str) -> bool:
    """Whether every loop variable of a statement is among `loops`."""
    used = {x for x in "ijk" if f"[{x}" in do.target + do.value or f"{x}]" in do.target + do.value}
    return used <= set(loops)


@st.composite
def loop(draw: st.DrawFn, var: str, *body: For | Do) -> For:
    """A loop over a whole range, upwards or downwards."""
    if draw(st.integers(0, 5)):
        return For(var, 0, STOPS[var], *body)
    return For(var, f"{STOPS[var]} - 1", -1, *body, step=-1)


@st.composite
def nest(draw: st.DrawFn) -> For:
    """Loops in some order with an update innermost and some statements around it."""
    order = "".join(draw(st.permutations("ijk")))
    body: list[For | Do] = [draw(st.sampled_from(UPDATES))]
    for depth in (3, 2, 1):
        around = st.sampled_from([x for x in OTHERS if fits(x, order[:depth])])
        before = draw(st.lists(around, max_size=1))
        after = draw(st.lists(around, max_size=1)) if depth < 3 else []
        body = [draw(loop(order[depth - 1], *before, *body, *after))]
    (whole,) = body
    assert isinstance(whole, For)
    return whole


@st.composite
def apart(draw: st.DrawFn) -> For:
    """A statement in a nest of its own."""
    do = draw(st.sampled_from([x for x in OTHERS if fits(x, "ij")]))
    return draw(loop("i", draw(loop("j", do))))


@st.composite
def programs(draw: st.DrawFn) -> Program:
    before = draw(st.lists(apart(), max_size=1))
    after = draw(st.lists(apart(), max_size=2))
    dtype = draw(st.sampled_from(["float64", "float64", "int64"]))
    arrays = {name: text.format(dtype=dtype) for name, text in ARRAYS.items()}
    body = (*before, draw(nest()), *after)
    return program("random", arrays, *body, params="n m q")


@given(programs(), st.tuples(*[st.integers(0, 3)] * 3))
def test_programs_and_their_contractions_agree(known: Program, sizes: tuple[int, ...]) -> None:
    found = find_contractions(known)
    event(f"{len(found)} contractions over {sum(len(c.covers) for c in found)} statements")
    assert len(explain(known)) == len(known.statements)
    for params in (dict(zip("nmq", sizes, strict=True)), {"n": 3, "m": 2, "q": 3}):
        expected = brute_force.run(known, params, brute_force.instances(known, params))
        actual = brute_force.run_with(known, params, found)
        wanted = brute_force.visible(known, expected, actual)
        assert brute_force.visible(known, actual, expected) == wanted
