"""The search that a policy leads, `tune="policy"`, and the bars of the policy."""

from __future__ import annotations

import hashlib
import json
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.tuning import policy_bars as policy_bars_module
from benchmarks.tuning.measured_costs import joined_samples, measure
from benchmarks.tuning.policy_bars import judged, tree_of

import loopwright as lw
from loopwright import options
from loopwright.cli import main
from loopwright.machines import load_machine
from loopwright.tuning.actions import act
from loopwright.tuning.loop_tree import LoopTree
from loopwright.tuning.network import new_network
from loopwright.tuning.policy import Policy, dump_policy
from loopwright.tuning.policy_inputs import INPUTS
from loopwright.tuning.policy_search import policy_search
from loopwright.tuning.policy_space import SPACES
from loopwright.tuning.searches import Budget, SearchRun
from loopwright.tuning.tensor_nests import matmul_tree
from loopwright.tuning.tree_cost import predict_seconds
from loopwright.tuning.tree_evaluator import code_key

MACHINE = load_machine("neoverse-n1")
TREE = matmul_tree(64, 96, 48)


def random_policy(seed: int = 0, space: str = "looptune") -> Policy:
    actions = SPACES[space].actions
    network = new_network((INPUTS, 16, len(actions)), np.random.default_rng(seed))
    return Policy(SPACES[space], network)


def by_model(tree: LoopTree) -> float:
    return predict_seconds(tree, MACHINE)


@pytest.mark.parametrize("space", SPACES)
def test_what_is_found_is_the_best_that_was_measured(space: str) -> None:
    policy = random_policy(1, space)
    asked: list[LoopTree] = []

    def evaluate(tree: LoopTree) -> float:
        asked.append(tree)
        return by_model(tree)

    run = SearchRun(evaluate, Budget(measurements=60))
    found = policy_search(run, TREE, policy, MACHINE)
    assert (found.measurements, found.ended_by) == (60, "budget")
    assert len({code_key(tree, MACHINE) for tree in asked}) == 60  # no code is measured twice
    assert found.seconds == min(map(by_model, asked))
    assert found.seconds <= by_model(policy.tree(TREE, MACHINE))
    tree = SPACES[space].start(TREE, MACHINE)
    for word in found.path:
        assert word in SPACES[space].actions
        tree = act(tree, word)
    assert tree.at(0) == found.tree.at(0)
    assert len(found.path) <= SPACES[space].steps


# -- calls ----------------------------------------------------------------------------------------


def test_calls_take_the_policy(tmp_path: Path) -> None:
    """What the policy proposes is measured against the construction; the result is the same."""
    a = np.random.default_rng(0).random((7, 96)).astype(np.float32)
    b = np.random.default_rng(1).random((96, 80)).astype(np.float32)
    with options.override(data_dir=str(tmp_path)):
        found = lw.einsum("ik,kj->ij", a, b, tune="policy", threads=1)
        assert np.allclose(found, a @ b, rtol=1e-5)
        again = lw.einsum("ik,kj->ij", a, b, tune="policy", threads=1)
        assert np.array_equal(found, again)
        plan = lw.tune("ik,kj->ij", a, b, by="policy", threads=1)
        assert isinstance(plan, lw.Plan)
        (tmp_path / "policy-general.npz").write_bytes(b"nothing")
        c = np.ones((9, 96), np.float32)
        with pytest.warns(UserWarning, match="is set aside .*; the shipped policy serves"):
            found = lw.einsum("ik,kj->ij", c, b, tune="policy", threads=1)
        assert np.allclose(found, c @ b, rtol=1e-5)


def test_functions_without_a_tree_keep_their_construction(tmp_path: Path) -> None:
    @lw.jit(tune="policy")
    def double(x: Any, y: Any) -> None:
        for i in range(x.shape[0]):
            y[i] = 2.0 * x[i]

    x, y = np.arange(20.0), np.zeros(20)
    with options.override(data_dir=str(tmp_path)):
        double(x, y)
    assert np.array_equal(y, 2 * x)
    assert not list(tmp_path.glob("*.jsonl"))


def test_a_training_that_has_ended_is_not_begun_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = dump_policy(random_policy())
    file = tmp_path / "policy.npz"
    file.write_bytes(policy)
    record = {"seed": 3, "is_interrupted": False, "sha256": hashlib.sha256(policy).hexdigest()}
    file.with_suffix(".json").write_text(json.dumps(record))
    words = ["tune", "--train", "--resume", "--space", "looptune", "--out", str(file)]
    assert main([*words, "--seed", "3"]) == 0
    assert "trained already" in capsys.readouterr().out
    assert file.read_bytes() == policy


# -- bars -----------------------------------------------------------------------------------------


def test_trees_are_judged_by_their_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = count()  # budgets are spent by looking at the clock, not by time
    monkeypatch.setitem(policy_bars_module._BUDGETS, "cpu", lambda: 0.02 * next(ticks))
    assert tree_of("64x96x48", "down split_4") == act(act(TREE, "down"), "split_4")
    file = tmp_path / "policy.npz"
    file.write_bytes(dump_policy(random_policy()))
    rows = [
        {"who": "greedy1", "budget": 1.0, "path": "split_4"},
        {"who": "greedy2", "budget": 1.0, "path": "down up split_4"},
        {"who": "rule", "budget": 0.0, "path": ""},
    ]
    found = judged("16x16x16", rows, {"p0": str(file)}, "cpu")
    assert set(found["times"]) == {
        "naive", "greedy1 1 s", "greedy2 1 s", "p0", "p0 0.6 s", "p0 1 s",
    }  # fmt: skip
    assert found["times"]["greedy1 1 s"] == found["times"]["greedy2 1 s"]  # the same code
    assert 0 < found["spent"]["p0"] < 0.6 <= found["spent"]["p0 0.6 s"] + 0.5


def test_samples_of_several_processes_are_joined(tmp_path: Path) -> None:
    files = []
    for seed in (0, 1):
        files.append(tmp_path / f"{seed}.npz")
        np.savez(files[-1], **measure(random_policy(), 1.0, seed).arrays())
    joined = joined_samples(files)
    assert len(joined) >= 2
    assert len({row.tobytes() for row in joined.rows}) == len(joined)
