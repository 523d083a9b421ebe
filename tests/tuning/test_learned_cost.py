"""Boosted trees and the learned correction: they fit, they are what was saved, bad files do not."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loopwright.diagnostics import UsageError
from loopwright.machines.load import load_machine
from loopwright.tuning.actions import act
from loopwright.tuning.boosted_trees import BoostedTrees, Boosting, fit_trees, predictions
from loopwright.tuning.learned_cost import LearnedCost, fit_cost, load_cost
from loopwright.tuning.tensor_nests import matmul_tree
from loopwright.tuning.tree_cost import predict_seconds
from loopwright.tuning.tree_features import TREE_COLUMNS, tree_row

N1 = load_machine("neoverse-n1")
SMALL = Boosting(trees=20, depth=3, rate=0.3)


def samples(count: int = 400, width: int = len(TREE_COLUMNS), seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(count, width)).astype(np.float32)


def test_several_sets_of_trees_predict_in_one_pass_what_each_predicts() -> None:
    rows = samples(300, 5)
    alike = tuple(fit_trees(rows, rows[:, k] ** 2, k, SMALL) for k in range(3))
    other = fit_trees(rows, rows[:, 0], 0, Boosting(trees=7, depth=2))
    for members in (alike, (*alike, other)):
        wanted = np.stack([member.predict(rows[:9]) for member in members])
        for _ in range(2):  # the second time the joined arrays are known
            np.testing.assert_array_equal(predictions(members, rows[:9]), wanted)


def test_constant_columns_and_targets_give_the_mean() -> None:
    rows = np.ones((50, 3), np.float32)
    found = fit_trees(rows, np.full(50, 2.5), how=SMALL)
    np.testing.assert_allclose(found.predict(rows), 2.5)


def model(machine: str = "neoverse-n1") -> LearnedCost:
    rows = samples(300)
    predicted = np.full(300, 1e-3)
    seconds = predicted * 2.0 ** (rows[:, 11] > 0)
    groups = [f"program {k // 20}" for k in range(300)]
    return fit_cost(rows, seconds, predicted, groups, machine, how=SMALL)


def test_the_correction_is_learned_and_its_error_told() -> None:
    found = model()
    rows = samples(100, seed=5)
    mean, spread = found.correction(rows)
    assert np.corrcoef(mean, rows[:, 11] > 0)[0, 1] > 0.95
    assert (spread >= 0).all()
    assert 0 < found.error < 0.3


def test_trees_are_corrected_on_the_machine_of_the_samples_only() -> None:
    tree = matmul_tree(64, 64, 64)
    closed = predict_seconds(tree, N1)
    mean, spread = model().correction(tree_row(tree, N1)[None])
    seconds, factor = model().predict(tree, N1)
    assert seconds == pytest.approx(closed * 2.0 ** mean[0])
    assert factor == pytest.approx(2.0 ** np.hypot(spread[0], model().error))
    np.testing.assert_allclose(model().seconds([tree], N1), [seconds])
    other = model("zen3")
    assert other.predict(tree, N1) == (closed, float("inf"))
    np.testing.assert_allclose(other.seconds([tree], N1), [closed])


def test_trees_are_priced_together_as_one_by_one() -> None:
    naive = matmul_tree(64, 96, 48)
    split = act(naive, "split_4")  # the same code as the naive tree
    swapped = act(act(split, "down"), "swap_down")
    parallel, other = act(split, "parallel"), matmul_tree(96, 64, 48)
    trees = [naive, split, swapped, other, parallel, act(naive, "parallel")]
    cost = model()
    for threads in (1, 4):
        together = cost.seconds(trees, N1, threads)
        alone = [float(cost.seconds([tree], N1, threads)[0]) for tree in trees]
        assert together.tolist() == alone
        assert together[0] == together[1] != together[2]


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    found = model()
    path = tmp_path / "cost.npz"
    found.save(path)
    again = load_cost(path)
    assert (again.machine, again.error) == (found.machine, found.error)
    rows = samples(20)
    np.testing.assert_array_equal(again.correction(rows), found.correction(rows))


def _changed(**arrays: Any) -> bytes:
    """The file of a model with some arrays replaced; None takes one out."""
    with np.load(io.BytesIO(model().to_bytes())) as found:
        data = {name: found[name] for name in found.files}
    for name, array in arrays.items():
        key = name.replace("_", ".")
        if array is None:
            del data[key]
        else:
            data[key] = array
    memory = io.BytesIO()
    np.savez(memory, **data)
    return memory.getvalue()


def _members() -> BoostedTrees:
    return model().members[1]


BAD = {
    "nan leaves": lambda: _changed(leaves_1=_members().leaves * np.float32("nan")),
    "nan limits": lambda: _changed(limits_1=_members().limits * np.float32("nan")),
    "infinite base": lambda: _changed(base_0=np.array(np.inf)),
    "huge leaves": lambda: _changed(leaves_1=_members().leaves + np.float32(1e6)),
    "other shape": lambda: _changed(limits_1=_members().limits[:, :-1]),
    "no power of two": lambda: _changed(leaves_1=_members().leaves[:, :-1]),
    "unknown column": lambda: _changed(columns_1=_members().columns + 1000),
    "negative column": lambda: _changed(columns_1=_members().columns - 1000),
    "text": lambda: _changed(columns_1=_members().columns.astype(str)),
    "objects": lambda: _changed(columns_1=np.array([{}], dtype=object)),
    "missing": lambda: _changed(leaves_2=None),
    "another format": lambda: _changed(format=np.array(99)),
    "other names": lambda: _changed(columns=np.frombuffer(b"one\ntwo", np.uint8)),
    "no error": lambda: _changed(error=np.array(np.nan)),
    "half a file": lambda: model().to_bytes()[:500],
    "no file": lambda: b"",
    "too long": lambda: bytes(2 << 20),
}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="not a learned cost model"):
        load_cost(BAD[name]())
