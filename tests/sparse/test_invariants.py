"""The facts of a format: order between neighbours becomes order between any two, and is proved."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.sparse.formats import BUILT_IN, find
from loopwright.sparse.invariants import facts_of
from loopwright.sparse.uf import holds
from loopwright.sparse.uf.oracle import is_function, is_injective
from sparse_builders import of_dense

RANKS = {"mcoo3": 3, "csf": 3}


def test_order_of_neighbours_is_order_of_all() -> None:
    assert [str(rule) for rule in facts_of(find("csr")).further] == [
        "rowptr(0) = 0",
        "rowptr(NR) = NNZ",
        "forall x,k,k_1: k < k_1 && k >= rowptr(x) && k_1 < rowptr(x+1) && x < NR && x >= 0"
        " => k+col(k_1) >= k_1+col(k)",
    ]


def test_other_rules_stay() -> None:
    told = [str(rule) for rule in facts_of(find("sell(4,8)")).further]
    assert "forall x: x < NR && x >= 0 => floor(perm(x)/8) = floor(x/8)" in told
    # An equality of floors does not hold for all numbers between two that fulfil it, on sight.
    assert any("rlen(perm(x)) >= rlen(perm(x+1))" in rule for rule in told)


@pytest.mark.parametrize("format", ["csr", "csf", "hicoo(2)", "lil", "mcoo2", "bcsr(2,2)", "dcsr"])
@given(st.integers(0, 2**12 - 1))
def test_rules_hold_for_sound_tensors(format: str, bits: int) -> None:
    """Every instance of every rule, over a box that covers the arrays, continued by a constant."""
    pattern = np.array([bits >> n & 1 for n in range(12)]).reshape(3, 4)
    tensor = of_dense(format, pattern)
    tables = {name: tabled(array) for name, array in tensor.arrays.items()}
    tables["MORTON"] = lambda i, j: int(f"{interleaved(i, j)}", 2)
    for rule in facts_of(tensor.format).further:
        for at in itertools.product(range(-1, 5), repeat=len(rule.variables)):
            values = {**tensor.symbols, **dict(zip(rule.variables, at, strict=True))}
            if all(holds(c, values, tables) for c in rule.clause.premises):
                assert any(
                    all(holds(c, values, tables) for c in end) for end in rule.clause.conclusions
                ), (str(rule), at)


def tabled(array: np.ndarray) -> object:
    return lambda x: int(array[x]) if 0 <= x < len(array) else 0


def interleaved(i: int, j: int) -> str:
    return "".join(a + b for a, b in zip(f"{i:08b}", f"{j:08b}", strict=True))


@pytest.mark.drawn(8)
@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_descriptors_are_proved(name: str) -> None:
    format = find(name, RANKS.get(name, 2))
    facts = facts_of(format)
    assert is_function(format.map, facts)
    assert is_function(format.access, facts)
    # The places of a slice advance by its height: no rule of the algebra reaches that far.
    is_provable = format.is_unique and name != "sell"
    assert is_injective(format.map, facts) == is_provable
