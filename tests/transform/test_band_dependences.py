"""Parts of trees and of dependences between their statements."""

from __future__ import annotations

import islpy as isl

from loopwright.ir.schedule_tree import Band, Leaf
from loopwright.transform.band_dependences import (
    KnownDependences,
    among,
    carries,
    split_among,
    unordered,
)

PAIRS = isl.UnionMap(
    "{ S[i] -> S[i + 1]; S[i] -> T[i]; T[i] -> U[i]; U[i] -> T[i + 1]; V[] -> S[0]; U[i] -> U[i] }"
)


def test_pairs_of_several_groups_in_one_pass() -> None:
    groups = ({"S", "T"}, {"U"}, {"V"}, {"T", "U", "V"}, set[str]())
    found = split_among(PAIRS, groups)
    assert len(found) == len(groups)
    for group, pairs in zip(groups, found, strict=True):
        assert pairs.is_equal(among(PAIRS, group))
    assert found[0].is_equal(isl.UnionMap("{ S[i] -> S[i + 1]; S[i] -> T[i] }"))
    assert found[2].is_empty()


def test_all_pairs_stay_the_object_that_they_are() -> None:
    assert among(PAIRS, "STUV") is PAIRS


def test_known_dependences_are_asked_for_once() -> None:
    known = KnownDependences()
    text = "i[{ S[i] -> [(i)]; T[i] -> [(i)]; U[i] -> [(i)]; V[] -> [(0)] }]"
    band = Band("i", isl.MultiUnionPwAff(text), Leaf())
    other = Band("j", isl.MultiUnionPwAff(text), Leaf())
    inside = known.unordered(PAIRS, band)
    assert inside.is_equal(unordered(PAIRS, band))
    assert known.unordered(PAIRS, Band("k", band.partial, band)) is inside
    assert known.unordered(PAIRS, other) is not inside
    assert known.carries(PAIRS, band) == carries(PAIRS, band)
    assert not known.carries(inside, band)
    own = known.among(PAIRS, ("S", "T"))
    assert own.is_equal(among(PAIRS, ("S", "T")))
    assert known.among(PAIRS, ("T", "S")) is own
