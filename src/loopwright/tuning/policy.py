"""A learned policy: what to do next with a tree, by a network that was trained before.

Inference needs NumPy only and asks no model of times: a step is one pass through the network and
the legality of the action that it likes best. A file is an `.npz` without pickled objects, checked
in size, schema, shapes and numbers before anything of it is used.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from loopwright.diagnostics import UsageError
from loopwright.ir.machine import Machine
from loopwright.lazy_dataclass import dataclass
from loopwright.tuning.actions import Session
from loopwright.tuning.correction import NUMBERS, CorrectedCost
from loopwright.tuning.environment import Episode, GeneralRules
from loopwright.tuning.loop_tree import LoopTree
from loopwright.tuning.network import Floats, Network, outputs, sizes_of
from loopwright.tuning.policy_space import PolicySpace, space_named
from loopwright.tuning.tree_cost import predict_seconds
from loopwright.tuning.tree_evaluator import Evaluate, RememberedTimes
from loopwright.tuning.tree_observation import OBSERVED

__all__ = ["Policy", "dump_policy", "load_policy", "read_policy"]

SCHEMA = 1
MOST_BYTES = 1 << 20
_LEAST_GAIN = 0.01  # octaves that an action must promise where there is no stop
_MOST_LAYERS = 8


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """Values of actions, and the correction of the cost that they were learned on."""

    space: PolicySpace
    network: Network
    correction: Network | None = None

    def path(self, tree: LoopTree, machine: Machine) -> list[LoopTree]:
        """The trees from the start of the space on, as the policy goes."""
        rules = self.space.rules(_no_times, machine)
        episode = _episode(self.space.start(tree, machine))
        found = [episode.tree]
        seen = {episode.tree}
        while episode.steps < self.space.steps:
            action = self._choice(rules, episode)
            if action is None or rules.actions[action] == "stop":
                break
            episode = rules.advance(episode, action).episode
            if episode.tree in seen:  # the values are those of before: it would go round for ever
                break
            seen.add(episode.tree)
            found.append(episode.tree)
        return found

    def _choice(self, rules: GeneralRules, episode: Episode) -> int | None:
        values = outputs(self.network, rules.observe(episode)[None])[0]
        for action in np.argsort(-values):
            if values[action] < _LEAST_GAIN and "stop" not in rules.actions:
                return None
            if rules.allows(episode, rules.actions[action]):
                return int(action)
        return None

    def tree(self, tree: LoopTree, machine: Machine, evaluate: Evaluate | None = None) -> LoopTree:
        """The fastest tree on the policy's path, by the model; the start is one of them."""
        cost = evaluate or self.cost(machine)
        return min(self.path(tree, machine), key=cost)

    def cost(self, machine: Machine, predict: Evaluate | None = None) -> Evaluate:
        """The model of times that the policy was trained on."""
        closed = predict or (lambda tree: predict_seconds(tree, machine))
        return RememberedTimes(CorrectedCost(closed, self.correction, machine))

    def candidates(
        self,
        tree: LoopTree,
        machine: Machine,
        count: int = 8,
        *,
        width: int = 4,
        evaluate: Evaluate | None = None,
    ) -> list[LoopTree]:
        """The fastest trees of a beam search, by the model; the policy's values guide it.

        A state counts by what it has gained and what the network promises from there.
        """
        cost = evaluate or self.cost(machine)
        rules = self.space.rules(cost, machine)
        first = rules.begin(self.space.start(tree, machine))
        times = {first.tree.at(0): first.seconds}
        for end in self.path(tree, machine):
            times.setdefault(end.at(0), cost(end))
        beam = [first]
        for _ in range(self.space.steps):
            grown = self._grown(rules, beam, width)
            if not grown:
                break
            values = outputs(self.network, np.stack([rules.observe(e) for e in grown]))
            gains = np.log2([first.seconds / e.seconds for e in grown])
            order = np.argsort(-(gains + np.maximum(values.max(axis=1), 0)))
            beam = [grown[at] for at in order[:width]]
            for episode in beam:
                times.setdefault(episode.tree.at(0), episode.seconds)
        return sorted(times, key=times.__getitem__)[:count]

    def _grown(self, rules: GeneralRules, beam: Sequence[Episode], width: int) -> list[Episode]:
        """The states after the best actions of each state of a beam, each once."""
        values = outputs(self.network, np.stack([rules.observe(e) for e in beam]))
        grown: dict[LoopTree, Episode] = {}
        for episode, row in zip(beam, values, strict=True):
            taken = 0
            for action in np.argsort(-row):
                word = rules.actions[action]
                if word == "stop" or not rules.allows(episode, word):
                    continue
                after = rules.advance(episode, int(action)).episode
                grown.setdefault(after.tree, after)
                taken += 1
                if taken == width:
                    break
        return list(grown.values())


def _no_times(tree: LoopTree) -> float:
    return 1.0


def _episode(tree: LoopTree) -> Episode:
    return Episode(Session(tree), 1.0, tree, 1.0, 1.0)


# -- files ----------------------------------------------------------------------------------------


def dump_policy(policy: Policy) -> bytes:
    """The bytes of a policy's file."""
    head = {"schema": SCHEMA, "space": policy.space.name, "actions": policy.space.actions}
    arrays: dict[str, Any] = {"head": np.frombuffer(json.dumps(head).encode(), np.uint8)}
    arrays |= {f"q{at}": array for at, array in enumerate(policy.network)}
    arrays |= {f"c{at}": array for at, array in enumerate(policy.correction or ())}
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def read_policy(path: str | Path, sha256: str | None = None) -> Policy:
    """The policy of a file; raises UsageError where it is none, or not the one that is meant."""
    try:
        size = Path(path).stat().st_size
        if size > MOST_BYTES:
            raise UsageError(f"'{path}' is no policy", f"{size} bytes", f"at most {MOST_BYTES}")
        data = Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read '{path}': {error.strerror}") from None
    found = hashlib.sha256(data).hexdigest()
    if sha256 is not None and found != sha256:
        raise UsageError(f"'{path}' is not the policy it should be", f"sha256 {found}", sha256)
    return load_policy(data)


def load_policy(data: bytes) -> Policy:
    """The policy of a file's bytes."""
    if len(data) > MOST_BYTES:
        raise _refused(f"{len(data)} bytes")
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            # A small file may hold large arrays: their sizes are told before they are read.
            if sum(item.file_size for item in file.zip.infolist()) > 2 * MOST_BYTES:
                raise _refused("arrays of more than 2 MiB")
            arrays = {name: file[name] for name in file.files}
        head = json.loads(bytes(arrays.pop("head")).decode())
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise _refused(str(error)[:80]) from None
    if not isinstance(head, dict) or head.get("schema") != SCHEMA:
        raise _refused(f"schema {head.get('schema') if isinstance(head, dict) else head!r}"[:60])
    space = space_named(str(head.get("space")))
    if head.get("actions") != list(space.actions):
        raise _refused("actions of another version")
    network = _network(arrays, "q", OBSERVED, len(space.actions))
    correction = _network(arrays, "c", NUMBERS, 1) if "c0" in arrays else None
    if arrays:
        raise _refused(f"unknown arrays {', '.join(sorted(arrays))}"[:80])
    return Policy(space, network, correction)


def _network(arrays: dict[str, Any], letter: str, numbers: int, width: int) -> Network:
    """Take the arrays of one network; shapes must fit each other and numbers be finite."""
    found: list[Floats] = []
    while (name := f"{letter}{len(found)}") in arrays and len(found) < 2 * _MOST_LAYERS:
        found.append(arrays.pop(name))
    if len(found) < 2 or len(found) % 2:
        raise _refused(f"{len(found)} arrays of a network")
    before = numbers
    for at, array in enumerate(found):
        expected = (before, array.shape[-1]) if at % 2 == 0 else (before,)
        if array.dtype != np.float32 or array.ndim != 2 - at % 2 or array.shape != expected:
            raise _refused(f"array {letter}{at} of shape {array.shape}, {array.dtype}")
        if not np.isfinite(array).all():
            raise _refused(f"array {letter}{at} has numbers that are not finite")
        before = array.shape[-1]
    if sizes_of(tuple(found))[-1] != width:
        raise _refused(f"{before} outputs instead of {width}")
    return tuple(found)


def _refused(found: str) -> UsageError:
    hint = f"an .npz of `loopwright tune --train`, schema {SCHEMA}"
    return UsageError("this is no policy", found=found, hint=hint)
