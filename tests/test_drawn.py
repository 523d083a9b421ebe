"""The part of the cases that the usual run takes."""

import pytest

from drawn import FEWEST, in_turn


@pytest.mark.parametrize("count", [1, 2, 3, 5, 6, 11, 12, 13, 100])
@pytest.mark.parametrize("one_in", [1, 2, 3, 4, 19])
def test_every_case_has_its_turn(count: int, one_in: int) -> None:
    cases = list(range(count))
    turns = [in_turn(cases, one_in, turn) for turn in range(one_in * 7)]
    step = max(1, min(one_in, count // FEWEST))
    assert all(len(found) >= min(FEWEST, count) for found in turns)
    assert all(len(found) - count // step in (0, 1) for found in turns)
    assert sorted(case for found in turns[:step] for case in found) == cases


def test_a_turn_has_all_values_of_an_inner_axis() -> None:
    cases = [(row, column) for row in range(6) for column in range(3)]
    for turn in range(3):
        found = in_turn(cases, 3, turn)
        assert {column for _, column in found} == {0, 1, 2}
        assert {row for row, _ in found} == set(range(6))
