"""Training for machines whose trees were measured elsewhere: their learned costs are given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loopwright.cli import main
from loopwright.ir.machine import Machine
from loopwright.machines import load_machine
from loopwright.machines.host import host
from loopwright.tuning.boosted_trees import Boosting
from loopwright.tuning.dqn import LearnerSettings
from loopwright.tuning.learned_cost import LearnedCost, fit_cost
from loopwright.tuning.policy import Policy, dump_policy, load_policy, read_policy
from loopwright.tuning.policy_space import SPACES
from loopwright.tuning.tensor_nests import matmul_tree
from loopwright.tuning.training import Training, TrainingSettings
from loopwright.tuning.tree_cost import predict_seconds
from loopwright.tuning.tree_features import TREE_COLUMNS

N1, WIDE = load_machine("neoverse-n1"), load_machine("sapphirerapids")
LOOPTUNE = SPACES["looptune"]
TREES = tuple(matmul_tree(*s) for s in ((64, 64, 64), (64, 80, 64), (96, 64, 64)))
SMALL = TrainingSettings(
    rounds=2,
    samples=0,
    episodes=4,
    updates=2,
    judged=2,
    every=2,
    learner=LearnerSettings(hidden=(8,), batch=8, capacity=200, warm=10),
)


def doubling(machine: str) -> LearnedCost:
    """A cost that says twice the closed form."""
    rows = np.random.default_rng(0).normal(size=(40, len(TREE_COLUMNS))).astype(np.float32)
    groups = [str(k % 4) for k in range(40)]
    how = Boosting(trees=2, depth=1)
    return fit_cost(rows, np.full(40, 2.0), np.full(40, 1.0), groups, machine, how=how)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loopwright.tuning.policy_space.training_trees", lambda: TREES)


def test_other_machines_are_priced_by_the_cost_that_is_given() -> None:
    given = doubling("sapphirerapids")
    training = Training(LOOPTUNE, N1, SMALL, others=[WIDE], costs=[given, doubling(N1.llvm_cpu)])
    policy = load_policy(dump_policy(training.run()))
    assert [cost.machine for cost in policy.costs] == ["sapphirerapids"]  # its own it measures
    assert training.record()["given_costs"] == ["sapphirerapids"]
    for machine, factor in ((WIDE, 2), (N1, 1)):
        closed = predict_seconds(TREES[0], machine)
        assert policy.cost(machine)(TREES[0]) == pytest.approx(factor * closed, rel=1e-5)


def test_costs_of_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = Training(LOOPTUNE, N1, SMALL).run().network
    file, out = tmp_path / "other.npz", tmp_path / "new.npz"
    # A processor that the data of another machine describe; not that of this host.
    name, processor = "sapphirerapids", "emeraldrapids"
    if host().name == name:
        name, processor = "neoverse-n1", "cortex-a76"
    file.write_bytes(dump_policy(Policy(LOOPTUNE, network, (doubling(processor),))))
    trained_for: list[Machine] = []

    class Recording(Training):
        def __init__(self, *given: Any, others: Sequence[Machine], **options: Any) -> None:
            trained_for.extend(others)
            super().__init__(*given, others=others, **options)

    monkeypatch.setattr("loopwright.cli.train_policy.TrainingSettings", lambda **_: SMALL)
    monkeypatch.setattr("loopwright.cli.train_policy.Training", Recording)
    words = ["tune", "--train", "--space", "looptune", "--machines", name, "--out", str(out)]
    assert main([*words, "--costs", str(file)]) == 0
    assert [cost.machine for cost in read_policy(out).costs] == [processor]
    assert [(m.name, m.llvm_cpu, m.frequency_hz) for m in trained_for] == [(name, processor, None)]
    trained_for.clear()
    assert main(words) == 0
    assert trained_for == [load_machine(name)]
