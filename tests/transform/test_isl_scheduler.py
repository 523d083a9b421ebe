"""Numbers as parameters: the same sets at their values, schedules that do not depend on them."""

from __future__ import annotations

import islpy as isl
import pytest

from loopwright.transform.isl_scheduler import SizeParameters, size_parameters


def instances(text: str) -> isl.UnionSet:
    return isl.UnionSet(text)


TRIANGLE = "{ S[i, j] : 0 <= i < 1200 and 0 <= j < i; T[i] : 2 <= i < 1199 }"
STRIDED = "[n] -> { S[i] : 0 <= i < 1000 and i mod 3 = 1 and i < n; T[i] : 0 <= i < 40 }"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (TRIANGLE, (1199,)),
        (STRIDED, (39, 999)),
        ("{ S[i] : 0 <= i < 12 }", ()),
        ("{ S[i] : 0 <= i < 30; T[i] : 0 <= i < 36; U[i] : 0 <= i < 39 }", (35, 38)),
        ("[n] -> { S[i] : 0 <= i < n }", ()),
        ("{ S[i] : 100 <= i < 300 or -100 < i < 0 }", (100, 299)),
    ],
)
def test_sizes_that_are_found(text: str, values: tuple[int, ...]) -> None:
    assert size_parameters(instances(text)).values == values


def fixed(found: isl.UnionSet | isl.UnionMap, values: tuple[int, ...]) -> object:
    """`found` where the parameters have their values."""
    for value in values:
        name = f"lw_number_{value}"
        found = found.intersect_params(isl.Set(f"[{name}] -> {{ : {name} = {value} }}"))
    return found.project_out_all_params() if values else found


@pytest.mark.parametrize("text", [TRIANGLE, STRIDED, "{ S[i] : 100 <= i < 300 or -100 < i < 0 }"])
def test_sets_are_the_same_at_the_numbers(text: str) -> None:
    domain = instances(text.replace("[n] -> ", "").replace(" and i < n", ""))
    numbers = size_parameters(domain)
    general = numbers.domain(domain)
    assert not general.is_subset(domain), "other values of the parameters give other sets"
    assert fixed(general, numbers.values).is_equal(domain)  # type: ignore[attr-defined]
    pairs = isl.UnionMap.from_domain_and_range(domain, domain)
    again = fixed(numbers.pairs(pairs), numbers.values)
    assert again.is_equal(pairs)  # type: ignore[attr-defined]


def test_functions_come_back_with_numbers() -> None:
    numbers = SizeParameters((35, 1199))
    space = "[n, lw_number_35, lw_number_1199]"
    function = isl.UnionPwAff(
        f"{space} -> {{ S[i] -> [(2lw_number_1199 - i + n)]; T[i] -> [(i)] }}"
    )
    assert numbers.back(function).plain_is_equal(
        isl.UnionPwAff("[n] -> { S[i] -> [(2398 - i + n)]; T[i] -> [(i)] }")
    )
    reached = numbers.universe(isl.UnionSet(f"{space} -> {{ S[i] : i < lw_number_35 }}"))
    assert reached.is_equal(isl.UnionSet("[n] -> { S[i] }"))
    plain = isl.UnionPwAff("{ S[i] -> [(i)] }")
    assert SizeParameters(()).back(plain) is plain
