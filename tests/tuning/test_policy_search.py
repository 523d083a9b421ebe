"""The search that a policy leads, `tune="policy"`, and the bars of the policy."""

from __future__ import annotations

import gzip
import hashlib
import json
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.tuning import policy_bars as policy_bars_module
from benchmarks.tuning.measured_costs import joined_samples, measure, ranked
from benchmarks.tuning.policy_bars import bars, judged, tree_of
from benchmarks.tuning.policy_bars import main as policy_bars

import loopwright as lw
from loopwright import options
from loopwright.cli import main
from loopwright.machines import load_machine
from loopwright.tuning.actions import act
from loopwright.tuning.loop_tree import LoopTree
from loopwright.tuning.loop_tree_text import tree_text
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


def test_neighbours_find_what_the_model_ranks_low() -> None:
    """By the clock, trees are the faster the more loops they have, which no model says."""
    policy = random_policy(2)
    few = SearchRun(lambda tree: 1 / tree.count, Budget(measurements=9))
    many = SearchRun(lambda tree: 1 / tree.count, Budget(measurements=80))
    first = policy_search(few, TREE, policy, MACHINE)
    second = policy_search(many, TREE, policy, MACHINE)
    assert second.tree.count > first.tree.count
    assert second.tree.count <= 10


def test_trees_without_a_time_are_passed_over() -> None:
    calls = 0

    def evaluate(tree: LoopTree) -> float:
        nonlocal calls
        calls += 1
        if calls % 3 == 0:
            return float("nan")
        if calls % 7 == 0:
            raise RuntimeError("lost")
        return by_model(tree)

    run = SearchRun(evaluate, Budget(measurements=40))
    found = policy_search(run, TREE, random_policy(), MACHINE)
    assert found.failures >= 40 // 3
    assert np.isfinite(found.seconds)
    gone = SearchRun(lambda tree: float("inf"), Budget(measurements=40))
    nothing = policy_search(gone, TREE, random_policy(), MACHINE)
    assert nothing.seconds == float("inf")
    assert nothing.tree == TREE


def test_a_small_space_ends() -> None:
    tree = matmul_tree(2, 3, 2)
    found = policy_search(SearchRun(by_model, Budget()), tree, random_policy(), MACHINE)
    assert found.ended_by == "space"


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


def test_bars_count_shapes() -> None:
    times = [
        {"naive": 4.0, "random 60 s": 1.0, "greedy1 1 s": 1.5, "p0": 1.01, "p0 0.6 s": 1.0},
        {"naive": 4.0, "random 60 s": 1.0, "greedy1 1 s": 1.5, "p0": 2.0, "p0 0.6 s": 1.0},
    ]
    spent = {"p0": 0.004, "p0 0.6 s": 0.6, "p0 1 s": 1.0}
    found = [{"times": each | {"p0 1 s": 1.5}, "spent": spent} for each in times]
    alone, short, equal = bars(found, ["p0"]).splitlines()
    assert "within 2% of the best 60 s search on 50% of 2 (0.704 of it, least 0.500)" in alone
    assert "above the best 1 s search on 50% of 2" in alone
    assert "4.0 ms, at most 4.0" in alone
    assert "within 2% of the best 60 s search on 100% of 2" in short
    assert "above the best 1 s search on 0% of 2" in equal


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


def test_searches_go_on_where_they_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.jsonl"
    words = ["search", str(file), "--count", "1", "--seconds", "0.01"]
    assert (
        policy_bars(
            [*words, "--minutes", "0", "--searches", "greedy1", "random"],
        )
        == 0
    )
    assert file.read_text() == ""  # nothing would be over in time
    assert capsys.readouterr().out == "2 searches are left\n"
    assert policy_bars([*words, "--searches", "greedy1"]) == 0
    (first,) = map(json.loads, file.read_text().splitlines())
    assert policy_bars([*words, "--searches", "greedy1", "random", "--jobs", "2"]) == 0
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert rows[0] == first
    assert [row["who"] for row in rows] == ["greedy1", "random"]
    tree_of(rows[1]["shape"], rows[1]["path"])  # legal


def test_costs_are_ranked_by_judged_trees(tmp_path: Path) -> None:
    """A policy without a cost ranks by the closed form; times that are its own are all right."""
    rows: list[dict[str, Any]] = []
    times = {}
    base = {"set": "looptune", "shape": "64x96x48", "machine": MACHINE.name}
    for who, words in (("naive", []), ("beam", ["down", "swap_down"]), ("same", ["split_4"])):
        tree = TREE
        for word in words:
            tree = act(tree, word)
        rows.append({"kind": "attempt", "who": who, "budget": 0.0, "tree": tree_text(tree), **base})
        times[who] = by_model(tree)
    file = tmp_path / "rows.jsonl.gz"

    def told(seconds: dict[str, float]) -> list[str]:
        judged_row = {"kind": "judged", "times": seconds, **base}
        lines = "\n".join(map(json.dumps, [*rows, judged_row]))
        file.write_bytes(gzip.compress(lines.encode()))
        return ranked(file, random_policy()).splitlines()

    head, *found = told(times)
    assert head == "neoverse-n1: 2 trees in 1 groups"  # `same` has the code of the naive tree
    right = "pairwise 1.000, regret 0.0% (worst 0%)"
    assert found == [f"closed form: {right}", f"learned: {right}"]
    wrong = told({who: 1 / seconds for who, seconds in times.items()})[1]
    assert wrong.startswith("closed form: pairwise 0.000, regret ")


def test_samples_of_several_processes_are_joined(tmp_path: Path) -> None:
    files = []
    for seed in (0, 1):
        files.append(tmp_path / f"{seed}.npz")
        np.savez(files[-1], **measure(random_policy(), 1.0, seed).arrays())
    joined = joined_samples(files)
    assert len(joined) >= 2
    assert len({row.tobytes() for row in joined.rows}) == len(joined)
