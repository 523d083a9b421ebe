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
from loopwright.tuning.actors import ActorJob, Collected, collect, graph_of, greedy_shares
from loopwright.tuning.dqn import Learner, LearnerSettings
from loopwright.tuning.environment import after_random_actions
from loopwright.tuning.learned_cost import CostSamples, LearnedCost, load_cost
from loopwright.tuning.loop_tree import LoopTree
from loopwright.tuning.network import Network
from loopwright.tuning.policy import Policy
from loopwright.tuning.policy_space import PolicySpace
from loopwright.tuning.tree_evaluator import Evaluate

__all__ = ["Training", "TrainingProgress", "TrainingSettings", "write_whole"]

_SAVED_EVERY = 20.0  # seconds
_LEAST_SAMPLES = 64  # measured trees that a correction is fitted to


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """How long the parts are, and how much a round does."""

    minutes: float = 12.0
    rounds: int | None = None  # instead of minutes: what a run gives then depends on the seed alone
    samples: int | None = None  # trees to measure at most; 0: the closed form alone
    parts: tuple[float, float, float] = (0.12, 0.45, 0.6)  # ends of A, C, and measuring in D
    episodes: int = 64  # of an actor in a round
    actors: int = 2  # jobs of a round
    updates: int = 48  # of a round
    judged: int = 32  # trees that decide which network is best
    trained: int = 320  # trees that actors draw from: times of a tree's states are known sooner
    every: int = 15  # rounds between two such decisions
    bold_rounds: int = 20  # rounds in which random actions become fewer
    beam: int = 12  # trees of the policy's beam that are measured, of a program
    learner: LearnerSettings = LearnerSettings()


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """How far a training has come."""

    part: str
    share: float  # of the time, 0 to 1
    rounds: int
    measured: int  # trees
    best: float  # share of the peak, by the cost that is trained on; nan: none yet
    history: tuple[float, ...]  # mean gains of the rounds so far, in octaves


class Training:
    """One training of one space; `run` gives the policy.

    `machine` is the one that trees are measured on; `others` are trained for beside it, by the
    learned cost of `costs` that is of their processor, else by their closed form. What a network
    sees has the numbers of the machine in it.
    """

    def __init__(
        self,
        space: PolicySpace,
        machine: Machine,
        settings: TrainingSettings | None = None,
        *,
        others: Sequence[Machine] = (),
        costs: Sequence[LearnedCost] = (),
        seed: int = 0,
        executor: Executor | None = None,
        measure: Evaluate | None = None,
        report: Callable[[TrainingProgress], None] | None = None,
        checkpoint: Path | None = None,
    ) -> None:
        self.space, self.machine = space, machine
        self.machines = (machine, *others)
        self.given_costs = tuple(cost for cost in costs if cost.machine != machine.llvm_cpu)
        self.settings = settings or TrainingSettings()
        self.seed = seed
        self.samples = CostSamples(machine)
        self.fits: list[tuple[int, float, float]] = []  # samples, spread before, error after
        self.history: list[float] = []
        self.judgements: list[tuple[int, float]] = []  # round, share of the peak
        self.best: Network | None = None
        self.best_share = float("nan")
        self.cost: LearnedCost | None = None
        self.is_interrupted = False
        self.elapsed = 0.0  # of runs before this one
        self.has_revised = False  # the trees of the policy were measured
        self._learner = Learner(len(space.actions), self.settings.learner, seed)
        # Of each machine, the best episode of each tree: log2 of its share, actions.
        self._guides: list[dict[int, tuple[float, tuple[int, ...]]]] = [{} for _ in self.machines]
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
            if self.cost is None:
                self._measure_walks(first)
            if not self.has_revised:
                self._rounds("training", second)
                self._measure_beams(third)
                self.has_revised = True
            self._rounds("training on", 1.0)
        except KeyboardInterrupt:
            self.is_interrupted = True
        try:
            self._judge()
        except KeyboardInterrupt:
            self.is_interrupted = True
        self._save()
        return self._policy(self.best or self._learner.steady)

    @property
    def seconds(self) -> float:
        """Of this run and those that it goes on from."""
        return self.elapsed + time.monotonic() - self._start

    def _policy(self, network: Network) -> Policy:
        own = () if self.cost is None else (self.cost,)
        return Policy(self.space, network, (*own, *self.given_costs))

    def _cost_of(self, machine: Machine) -> LearnedCost | None:
        if machine is self.machine:
            return self.cost
        given = (cost for cost in self.given_costs if cost.machine == machine.llvm_cpu)
        return next(given, None)

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

    def _drawn(self, random: Random) -> int:
        """A tree to train on, by its number."""
        last = min(len(self._trees), self.settings.judged + self.settings.trained)
        return random.randrange(min(self.settings.judged, last - 1), last)

    def _measure_walks(self, share: float) -> None:
        """Measure trees after random actions, from the naive and from the constructed one."""
        random = Random(f"walks {self.seed} {len(self.samples)}")
        rules = self.space.rules(lambda tree: 1.0, self.machine)
        while self._may_measure(share, 0.5):
            number = self._drawn(random)
            tree = self._trees[number]
            start = tree if random.random() < 0.5 else self.space.start(tree, self.machine)
            walked = after_random_actions(start, rules, random, 2 * self.space.steps)
            self._add(walked, number)
            self._tell("measuring")
        self._fit()

    def _measure_beams(self, share: float) -> None:
        """Measure what the policy's beam likes best: trees of which a model thinks too well."""
        random = Random(f"beams {self.seed} {len(self.samples)}")
        before = len(self.samples)
        policy = self._policy(self.best or self._learner.steady)
        while self._may_measure(share, 1.0):
            number = self._drawn(random)
            tree = self._trees[number]
            for found in policy.candidates(tree, self.machine, self.settings.beam):
                self._add(found, number)
            self._tell("measuring its trees")
        if len(self.samples) > before:
            self._fit()
            # Values of the old cost go; what was learned goes on from the best network, which is
            # judged anew. Guides are no values: their shares are found again.
            self._learner.restart(self.best or self._learner.network)
            self._guides[0] = {tree: (-np.inf, a) for tree, (_, a) in self._guides[0].items()}
            self.best, self.best_share = None, float("nan")

    def _add(self, tree: LoopTree, number: int) -> None:
        assert self._measure is not None
        self._asked += 1
        self.samples.add(tree, self._measure(tree), str(number))

    def _fit(self) -> None:
        if len(self.samples) >= _LEAST_SAMPLES:
            self.cost = self.samples.fit(self.seed)
            self.fits.append((len(self.samples), self.samples.spread, self.cost.error))

    # -- learning -----------------------------------------------------------------------------

    def _rounds(self, part: str, share: float) -> None:
        while self._share() < share:
            found = self._round()
            gains = [gain for each in found for gain in each.gains if isfinite(gain)]
            self.history.append(float(np.mean(gains)) if gains else 0.0)
            if len(self.history) % self.settings.every == 0:
                self._judge()
            self._tell(part)

    def _round(self) -> list[Collected]:
        jobs = [self._job(number) for number in range(self.settings.actors)]
        waiting = self._submitted(jobs)
        self._learner.learn(self.settings.updates, self._share())
        found = self._results(waiting, jobs)
        for number, each in enumerate(found):
            self._learner.add(each.transitions)
            self._keep_guides(self._machine_number(number), each)
        return found

    def _machine_number(self, number: int) -> int:
        """Jobs take the machines in turn."""
        turn = len(self.history) * self.settings.actors + number
        return turn % len(self.machines)

    def _job(self, number: int) -> ActorJob:
        rounds = len(self.history)
        given = self.settings.learner
        at = self._machine_number(number)
        first = min(self.settings.judged, len(self._trees) - 1)
        return ActorJob(
            self.space.name,
            self.machines[at],
            self._learner.steady,
            self._cost_of(self.machines[at]),
            seed=hash((self.seed, rounds, number)) & 0x7FFFFFFF,
            episodes=self.settings.episodes,
            trees=(first, self.settings.judged + self.settings.trained),
            steps=given.steps,
            price=given.price,
            exploration=max(0.0, 1 - rounds / max(self.settings.bold_rounds, 1)),
            guides=tuple((tree, actions) for tree, (_, actions) in self._guides[at].items()),
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

    def _keep_guides(self, machine: int, found: Collected) -> None:
        known = self._guides[machine]
        for tree, share, actions in found.guides:
            if tree not in known or share > known[tree][0]:
                known[tree] = share, actions

    def _judge(self) -> None:
        """Keep the network whose paths have the fastest trees, of those not trained on."""
        network = self._learner.steady
        found = self._judged(network)
        self.judgements.append((len(self.history), found))
        if not found <= self.best_share:
            self.best, self.best_share = network, found

    def _judged(self, network: Network) -> float:
        """The geometric mean of shares of the peak that a network's trees reach by the model."""
        numbers = range(min(self.settings.judged, len(self._trees)))
        shares: list[float] = []
        for machine in self.machines:
            graph = graph_of(self.space, machine, self._cost_of(machine))
            shares += greedy_shares(graph, network, numbers)
        return float(2 ** np.mean(shares))

    # -- checkpoints --------------------------------------------------------------------------

    def record(self) -> dict[str, Any]:
        """How the policy was made."""
        return {
            "space": self.space.name,
            "seed": self.seed,
            "machines": [machine.name for machine in self.machines],
            "given_costs": [cost.machine for cost in self.given_costs],
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
            "guides": [list(known.items()) for known in self._guides],
            "has_revised": self.has_revised,
        }
        arrays = self._learner.state() | self.samples.arrays()
        arrays |= {f"b{at}": x for at, x in enumerate(self.best or ())}
        if self.cost is not None:
            arrays["cost"] = np.frombuffer(self.cost.to_bytes(), np.uint8)
        arrays["head"] = np.frombuffer(json.dumps(head).encode(), np.uint8)
        file = io.BytesIO()
        np.savez(file, **arrays)
        try:
            write_whole(self._checkpoint, file.getvalue())
        except UsageError as error:  # a full disk costs the checkpoint, not what was learned
            reason = str(error)
            log("tune", lambda: f"training goes on without a checkpoint: {reason}")
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
            names = [machine.name for machine in self.machines]
            if (head["space"], head["seed"]) != (self.space.name, self.seed):
                raise ValueError(f"of space {head['space']}, seed {head['seed']}")
            if head["machines"] != names:
                raise ValueError(f"of machines {', '.join(head['machines'])}")
            self._learner.restore(arrays)
            self.samples.restore(arrays)
            self.best = _taken(arrays, "b")
            self.cost = load_cost(arrays["cost"].tobytes()) if "cost" in arrays else None
            self.history, self.has_revised = list(head["history"]), bool(head["has_revised"])
            self._guides = [
                {int(tree): (float(share), tuple(actions)) for tree, (share, actions) in known}
                for known in head["guides"]
            ]
            self.judgements = [(int(n), float(x)) for n, x in head["judgements"]]
            self.fits = [(int(n), float(a), float(b)) for n, a, b in head["fits"]]
            self.best_share = float("nan") if head["best"] is None else float(head["best"])
            self.elapsed = float(head["seconds"])
        except (
            OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, UsageError,
        ) as error:  # fmt: skip
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
