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
from loopwright.tuning.actors import price_by
from loopwright.tuning.environment import Episode, GeneralRules
from loopwright.tuning.learned_cost import LearnedCost, load_cost
from loopwright.tuning.loop_tree import LoopTree
from loopwright.tuning.network import Floats, Network, outputs, sizes_of
from loopwright.tuning.policy_inputs import INPUTS, policy_inputs
from loopwright.tuning.policy_space import PolicySpace, space_named
from loopwright.tuning.searches import TreeState
from loopwright.tuning.state_graph import PriceTrees
from loopwright.tuning.tree_evaluator import Evaluate, code_key

__all__ = ["Policy", "dump_policy", "load_policy", "read_policy"]

SCHEMA = 2
MOST_BYTES = 1 << 20
_ARCHIVE = b"PK\x03\x04"  # how an .npz begins
_MOST_LAYERS = 8
_MOST_COSTS = 8


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """Values of actions, and what measurements taught about the cost of trees, by machine."""

    space: PolicySpace
    network: Network
    costs: tuple[LearnedCost, ...] = ()

    def path(self, tree: LoopTree, machine: Machine) -> list[LoopTree]:
        """The trees from the start of the space on, as the policy goes; none of them twice."""
        rules = self.space.rules(_no_times, machine)
        episode = _episode(self.space.start(tree, machine))
        found = [episode.tree]
        seen = {_state(episode.tree)}
        while episode.steps < self.space.steps:
            following = self._following(rules, episode, seen)
            if following is None:
                break
            seen.add(_state(following))
            found.append(following)
            episode = _moved(episode, following)
        return found

    def _following(
        self, rules: GeneralRules, episode: Episode, seen: set[object]
    ) -> LoopTree | None:
        """The tree after the best action that leads to a new one; None: it stops."""
        values = self._values(rules, [episode])[0]
        for action in np.argsort(-values):
            word = rules.actions[action]
            if word == "stop":
                return None
            following = rules.following(episode, word)
            if following is not None and _state(following) not in seen:
                return following
        return None

    def _values(self, rules: GeneralRules, episodes: Sequence[Episode]) -> Floats:
        return outputs(self.network, policy_inputs([rules.observe(each) for each in episodes]))

    def tree(self, tree: LoopTree, machine: Machine, price: PriceTrees | None = None) -> LoopTree:
        """The fastest tree on the policy's path, by the model; the start is one of them."""
        # The cursor costs nothing: of trees that differ by it alone the last one is priced.
        path = list({_loops(each): each for each in self.path(tree, machine)}.values())
        return path[int(np.argmin((price or self.price(machine))(path)))]

    def price(self, machine: Machine) -> PriceTrees:
        """The model of times: the closed form, with what was learned on this kind of machine."""
        own = (cost for cost in self.costs if cost.machine == machine.llvm_cpu)
        return price_by(next(own, None), machine)

    def cost(self, machine: Machine) -> Evaluate:
        """The model of times, of one tree."""
        price = self.price(machine)
        return lambda tree: float(price([tree])[0])

    def candidates(
        self, tree: LoopTree, machine: Machine, count: int = 8, *, width: int = 4
    ) -> list[LoopTree]:
        """The fastest trees of a beam search, by the model; of those with the same code one."""
        return [state.tree for state in self.ranked(tree, machine, width=width)[:count]]

    def ranked(
        self,
        tree: LoopTree,
        machine: Machine,
        *,
        width: int = 4,
        price: PriceTrees | None = None,
    ) -> list[TreeState]:
        """All trees that the policy's path and a beam meet, with their actions, the fastest first.

        From each tree of the beam the policy's best actions lead on; the trees they lead to count
        by what the network expects of them, and of trees that differ by the cursor alone two stay.
        Of trees that have the same code the first is told.
        """
        price = price or self.price(machine)
        rules = self.space.rules(_no_times, machine)
        start = self.space.start(tree, machine)
        states = {_state(start): TreeState(start)}
        beam = [_episode(start)]
        values = self._values(rules, beam)
        for _ in range(self.space.steps):
            grown: list[Episode] = []
            for episode, row in zip(beam, values, strict=True):
                grown += self._grown(rules, episode, row, width, states)
            if not grown:
                break
            values = self._values(rules, grown)
            order = _spread_order(grown, values.max(axis=1), width)
            # The first of the beam goes the policy's own way: to its best action, if it is new.
            order = [0, *(at for at in order if at)][:width]
            beam, values = [grown[at] for at in order], values[order]
        codes: dict[object, TreeState] = {}
        for state in states.values():
            codes.setdefault(code_key(state.tree, machine), state)
        distinct = list(codes.values())
        times = np.asarray(price([state.tree for state in distinct]))
        return [distinct[at] for at in np.argsort(times, kind="stable")]

    def _grown(
        self,
        rules: GeneralRules,
        episode: Episode,
        values: Floats,
        width: int,
        states: dict[object, TreeState],
    ) -> list[Episode]:
        """New states after the best actions of a state, the best first; they go into `states`."""
        found: list[Episode] = []
        path = states[_state(episode.tree)].path
        for action in np.argsort(-values):
            word = rules.actions[action]
            following = None if word == "stop" else rules.following(episode, word)
            if following is None:
                continue
            key = _state(following)
            if key not in states:
                states[key] = TreeState(following, (*path, word))
                found.append(_moved(episode, following))
                if len(found) == width:
                    break
        return found


def _spread_order(grown: Sequence[Episode], values: Floats, width: int) -> list[int]:
    """The places of the best states, at most two of the same loops."""
    found: list[int] = []
    counts: dict[object, int] = {}
    for at in np.argsort(-values, kind="stable"):
        key = _loops(grown[at].tree)
        counts[key] = counts.get(key, 0) + 1
        if counts[key] <= 2:
            found.append(int(at))
            if len(found) == width:
                break
    return found


def _no_times(tree: LoopTree) -> float:
    return 1.0


def _loops(tree: LoopTree) -> object:
    """What edits change of a tree but the cursor; a hash of its arrays takes longer than a step."""
    return tuple([(nest.loops, nest.accumulators) for nest in tree.nests])


def _state(tree: LoopTree) -> object:
    return _loops(tree), tree.cursor


def _episode(tree: LoopTree) -> Episode:
    return Episode(Session(tree), 1.0, tree, 1.0, 1.0)


def _moved(episode: Episode, tree: LoopTree) -> Episode:
    # That there is a past is all that is seen of it.
    return Episode(Session(tree, (episode.tree,)), 1.0, tree, 1.0, 1.0, episode.steps + 1)


# -- files ----------------------------------------------------------------------------------------


def dump_policy(policy: Policy) -> bytes:
    """The bytes of a policy's file."""
    head = {"schema": SCHEMA, "space": policy.space.name, "actions": policy.space.actions}
    arrays: dict[str, Any] = {"head": np.frombuffer(json.dumps(head).encode(), np.uint8)}
    arrays |= {f"q{at}": array for at, array in enumerate(policy.network)}
    for at, cost in enumerate(policy.costs):
        arrays[f"cost{at}"] = np.frombuffer(cost.to_bytes(), np.uint8)
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
    if not data.startswith(_ARCHIVE):  # NumPy would take it for a pickle, and say so
        raise _refused("no archive of arrays")
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            # A small file may hold large arrays: their sizes are told before they are read.
            if sum(item.file_size for item in file.zip.infolist()) > 2 * MOST_BYTES:
                raise _refused("arrays of more than 2 MiB")
            arrays = {name: file[name] for name in file.files}
        if "head" not in arrays:
            raise _refused("an archive without the array head")
        head = json.loads(bytes(arrays.pop("head")).decode())
    except UsageError:
        raise
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise _refused(str(error)[:80]) from None
    if not isinstance(head, dict) or head.get("schema") != SCHEMA:
        raise _refused(f"schema {head.get('schema') if isinstance(head, dict) else head!r}"[:60])
    space = space_named(str(head.get("space")))
    if head.get("actions") != list(space.actions):
        raise _refused("actions of another version")
    network = _network(arrays, len(space.actions))
    costs: list[LearnedCost] = []
    while (name := f"cost{len(costs)}") in arrays and len(costs) < _MOST_COSTS:
        array = arrays.pop(name)
        if array.dtype != np.uint8 or array.ndim != 1:
            raise _refused(f"array {name} of shape {array.shape}, {array.dtype}")
        costs.append(load_cost(array.tobytes()))
    if arrays:
        raise _refused(f"unknown arrays {', '.join(sorted(arrays))}"[:80])
    return Policy(space, network, tuple(costs))


def _network(arrays: dict[str, Any], width: int) -> Network:
    """Take the arrays of the network; shapes must fit each other and numbers be finite."""
    found: list[Floats] = []
    while (name := f"q{len(found)}") in arrays and len(found) < 2 * _MOST_LAYERS:
        found.append(arrays.pop(name))
    if len(found) < 2 or len(found) % 2:
        raise _refused(f"{len(found)} arrays of a network")
    before = INPUTS
    for at, array in enumerate(found):
        expected = (before, array.shape[-1]) if at % 2 == 0 else (before,)
        if array.dtype != np.float32 or array.ndim != 2 - at % 2 or array.shape != expected:
            raise _refused(f"array q{at} of shape {array.shape}, {array.dtype}")
        if not np.isfinite(array).all():
            raise _refused(f"array q{at} has numbers that are not finite")
        before = array.shape[-1]
    if sizes_of(tuple(found))[-1] != width:
        raise _refused(f"{before} outputs instead of {width}")
    return tuple(found)


def _refused(found: str) -> UsageError:
    hint = f"an .npz of `loopwright tune --train`, schema {SCHEMA}"
    return UsageError("this is no policy", found=found, hint=hint)
