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
from loopwright import options
from loopwright.calls.einsum import einsum_task
from loopwright.cli.train_policy import text_plot
from loopwright.diagnostics import UsageError
from loopwright.machines import load_machine
from loopwright.tuning.actions import LOOPTUNE_ACTIONS
from loopwright.tuning.actors import ActorJob, collect, n_step
from loopwright.tuning.correction import NUMBERS, CorrectedCost, Samples, fit_correction
from loopwright.tuning.dqn import Learner, LearnerSettings
from loopwright.tuning.environment import after_random_actions
from loopwright.tuning.loop_tree import LoopTree
from loopwright.tuning.network import Adam, gradients, new_network, outputs
from loopwright.tuning.policy import MOST_BYTES, Policy, dump_policy, load_policy, read_policy
from loopwright.tuning.policy_files import SHIPPED, shipped_policy
from loopwright.tuning.policy_plan import policy_plan, task_tree
from loopwright.tuning.policy_space import SPACES, space_named
from loopwright.tuning.replay import Replay, SumTree, Transitions
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


def test_adam_fits_a_line() -> None:
    network, adam = random_network(1, 16, 1), Adam(1e-2)
    inputs = np.linspace(-1, 1, 32, dtype=np.float32)[:, None]
    for _ in range(300):
        error = outputs(network, inputs) - 2 * inputs
        network = adam.step(network, gradients(network, inputs, error / 32))
    assert np.abs(outputs(network, inputs) - 2 * inputs).max() < 0.1


def test_places_are_drawn_in_proportion() -> None:
    tree = SumTree(6)
    tree.change(np.arange(6), np.array([1.0, 0.0, 2.0, 3.0, 0.0, 4.0]))
    drawn = tree.draw((np.arange(1000) + 0.5) / 1000)
    assert np.bincount(drawn, minlength=6).tolist() == [100, 0, 200, 300, 0, 400]
    tree.change(np.array([5, 0]), np.array([0.0, 5.0]))
    assert tree.total == 10
    assert set(tree.draw(np.array([0.0, 0.999999, 1.0]))) == {0, 3}


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


def test_replay_keeps_the_latest_and_prefers_errors() -> None:
    replay = Replay(4, 2, 3, alpha=1.0)
    replay.add(rows([1, 2, 3]))
    replay.add(rows([4, 5]))
    random = np.random.default_rng(0)
    places, drawn, weights = replay.draw(64, 1.0, random)
    assert set(drawn.returns) == {2, 3, 4, 5}
    assert weights == pytest.approx(1)
    replay.tell(np.array([0, 1, 2, 3]), np.array([0.1, 0.1, 0.1, 10.0], np.float32))
    places, drawn, weights = replay.draw(1000, 1.0, random)
    assert 950 < (places == 3).sum() < 990
    assert weights[places == 3].max() < 0.02 < weights[places != 3].min()


def test_alpha_0_draws_all_alike() -> None:
    replay = Replay(4, 2, 3, alpha=0.0)
    replay.add(rows([1, 2, 3, 4]))
    replay.tell(np.array([0, 1, 2, 3]), np.array([0, 0, 0, 9], np.float32))
    places, _, _ = replay.draw(400, 1.0, np.random.default_rng(0))
    assert np.bincount(places).tolist() == [100] * 4


def test_returns_of_several_steps() -> None:
    walk = [
        (np.full(2, at, np.float32), np.array([at % 2 == 0, True]), at % 2, float(at + 1))
        for at in range(4)
    ]
    found = n_step(walk, 3, 0.5)
    assert found.returns.tolist() == [1 + 1 + 0.75, 2 + 1.5 + 1, 3 + 2, 4]
    assert found.discounts.tolist() == [0.125, 0, 0, 0]
    assert found.after[0].tolist() == [3, 3]
    assert found.masks[0].tolist() == [False, True]
    assert found.actions.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(("alpha", "double"), [(0.6, True), (0.0, True), (0.6, False)])
def test_the_learner_finds_the_values_of_a_chain(alpha: float, double: bool) -> None:
    """Five places; right leads on and pays 1 at the end, left ends with 0.1."""
    settings = LearnerSettings(
        hidden=(16,), rate=1e-2, discount=0.9, batch=32, alpha=alpha, double=double, sync=20, warm=1
    )
    learner = Learner(5, 2, settings, seed=1)
    seen = np.eye(5, dtype=np.float16)
    for place in range(5):
        is_last = place == 4
        learner.add(
            Transitions(
                seen[[place, place]],
                np.array([0, 1]),
                np.array([0.1, 1.0 if is_last else 0.0], np.float32),
                seen[[place, min(place + 1, 4)]],
                np.ones((2, 2), bool),
                np.array([0, 0 if is_last else 0.9], np.float32),
            )
        )
    for part in range(10):
        learner.learn(60, part / 10)
    values = outputs(learner.network, np.eye(5, dtype=np.float32))
    assert values[:, 1] == pytest.approx(0.9 ** np.arange(4, -1, -1), abs=0.05)
    assert values[:, 0] == pytest.approx(0.1, abs=0.05)


# -- the correction -------------------------------------------------------------------------------


def test_the_correction_learns_what_the_closed_form_leaves() -> None:
    """The worse a tree is, the more its prediction is off."""
    random, samples = Random(0), Samples()
    rules = LOOPTUNE.rules(lambda tree: 1.0, MACHINE)
    column = TREE_COLUMNS.index("log2 predicted over roofline")

    def measured(tree: LoopTree) -> float:
        octaves = tree_row(tree, MACHINE)[column] / 3
        return predict_seconds(tree, MACHINE) * float(2.0 ** min(octaves, 1.5))

    trees = [after_random_actions(TREE, rules, random, 12).at(0) for _ in range(200)]
    for tree in trees:
        samples.add(tree, predict_seconds(tree, MACHINE), measured(tree), MACHINE)
        samples.add(tree, predict_seconds(tree, MACHINE), float("nan"), MACHINE)
    assert len(samples) == len(samples.keys) < len(trees)
    network, (before, after) = fit_correction(samples)
    assert after < 0.5 * before
    cost = CorrectedCost(lambda tree: predict_seconds(tree, MACHINE), network, MACHINE)
    assert cost(TREE) == pytest.approx(measured(TREE), rel=0.25)


# -- actors ---------------------------------------------------------------------------------------


def job(seed: int = 0, **given: Any) -> ActorJob:
    network = random_network(OBSERVED, 8, len(LOOPTUNE_ACTIONS))
    return replace(
        ActorJob("looptune", MACHINE, network, None, seed, 4, (0, 2), exploration=0.5), **given
    )


def test_a_job_gives_the_same_wherever_it_runs() -> None:
    here = collect(job(3))
    with ThreadPoolExecutor(1) as pool:
        there = pool.submit(collect, job(3)).result()
    assert np.array_equal(here.transitions.seen, there.transitions.seen)
    assert here.returns == there.returns
    assert len(here.transitions) == 4 * 10
    assert np.array_equal(here.transitions.discounts == 0, np.tile(np.arange(10) >= 7, 4))
    assert not np.array_equal(here.transitions.actions, collect(job(4)).transitions.actions)


def test_guides_are_followed_and_found() -> None:
    words = ["split_4", "down", "swap_down", "down", "split_16", "swap_up", "swap_up"]
    guide = tuple(LOOPTUNE_ACTIONS.index(word) for word in words)
    found = collect(job(1, guides=(guide,), episodes=16))
    assert found.guides
    share, actions = found.guides[0]
    assert 0.3 < share < 1
    assert len(actions) <= 10
    assert max(found.returns) > 0.2


# -- policies -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SPACES)
def test_paths_are_legal_and_end(name: str) -> None:
    space = space_named(name)
    for seed in range(4):
        policy = Policy(space, random_network(OBSERVED, 16, len(space.actions), seed=seed))
        path = policy.path(TREE, MACHINE)
        assert path[0] == space.start(TREE, MACHINE)
        assert len(path) == len(set(path)) <= space.steps + 1
        assert all(tree.count <= space.most_loops for tree in path)


def test_candidates_are_ranked_by_the_model() -> None:
    policy = Policy(LOOPTUNE, random_network(OBSERVED, 16, len(LOOPTUNE_ACTIONS)))
    asked: list[LoopTree] = []

    def seconds(tree: LoopTree) -> float:
        asked.append(tree)
        return predict_seconds(tree, MACHINE)

    found = policy.candidates(TREE, MACHINE, 5, evaluate=seconds)
    times = [predict_seconds(tree, MACHINE) for tree in found]
    assert times == sorted(times)
    assert len(found) == len({tree.at(0) for tree in found}) == 5
    assert times[0] <= min(predict_seconds(tree, MACHINE) for tree in policy.path(TREE, MACHINE))


def test_the_split_is_the_one_that_is_told() -> None:
    train, tested = looptune_shapes()
    assert (len(train), len(tested)) == (1757, 440)
    assert not set(train) & set(tested)
    assert tested[-1] == looptune_shapes()[1][-1]
    assert {n for shape in train for n in shape} == set(range(64, 257, 16))
    assert len(mixed_trees(20)) == 20


# -- files ----------------------------------------------------------------------------------------


@pytest.fixture
def policy() -> Policy:
    network = random_network(OBSERVED, 16, len(LOOPTUNE_ACTIONS))
    return Policy(LOOPTUNE, network, random_network(NUMBERS, 4, 1))


def altered(data: bytes, **changed: Any) -> bytes:
    with np.load(io.BytesIO(data)) as file:
        arrays = {name: file[name] for name in file.files} | changed
    made = io.BytesIO()
    np.savez(made, **{name: x for name, x in arrays.items() if x is not None})
    return made.getvalue()


def head(**changed: Any) -> Any:
    given = {"schema": 1, "space": "looptune", "actions": list(LOOPTUNE_ACTIONS)} | changed
    return np.frombuffer(json.dumps(given).encode(), np.uint8)


def test_policies_are_read_as_they_were_written(policy: Policy, tmp_path: Path) -> None:
    path = tmp_path / "policy.npz"
    path.write_bytes(dump_policy(policy))
    found = read_policy(path)
    assert found.space is policy.space
    assert found.correction is not None
    assert policy.correction is not None
    for one, other in zip(
        (*found.network, *found.correction), (*policy.network, *policy.correction), strict=True
    ):
        assert np.array_equal(one, other)
    with pytest.raises(UsageError, match="is not the policy it should be"):
        read_policy(path, sha256="0" * 64)
    with pytest.raises(UsageError, match="cannot read"):
        read_policy(tmp_path / "none.npz")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"q0": np.full((OBSERVED, 16), np.nan, np.float32)}, "not finite"),
        ({"q0": np.zeros((OBSERVED - 1, 16), np.float32)}, "shape"),
        ({"q0": np.zeros((OBSERVED, 16))}, "float64"),
        ({"q1": np.zeros(15, np.float32)}, "shape"),
        ({"q3": np.zeros(6, np.float32), "q2": np.zeros((16, 6), np.float32)}, "6 outputs"),
        ({"q3": None}, "3 arrays"),
        ({"extra": np.zeros(3)}, "unknown arrays extra"),
        ({"head": None}, "head"),
        ({"head": head(schema=2)}, "schema 2"),
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


def test_a_seed_decides_what_is_learned() -> None:
    first, second, other = (
        dump_policy(Training(LOOPTUNE, MACHINE, SMALL, seed=seed).run()) for seed in (1, 1, 2)
    )
    assert first == second != other


def test_progress_is_told_and_the_record_tells_all() -> None:
    told: list[TrainingProgress] = []
    training = Training(LOOPTUNE, MACHINE, SMALL, report=told.append)
    training.run()
    assert [p.rounds for p in told] == [1, 2, 3, 4]
    assert told[-1].share == 1
    record = json.loads(json.dumps(training.record()))
    assert record["rounds"] == 4
    assert record["settings"]["learner"]["alpha"] == 0.6
    assert 0 < record["best"] < 1


def test_measured_trees_correct_the_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[LoopTree] = []

    def measure(tree: LoopTree) -> float:
        asked.append(tree)
        return float("nan") if len(asked) % 5 == 0 else 2 * predict_seconds(tree, MACHINE)

    monkeypatch.setattr("loopwright.tuning.correction._LEAST_UPDATES", 100)
    monkeypatch.setattr("loopwright.tuning.training._LEAST_SAMPLES", 8)
    settings = replace(SMALL, samples=50)
    training = Training(LOOPTUNE, MACHINE, settings, measure=measure)
    policy = training.run()
    assert policy.correction is not None
    assert 50 <= len(asked) < 60
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
    return Policy(space, (np.zeros((OBSERVED, len(values)), np.float32), values))


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


@pytest.mark.parametrize(
    ("text", "loops"),
    [("ik,kj->ij", "mkn"), ("ki,jk->ij", "mkn"), ("bik,bkj->bij", "bmkn"), ("ik,kj->ji", "nkm")],
)
def test_layouts_of_trees_are_those_of_the_arrays(text: str, loops: str) -> None:
    sizes = {"b": 3, "i": 8, "j": 12, "k": 5}
    operands = [np.ones([sizes[c] for c in term]) for term in text.partition("->")[0].split(",")]
    tree = task_tree(einsum_task(text, *operands, threads=1))
    assert tree is not None
    assert "".join(loop.dim for loop in tree.nests[0].loops) == loops


def test_tune_by_the_policy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    a = np.ones((67, 53), np.float32)
    with options.override(data_dir=str(tmp_path)):
        (tmp_path / "policy-general.npz").write_bytes(dump_policy(policy_of("stop")))
        found = lw.tune("ik,jk->ij", a, a, by="policy", threads=1)
        assert found == lw.tune("ik,jk->ij", a, a, threads=1)
        (tmp_path / "policy-general.npz").write_bytes(b"nothing")
        with pytest.raises(UsageError, match="this is no policy"):
            lw.tune("ik,jk->ij", a, a, by="policy", threads=1)


def test_shipped_policies_are_those_that_are_pinned() -> None:
    for name in SHIPPED:
        policy = shipped_policy(name)
        assert policy.space.name == name
        path = policy.path(TREE, MACHINE)
        cost = policy.cost(MACHINE)
        assert cost(policy.tree(TREE, MACHINE)) == min(map(cost, path))
    if "looptune" in SHIPPED:
        gained = predict_seconds(TREE, MACHINE) / predict_seconds(
            shipped_policy("looptune").tree(TREE, MACHINE), MACHINE
        )
        assert gained > 1.5
    with pytest.raises(UsageError, match="no policy of space"):
        shipped_policy("none")
