"""Training of a policy: measure, correct the cost, learn on it, measure its trees, learn on.

    A  trees of random walks are measured; the closed-form cost gets a correction
    C  the learner trains on the corrected cost, in rounds beside its actors
    D  trees that the policy ends in are measured and go into the correction; it trains on

The state is written to a file from time to time, in one step, so a training that was ended goes on
from there. Ctrl-C ends it with the best network so far. Which one is best is decided on trees that
are not trained on.
"""

from __future__ import annotations

import io
import json
import os
import time
import zipfile
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from math import isfinite
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from loopwright.diagnostics import UsageError
from loopwright.ir.machine import Machine
from loopwright.lazy_dataclass import dataclass
from loopwright.log import log
from loopwright.tuning.actors import ActorJob, Collected, collect, corrected_cost
from loopwright.tuning.correction import Samples, fit_correction
from loopwright.tuning.dqn import Learner, LearnerSettings
from loopwright.tuning.environment import after_random_actions
from loopwright.tuning.network import Network
from loopwright.tuning.policy import Policy
from loopwright.tuning.policy_space import PolicySpace
from loopwright.tuning.replay import Replay
from loopwright.tuning.tree_cost import predict_seconds
from loopwright.tuning.tree_evaluator import Evaluate
from loopwright.tuning.tree_facts import bound_seconds
from loopwright.tuning.tree_observation import OBSERVED

__all__ = ["Training", "TrainingProgress", "TrainingSettings"]

_SAVED_EVERY = 20.0  # seconds
_MOST_GUIDES = 64
_LEAST_SAMPLES = 16  # measured trees that a correction is fitted to


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """How long the parts are, and how much a round does."""

    minutes: float = 12.0
    rounds: int | None = None  # instead of minutes: what a run gives then depends on the seed alone
    samples: int | None = None  # trees to measure at most; 0: the closed form alone
    parts: tuple[float, float, float] = (0.15, 0.65, 0.73)  # ends of A, C, and measuring in D
    episodes: int = 32  # of an actor in a round
    actors: int = 2  # jobs of a round
    updates: int = 64  # of a round
    judged: int = 32  # trees that decide which network is best
    trained: int = 240  # trees that actors draw from: times of a tree's states are known sooner
    every: int = 15  # rounds between two such decisions
    bold_rounds: int = 15  # rounds in which random actions become fewer
    learner: LearnerSettings = LearnerSettings()


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """How far a training has come."""

    part: str
    share: float  # of the time, 0 to 1
    rounds: int
    measured: int  # trees
    best: float  # share of the peak, by the cost that is trained on; nan: none yet
    history: tuple[float, ...]  # mean returns of the rounds so far


class Training:
    """One training of one space; `run` gives the policy."""

    def __init__(
        self,
        space: PolicySpace,
        machine: Machine,
        settings: TrainingSettings | None = None,
        *,
        seed: int = 0,
        executor: Executor | None = None,
        measure: Evaluate | None = None,
        report: Callable[[TrainingProgress], None] | None = None,
        checkpoint: Path | None = None,
    ) -> None:
        self.space, self.machine = space, machine
        self.settings = settings or TrainingSettings()
        self.seed = seed
        self.samples = Samples()
        self.fits: list[tuple[int, float, float]] = []  # samples, error before, error after
        self.history: list[float] = []
        self.judgements: list[tuple[int, float]] = []  # round, share of the peak
        self.best: Network | None = None
        self.best_share = float("nan")
        self.correction: Network | None = None
        self.is_interrupted = False
        self.elapsed = 0.0  # of runs before this one
        self.has_revised = False  # the trees of the policy were measured
        self._learner = Learner(OBSERVED, len(space.actions), self.settings.learner, seed)
        self._guides: list[tuple[float, tuple[int, ...]]] = []
        self._asked = 0  # trees measured in this run
        self._executor, self._measure = executor, measure
        self._report, self._checkpoint = report, checkpoint
        self._start = self._saved = time.monotonic()
        self._trees = space.trees()

    # -- the course ---------------------------------------------------------------------------

    def run(self) -> Policy:
        """Train until the time or the rounds are over; the best policy."""
        self._start = self._saved = time.monotonic()
        first, second, third = self.settings.parts
        try:
            if self.correction is None:
                self._measure_walks(first)
            if not self.has_revised:
                self._rounds("training", second)
                self._measure_paths(third)
                self.has_revised = True
            self._rounds("training on", 1.0)
        except KeyboardInterrupt:
            self.is_interrupted = True
        try:
            self._judge()
        except KeyboardInterrupt:
            self.is_interrupted = True
        self._save()
        return Policy(self.space, self.best or self._learner.network, self.correction)

    @property
    def seconds(self) -> float:
        """Of this run and those that it goes on from."""
        return self.elapsed + time.monotonic() - self._start

    def _share(self) -> float:
        if self.settings.rounds is not None:
            return len(self.history) / self.settings.rounds
        return self.seconds / (60 * self.settings.minutes)

    def _tell(self, part: str) -> None:
        if self._report is not None:
            done = min(self._share(), 1.0), len(self.history), len(self.samples), self.best_share
            self._report(TrainingProgress(part, *done, tuple(self.history)))
        if self._checkpoint is not None and time.monotonic() - self._saved > _SAVED_EVERY:
            self._save()

    # -- measuring ----------------------------------------------------------------------------

    def _may_measure(self, share: float, most: float) -> bool:
        limit = self.settings.samples
        if self._measure is None or limit == 0:
            return False
        if limit is not None and self._asked >= limit * most:
            return False
        return self.settings.rounds is not None or self._share() < share

    def _measure_walks(self, share: float) -> None:
        """Measure trees after random actions, the constructed one among them."""
        random = Random(f"walks {self.seed}")
        trees = self._trees[self.settings.judged :]
        rules = self.space.rules(lambda tree: 1.0, self.machine)
        while self._may_measure(share, 0.6):
            tree = random.choice(trees)
            start = tree if random.random() < 0.5 else self._constructed(tree)
            self._add(after_random_actions(start, rules, random, 2 * self.space.steps))
            self._tell("measuring")
        self._fit()

    def _measure_paths(self, share: float) -> None:
        """Measure what the policy and its beam like best."""
        random = Random(f"paths {self.seed}")
        before = len(self.samples)
        while self._may_measure(share, 1.0):
            policy = Policy(self.space, self._learner.network, self.correction)
            tree = random.choice(self._trees[self.settings.judged :])
            cost = corrected_cost(self.machine, self.correction)
            for found in policy.candidates(tree, self.machine, 6, evaluate=cost):
                self._add(found)
            self._tell("measuring its trees")
        if len(self.samples) > before:
            self._fit()
            # Rewards of the old cost go; what was learned goes on from the best network, which is
            # judged anew.
            self._learner.replay = self._empty_replay()
            if self.best is not None:
                self._learner.network = self._learner.old = self.best
                self.best_share = self._judged(self.best)

    def _empty_replay(self) -> Replay:
        given = self.settings.learner
        return Replay(given.capacity, OBSERVED, len(self.space.actions), given.alpha)

    def _constructed(self, tree: Any) -> Any:
        return self.space.start(tree, self.machine)

    def _add(self, tree: Any) -> None:
        assert self._measure is not None
        self._asked += 1
        self.samples.add(
            tree, predict_seconds(tree, self.machine), self._measure(tree), self.machine
        )

    def _fit(self) -> None:
        if len(self.samples) >= _LEAST_SAMPLES:
            self.correction, errors = fit_correction(self.samples, self.seed)
            self.fits.append((len(self.samples), *errors))

    # -- learning -----------------------------------------------------------------------------

    def _rounds(self, part: str, share: float) -> None:
        while self._share() < share:
            found = self._round()
            gains = [gain for each in found for gain in each.returns if isfinite(gain)]
            self.history.append(float(np.mean(gains)) if gains else 0.0)
            self._keep_guides(found)
            if len(self.history) % self.settings.every == 0:
                self._judge()
            self._tell(part)

    def _round(self) -> list[Collected]:
        jobs = [self._job(number) for number in range(self.settings.actors)]
        waiting = self._submitted(jobs)
        self._learner.learn(self.settings.updates, self._share())
        found = self._results(waiting, jobs)
        for each in found:
            self._learner.add(each.transitions)
        return found

    def _job(self, number: int) -> ActorJob:
        rounds = len(self.history)
        given = self.settings.learner
        return ActorJob(
            self.space.name,
            self.machine,
            self._learner.network,
            self.correction,
            seed=hash((self.seed, rounds, number)) & 0x7FFFFFFF,
            episodes=self.settings.episodes,
            trees=(self.settings.judged, self.settings.judged + self.settings.trained),
            steps=given.steps,
            discount=given.discount,
            exploration=max(0.0, 1 - rounds / max(self.settings.bold_rounds, 1)),
            guides=tuple(actions for _, actions in self._guides),
        )

    def _submitted(self, jobs: Sequence[ActorJob]) -> list[Future[Collected]]:
        if self._executor is None:
            return []
        try:
            return [self._executor.submit(collect, job) for job in jobs]
        except (BrokenExecutor, OSError, RuntimeError) as error:
            self._lose_executor(error)
            return []

    def _results(
        self, waiting: Sequence[Future[Collected]], jobs: Sequence[ActorJob]
    ) -> list[Collected]:
        """What actors found; jobs of a lost executor are done here."""
        if waiting:
            try:
                return [each.result() for each in waiting]
            except (BrokenExecutor, OSError) as error:
                self._lose_executor(error)
        return [collect(job) for job in jobs]

    def _lose_executor(self, error: BaseException) -> None:
        reason = str(error)
        log("tune", lambda: f"the executor is lost ({reason}); actors play here")
        self._executor = None

    def _keep_guides(self, found: Sequence[Collected]) -> None:
        best: dict[tuple[int, ...], float] = {a: share for share, a in self._guides}
        for each in found:
            for share, actions in each.guides:
                best[actions] = max(share, best.get(actions, 0.0))
        order = sorted(((share, a) for a, share in best.items()), reverse=True)
        self._guides = order[:_MOST_GUIDES]

    def _judge(self) -> None:
        """Keep the network whose paths have the fastest trees, of those not trained on."""
        network = self._learner.network
        found = self._judged(network)
        self.judgements.append((len(self.history), found))
        if not found <= self.best_share:
            self.best, self.best_share = network, found

    def _judged(self, network: Network) -> float:
        """The geometric mean of shares of the peak that a network's trees reach by the model."""
        policy = Policy(self.space, network, self.correction)
        cost = corrected_cost(self.machine, self.correction)
        shares = []
        for tree in self._trees[: self.settings.judged]:
            best = policy.tree(tree, self.machine, cost)
            shares.append(bound_seconds(tree, self.machine) / cost(best))
        return float(np.exp(np.mean(np.log(shares))))

    # -- checkpoints --------------------------------------------------------------------------

    def record(self) -> dict[str, Any]:
        """How the policy was made."""
        return {
            "space": self.space.name,
            "seed": self.seed,
            "machine": self.machine.name,
            "seconds": round(self.seconds, 1),
            "rounds": len(self.history),
            "updates": self._learner.adam.count,
            "measured": len(self.samples),
            "fits": [[n, round(a, 4), round(b, 4)] for n, a, b in self.fits],
            "judgements": [[n, round(x, 4)] for n, x in self.judgements],
            "best": round(self.best_share, 4) if isfinite(self.best_share) else None,
            "is_interrupted": self.is_interrupted,
            "settings": _plain(self.settings),
        }

    def _save(self) -> None:
        if self._checkpoint is None:
            return
        head = self.record() | {
            "history": self.history,
            "guides": self._guides,
            "has_revised": self.has_revised,
        }
        arrays = self._learner.state()
        for letter, network in (("b", self.best), ("c", self.correction)):
            arrays |= {f"{letter}{at}": x for at, x in enumerate(network or ())}
        if len(self.samples):
            arrays["inputs"] = np.stack(self.samples.inputs)
            arrays["octaves"] = np.array(self.samples.octaves)
        arrays["head"] = np.frombuffer(json.dumps(head).encode(), np.uint8)
        file = io.BytesIO()
        np.savez(file, **arrays)
        write_whole(self._checkpoint, file.getvalue())
        self._saved = time.monotonic()

    def resume(self) -> bool:
        """Go on from the checkpoint; whether there was one. One that is damaged is refused."""
        if self._checkpoint is None or not self._checkpoint.exists():
            return False
        try:
            data = io.BytesIO(self._checkpoint.read_bytes())
            with np.load(data, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            head = json.loads(bytes(arrays["head"]).decode())
            if (head["space"], head["seed"]) != (self.space.name, self.seed):
                raise ValueError(f"of space {head['space']}, seed {head['seed']}")
            self._learner.restore(arrays)
            self.best = _taken(arrays, "b")
            self.correction = _taken(arrays, "c")
            self.history, self.has_revised = list(head["history"]), bool(head["has_revised"])
            self._guides = [(float(share), tuple(actions)) for share, actions in head["guides"]]
            self.judgements = [(int(n), float(x)) for n, x in head["judgements"]]
            self.fits = [(int(n), float(a), float(b)) for n, a, b in head["fits"]]
            self.best_share = float("nan") if head["best"] is None else float(head["best"])
            self.elapsed = float(head["seconds"])
            self.samples.inputs = list(arrays.get("inputs", ()))
            self.samples.octaves = [float(x) for x in arrays.get("octaves", ())]
            self.samples.keys = {row.tobytes() for row in self.samples.inputs}
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise UsageError(
                f"cannot go on from '{self._checkpoint}'", str(error)[:80], "without --resume"
            ) from None
        return True


def _taken(arrays: dict[str, Any], letter: str) -> Network | None:
    found: list[Any] = []
    while (name := f"{letter}{len(found)}") in arrays:
        found.append(arrays[name])
    return tuple(found) or None


def _plain(settings: TrainingSettings) -> dict[str, Any]:
    names = TrainingSettings.__dataclass_fields__
    found = {name: getattr(settings, name) for name in names if name != "learner"}
    inner = LearnerSettings.__dataclass_fields__
    return found | {"learner": {name: getattr(settings.learner, name) for name in inner}}


def write_whole(path: Path, data: bytes) -> None:
    """Write a file in one step: whoever reads it finds the old one or the new one, whole."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(data)
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise UsageError(f"cannot write '{path}': {error.strerror}") from None
