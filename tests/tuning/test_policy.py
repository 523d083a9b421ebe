"""The learned policy: network, replay, learner, actors, training, files."""

from __future__ import annotations

import io
import json
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from drawn import in_all
from loopwright import options
from loopwright.calls.einsum import einsum_task
from loopwright.cli.train_policy import text_plot
from loopwright.diagnostics import UsageError
from loopwright.machines import load_machine
from loopwright.tuning.actions import LOOPTUNE_ACTIONS
from loopwright.tuning.actors import price_by
from loopwright.tuning.dqn import Learner, LearnerSettings
from loopwright.tuning.environment import after_random_actions
from loopwright.tuning.learned_cost import CostSamples, LearnedCost
from loopwright.tuning.loop_tree import LoopTree
from loopwright.tuning.network import gradients, new_network, outputs
from loopwright.tuning.policy import MOST_BYTES, Policy, dump_policy, load_policy, read_policy
from loopwright.tuning.policy_files import SHIPPED, shipped_policy
from loopwright.tuning.policy_inputs import INPUTS, policy_inputs
from loopwright.tuning.policy_plan import policy_plan, task_tree
from loopwright.tuning.policy_space import SPACES, space_named
from loopwright.tuning.replay import Transitions
from loopwright.tuning.tensor_nests import matmul_tree
from loopwright.tuning.training import Training, TrainingProgress, TrainingSettings
from loopwright.tuning.training_trees import looptune_shapes, mixed_trees
from loopwright.tuning.tree_construction import constructed_tree
from loopwright.tuning.tree_cost import predict_seconds
from loopwright.tuning.tree_features import TREE_COLUMNS, tree_row
from loopwright.tuning.tree_observation import OBSERVED

MACHINE = load_machine("neoverse-n1")
LOOPTUNE = SPACES["looptune"]
TREE = matmul_tree(64, 96, 48)


def random_network(*sizes: int, seed: int = 0) -> tuple[Any, ...]:
    return new_network(sizes, np.random.default_rng(seed))


# -- network and replay ---------------------------------------------------------------------------


def test_gradients_are_those_of_differences() -> None:
    network = tuple(x.astype(np.float64) for x in random_network(5, 7, 6, 3, seed=1))
    random = np.random.default_rng(2)
    inputs, slopes = random.standard_normal((4, 5)), random.standard_normal((4, 3))
    found = gradients(network, inputs, slopes)
    for at, array in enumerate(network):
        for place in np.ndindex(*array.shape):
            moved = [x.copy() for x in network]
            moved[at][place] += 1e-6
            change = ((outputs(tuple(moved), inputs) - outputs(network, inputs)) * slopes).sum()
            assert change / 1e-6 == pytest.approx(found[at][place], abs=1e-4)


def rows(returns: list[float]) -> Transitions:
    count = len(returns)
    return Transitions(
        np.ones((count, 2), np.float16),
        np.zeros(count, np.int64),
        np.array(returns, np.float32),
        np.ones((count, 2), np.float16),
        np.ones((count, 3), bool),
        np.zeros(count, np.float32),
    )


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("alpha", "double"), [(0.6, True), (0.0, True), (0.6, False)])
def test_the_learner_finds_the_values_of_a_chain(alpha: float, double: bool) -> None:
    """Five places; right leads on and reaches -1 at the end, left ends at -3."""
    settings = LearnerSettings(
        hidden=(16,), rate=1e-2, batch=32, alpha=alpha, double=double, mean=0.1, warm=1
    )
    learner = Learner(2, settings, seed=1)
    seen = np.zeros((5, OBSERVED), np.float16)
    seen[np.arange(5), np.arange(5)] = 1
    for place in range(5):
        is_last = place == 4
        learner.add(
            Transitions(
                seen[[place, place]],
                np.array([0, 1]),
                np.array([-3.0, -1.0 if is_last else -9.0], np.float32),
                seen[[place, min(place + 1, 4)]],
                np.ones((2, 2), bool),
                np.array([np.inf, np.inf if is_last else 0.1], np.float32),
            )
        )
    for part in range(10):
        learner.learn(60, part / 10)
    values = outputs(learner.steady, policy_inputs(seen.astype(np.float32)))
    assert values[:, 1] == pytest.approx(-1 - 0.1 * np.arange(4, -1, -1), abs=0.06)
    assert values[:, 0] == pytest.approx(-3, abs=0.06)


# -- what measurements teach ----------------------------------------------------------------------


def test_the_correction_learns_what_the_closed_form_leaves() -> None:
    """The worse a tree is, the more its prediction is off."""
    random, samples = Random(0), CostSamples(MACHINE)
    rules = LOOPTUNE.rules(lambda tree: 1.0, MACHINE)
    column = TREE_COLUMNS.index("log2 predicted over roofline")

    def measured(tree: LoopTree) -> float:
        octaves = tree_row(tree, MACHINE)[column] / 3
        return predict_seconds(tree, MACHINE) * float(2.0 ** min(octaves, 1.5))

    programs = [matmul_tree(64, 16 * n, 48) for n in range(4, 12)]
    trees = [after_random_actions(random.choice(programs), rules, random, 12) for _ in range(400)]
    for tree in trees:
        samples.add(tree, measured(tree), str(tree.arrays))
        samples.add(tree, float("nan"), "0")
    assert 50 < len(samples) < len(trees)
    cost = samples.fit()
    assert cost.error < 0.5 * samples.spread
    (found,) = price_by(cost, MACHINE)([TREE])
    assert found == pytest.approx(measured(TREE), rel=0.25)
    (plain,) = price_by(cost, load_machine("zen3"))([TREE])
    assert plain == predict_seconds(TREE, load_machine("zen3"))
    again = CostSamples(MACHINE)
    again.restore(samples.arrays())
    assert again.fit().to_bytes() == cost.to_bytes()
    with pytest.raises(ValueError, match="other shapes"):
        again.restore(samples.arrays() | {"times": np.zeros((2, 3))})


# -- actors ---------------------------------------------------------------------------------------


# -- policies -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SPACES)
def test_paths_are_legal_and_end(name: str) -> None:
    space = space_named(name)
    for seed in range(4):
        policy = Policy(space, random_network(INPUTS, 16, len(space.actions), seed=seed))
        path = policy.path(TREE, MACHINE)
        assert path[0] == space.start(TREE, MACHINE)
        assert len(path) == len(set(path)) <= space.steps + 1
        assert all(tree.count <= space.most_loops for tree in path)


def test_the_split_is_the_one_that_is_told() -> None:
    train, tested = looptune_shapes()
    assert (len(train), len(tested)) == (1757, 440)
    assert not set(train) & set(tested)
    assert tested[-1] == looptune_shapes()[1][-1]
    assert {n for shape in train for n in shape} == set(range(64, 257, 16))
    assert len(mixed_trees(20)) == 20


# -- files ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def policy() -> Policy:
    network = random_network(INPUTS, 16, len(LOOPTUNE_ACTIONS))
    samples, random = CostSamples(MACHINE), Random(0)
    rules = LOOPTUNE.rules(lambda tree: 1.0, MACHINE)
    for number in range(40):
        tree = after_random_actions(TREE, rules, random, 8)
        samples.add(tree, 2 * predict_seconds(tree, MACHINE), str(number))
    return Policy(LOOPTUNE, network, (samples.fit(),))


def altered(data: bytes, **changed: Any) -> bytes:
    with np.load(io.BytesIO(data)) as file:
        arrays = {name: file[name] for name in file.files} | changed
    made = io.BytesIO()
    np.savez(made, **{name: x for name, x in arrays.items() if x is not None})
    return made.getvalue()


def head(**changed: Any) -> Any:
    given = {"schema": 2, "space": "looptune", "actions": list(LOOPTUNE_ACTIONS)} | changed
    return np.frombuffer(json.dumps(given).encode(), np.uint8)


def test_policies_are_read_as_they_were_written(policy: Policy, tmp_path: Path) -> None:
    path = tmp_path / "policy.npz"
    path.write_bytes(dump_policy(policy))
    found = read_policy(path)
    assert found.space is policy.space
    for one, other in zip(found.network, policy.network, strict=True):
        assert np.array_equal(one, other)
    assert [cost.to_bytes() for cost in found.costs] == [policy.costs[0].to_bytes()]
    assert isinstance(found.costs[0], LearnedCost)
    assert found.cost(MACHINE)(TREE) == pytest.approx(2 * predict_seconds(TREE, MACHINE), rel=0.01)
    with pytest.raises(UsageError, match="is not the policy it should be"):
        read_policy(path, sha256="0" * 64)
    with pytest.raises(UsageError, match="cannot read"):
        read_policy(tmp_path / "none.npz")


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"q0": np.full((INPUTS, 16), np.nan, np.float32)}, "not finite"),
        ({"q0": np.zeros((INPUTS - 1, 16), np.float32)}, "shape"),
        ({"q0": np.zeros((INPUTS, 16))}, "float64"),
        ({"q1": np.zeros(15, np.float32)}, "shape"),
        ({"q3": np.zeros(6, np.float32), "q2": np.zeros((16, 6), np.float32)}, "6 outputs"),
        ({"q3": None}, "3 arrays"),
        ({"extra": np.zeros(3)}, "unknown arrays extra"),
        ({"cost0": np.zeros(3)}, "cost0"),
        ({"cost0": np.zeros(3, np.uint8)}, "not a learned cost"),
        ({"head": None}, "head"),
        ({"head": head(schema=1)}, "schema 1"),
        ({"head": head(actions=["up"])}, "actions of another version"),
        ({"head": head(space="other")}, "unknown space"),
        ({"head": np.frombuffer(b"{", np.uint8)}, "Expecting"),
        ({"q9": np.zeros(1 << 20, np.float32)}, "1 MiB|more than 2 MiB|bytes"),
    ],
)
def test_what_is_no_policy_is_refused(policy: Policy, changed: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        load_policy(altered(dump_policy(policy), **changed))


def test_objects_and_damaged_files_are_refused(policy: Policy) -> None:
    data = dump_policy(policy)
    pickled = altered(data, q0=np.array([{}], object))
    for wrong in (pickled, data[:-40], b"", b"PK", b"x" * (MOST_BYTES + 1)):
        with pytest.raises(UsageError, match="this is no policy"):
            load_policy(wrong)
    packed = io.BytesIO()
    np.savez_compressed(packed, head=head(), q0=np.zeros((1 << 20, 4), np.float32))
    with pytest.raises(UsageError, match="more than 2 MiB"):
        load_policy(packed.getvalue())


# -- training -------------------------------------------------------------------------------------

SMALL = TrainingSettings(
    rounds=4,
    samples=0,
    episodes=4,
    actors=1,
    updates=4,
    judged=2,
    every=2,
    bold_rounds=2,
    learner=LearnerSettings(hidden=(16,), batch=16, capacity=500, warm=20),
)


class Few:
    """The space with three trees: what is done is the same, sooner."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        trees = tuple(matmul_tree(*s) for s in ((64, 64, 64), (64, 80, 64), (96, 64, 64)))
        monkeypatch.setattr("loopwright.tuning.policy_space.training_trees", lambda: trees)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> Few:
    return Few(monkeypatch)


def test_measured_trees_correct_the_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[LoopTree] = []

    def measure(tree: LoopTree) -> float:
        asked.append(tree)
        return float("nan") if len(asked) % 5 == 0 else 2 * predict_seconds(tree, MACHINE)

    monkeypatch.setattr("loopwright.tuning.training._LEAST_SAMPLES", 8)
    settings = replace(SMALL, samples=50)
    training = Training(LOOPTUNE, MACHINE, settings, measure=measure)
    policy = training.run()
    assert policy.costs[0].machine == MACHINE.llvm_cpu
    assert 50 <= len(asked) < 62
    counts = [count for count, _, _ in training.fits]
    assert 8 <= counts[0] <= counts[-1] < len(asked)
    assert training.has_revised


def test_what_was_interrupted_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "policy.checkpoint"

    def interrupt(progress: TrainingProgress) -> None:
        if progress.rounds == 2:
            raise KeyboardInterrupt

    first = Training(LOOPTUNE, MACHINE, SMALL, report=interrupt, checkpoint=path)
    kept = first.run()
    assert first.is_interrupted
    assert first.best is not None
    assert kept.network is first.best
    second = Training(LOOPTUNE, MACHINE, SMALL, checkpoint=path)
    assert second.resume()
    assert second.history == first.history
    second.run()
    assert len(second.history) == 4
    assert not second.is_interrupted
    assert second.seconds > first.elapsed
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_checkpoints_of_others_and_damaged_ones_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "policy.checkpoint"
    Training(LOOPTUNE, MACHINE, replace(SMALL, rounds=1), checkpoint=path).run()
    with pytest.raises(UsageError, match="seed 0"):
        Training(LOOPTUNE, MACHINE, SMALL, seed=1, checkpoint=path).resume()
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(UsageError, match="cannot go on from"):
        Training(LOOPTUNE, MACHINE, SMALL, checkpoint=path).resume()
    assert not Training(LOOPTUNE, MACHINE, SMALL, checkpoint=tmp_path / "none").resume()


def test_a_checkpoint_that_cannot_be_written_costs_itself_only(tmp_path: Path) -> None:
    lost = Training(LOOPTUNE, MACHINE, SMALL, checkpoint=tmp_path / "gone" / "checkpoint")
    assert dump_policy(lost.run()) == dump_policy(Training(LOOPTUNE, MACHINE, SMALL).run())


class Lost(Executor):
    """An executor whose worker is gone."""

    def submit(self, *args: Any, **named: Any) -> Future[Any]:
        found: Future[Any] = Future()
        found.set_exception(BrokenExecutor("a worker is gone"))
        return found


def test_a_lost_worker_changes_nothing() -> None:
    alone = dump_policy(Training(LOOPTUNE, MACHINE, SMALL).run())
    assert dump_policy(Training(LOOPTUNE, MACHINE, SMALL, executor=Lost()).run()) == alone
    with ThreadPoolExecutor(2) as pool:
        assert dump_policy(Training(LOOPTUNE, MACHINE, SMALL, executor=pool).run()) == alone


def test_the_plot_of_returns() -> None:
    assert text_plot([]) == ""
    assert text_plot([0, 1, 2]) == "+0.00 ▁▄█ +2.00"
    assert text_plot([1.0] * 100, 10) == "+1.00 ▁▁▁▁▁▁▁▁▁▁ +1.00"


# -- plans ----------------------------------------------------------------------------------------


def product_task(m: int, n: int, k: int) -> Any:
    a, b = np.ones((m, k), np.float32), np.ones((k, n), np.float32)
    return einsum_task("ik,kj->ij", a, b, threads=1)


def policy_of(word: str) -> Policy:
    """A policy of the general space that likes one action above all, then to stop."""
    space = SPACES["general"]
    values = np.full(len(space.actions), -9, np.float32)
    values[space.actions.index("stop")] = 1
    values[space.actions.index(word)] = 2
    return Policy(space, (np.zeros((INPUTS, len(values)), np.float32), values))


def test_the_block_of_a_tree_becomes_the_tile_of_a_plan() -> None:
    task = product_task(5, 512, 1024)
    tree = task_tree(task)
    assert tree is not None
    assert dict(tree.nests[0].statement.dims) == {"m": 5, "n": 512, "k": 1024}
    (tile,) = policy_plan(task, policy_of("stop"), 1.0).whole_contract.variants  # type: ignore[union-attr]
    rows = constructed_tree(tree, task.machine).nests[0].loops[-2:]
    assert (tile.rows, tile.columns) == tuple(loop.size for loop in rows)
    assert policy_plan(task, policy_of("stop"), 1e9) == task.construction()


def test_tasks_without_trees_keep_their_construction() -> None:
    a = np.ones((8, 8), np.int32)
    task = einsum_task("ik,kj->ij", a, a, threads=1)
    assert task_tree(task) is None
    assert policy_plan(task, policy_of("stop")) == task.construction()


def test_tune_by_the_policy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    a = np.ones((67, 53), np.float32)
    with options.override(data_dir=str(tmp_path)):
        (tmp_path / "policy-general.npz").write_bytes(dump_policy(policy_of("stop")))
        found = lw.tune("ik,jk->ij", a, a, by="policy", threads=1)
        assert found == lw.tune("ik,jk->ij", a, a, threads=1)


def test_a_damaged_policy_of_the_user_is_told_and_the_shipped_one_serves(
    policy: Policy, tmp_path: Path
) -> None:
    a = np.ones((67, 53), np.float32)
    nans = altered(dump_policy(policy), q0=np.full((INPUTS, 16), np.nan, np.float32))
    with options.override(data_dir=str(tmp_path)):
        shipped = lw.tune("ik,jk->ij", a, a, by="policy", threads=1)
        cases = {
            b"nothing": "no archive of arrays",
            dump_policy(policy)[:-40]: "without the array head|zip",
            nans: "not finite",
            altered(dump_policy(policy), q0=np.zeros((3, 16), np.float32)): "shape",
            altered(dump_policy(policy), head=head(schema=1)): "schema 1",
            dump_policy(policy): "it is for the space 'looptune'",
        }
        for number, (data, said) in enumerate(cases.items()):
            (tmp_path / "policy-general.npz").write_bytes(data)
            with pytest.warns(UserWarning, match=rf"policy-general.npz is set aside \(.*({said})"):
                found = lw.tune("ik,jk->ij", a, a, by="policy", threads=1)
            assert found == shipped
            if 0 < number < len(cases) - 1 and not in_all():
                continue  # einsum takes the policy as tune does
            # Of a size of its own: a record of an earlier call would be taken without a policy.
            b = np.ones((68 + number, 53), np.float32)
            with pytest.warns(UserWarning, match="the shipped policy serves"):
                result = lw.einsum("ik,jk->ij", a, b, tune="policy", threads=1)
            assert np.array_equal(result, a @ b.T)
            assert (tmp_path / "policy-general.npz").read_bytes() == data


def test_shipped_policies_are_those_that_are_pinned() -> None:
    for name in SHIPPED:
        policy = shipped_policy(name)
        assert policy.space.name == name
        path = policy.path(TREE, MACHINE)
        cost = policy.cost(MACHINE)
        assert cost(policy.tree(TREE, MACHINE)) == min(map(cost, path))
    assert set(SHIPPED) == set(SPACES)
    policy, tree = shipped_policy("looptune"), matmul_tree(160, 256, 96)
    cost = policy.cost(MACHINE)
    assert cost(tree) > 1.5 * cost(policy.tree(tree, MACHINE))
    assert MACHINE.llvm_cpu in {each.machine for each in policy.costs}
    with pytest.raises(UsageError, match="no policy of space"):
        shipped_policy("none")
