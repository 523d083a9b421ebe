"""Points of sets with functions, against plain enumeration with the algebra's own meaning."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.diagnostics import UsageError
from loopwright.sparse.enumerate_sets import (
    IndexEnvironment,
    enumerate_points,
    values_of,
)
from loopwright.sparse.uf import Conj, evaluate, holds, parse_linear, parse_set

SIZE = 5  # of every variable in the enumeration: the sets below stay within

SETS = (
    "{[x,y] : 0<=x<N && f(x)<=y<f(x+1)}",
    "{[x,y,z] : 0<=x<N && 0<=y<3 && z=f(x)+y && z<=4}",
    "{[x,y] : 0<=x<N && 2*y=f(x) && y>=0}",
    "{[x,y] : 0<=x<N && 0<=2*y<=f(x)+1}",
    "{[x,y] : 0<=x<N && y=f(f(x)) && x!=y}",
    "{[x,y] : 0<=x<N && y=floor(f(x)/2) && x mod 2=0}",
    "{[x,y] : 0<=x<N && 0<=y<N && N*x+y<=f(y)}",
    "{[x] : exists e: (0<=x<N && e=f(x) && f(e)=x)}",
    "{[x] : 0<=x<N && N<3}",
    "{[x] : 0<=x<0}",
)


@pytest.mark.parametrize("text", SETS)
@given(table=st.lists(st.integers(0, SIZE - 1), min_size=SIZE, max_size=SIZE), n=st.integers(0, 4))
def test_points_are_those_of_the_definition(text: str, table: list[int], n: int) -> None:
    array = np.array(table)
    found = parse_set(text)
    env = IndexEnvironment({"N": n}, {"f": array})
    for conj in found.conjs:
        columns = enumerate_points(conj, found.variables, env)
        got = list(zip(*(columns[name].tolist() for name in found.variables), strict=True))
        assert got == enumerated(conj, found.variables, n, array)


def enumerated(
    conj: Conj, names: tuple[str, ...], n: int, array: np.ndarray
) -> list[tuple[int, ...]]:
    """Every point of a box, in order, that a function continued by 0 makes true."""
    total = {(x,): int(array[x]) if 0 <= x < SIZE else 0 for x in range(-50, 50)}
    every = (*names, *conj.exists)
    kept = []
    for at in itertools.product(range(SIZE), repeat=len(every)):
        values = {**dict(zip(every, at, strict=True)), "N": n}
        if all(holds(c, values, {"f": total}) for c in conj.constraints):
            kept.append(at[: len(names)])
    return kept


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(1, 4))
def test_values_are_those_of_the_algebra(xs: list[int], n: int) -> None:
    array = np.arange(10)[::-1].copy()
    term = parse_linear("3*f(x) - N*x + floor((x+7)/N) + x mod 3 + MORTON(x,x) - 5", ["x"])
    env = IndexEnvironment({"N": n}, {"f": array})
    known = {"f": array, "MORTON": lambda i, j: int(values_of(morton, {}, constants(i, j)))}
    morton = parse_linear("MORTON(A,B)")
    found = values_of(term, {"x": np.array(xs)}, env)
    assert found.tolist() == [evaluate(term, {"x": x, "N": n}, known) for x in xs]


def constants(i: int, j: int) -> IndexEnvironment:
    return IndexEnvironment({"A": i, "B": j}, {})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{[x,y] : 0<=x<3 && y>=x}", "the variable y is not bounded by the variables before it"),
        ("{[x,y] : 0<=y<3 && x<=y && x>=0}", "the variable x is not bounded"),
        ("{[x] : 0<=x<9 && f(x)>=0}", "f(x) reads f at 5, outside its 5 places"),
        ("{[x] : 0<=x<3 && f(x-1)>=0}", "f(x-1) reads f at -1, outside its 5 places"),
        ("{[x] : 0<=x<M}", "the symbol M has no value"),
        ("{[x] : 0<=x<3 && g(x)>=0}", "the function g has no array"),
        ("{[x] : 0<=x<3 && f(x,x)>=0}", "f(x,x) has 2 arguments, the array f 1"),
        ("{[x] : 0<=x<4000000000}", "4000000000 points are too many to enumerate"),
        ("{[x] : x=N*N*N*H*H && x>0}", "leaves the range of 64-bit numbers"),
    ],
)
def test_refusals(text: str, told: str) -> None:
    env = IndexEnvironment({"N": 5, "H": 1 << 40}, {"f": np.zeros(5, np.int32)})
    found = parse_set(text)
    with pytest.raises(UsageError) as caught:
        enumerate_points(found.conjs[0], found.variables, env)
    assert told in str(caught.value)
