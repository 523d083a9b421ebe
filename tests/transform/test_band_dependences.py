"""Parts of trees and of dependences between their statements."""

from __future__ import annotations

import islpy as isl

from loopwright.transform.band_dependences import among, split_among

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
