"""The two spaces that policies are trained for: which actions, from where, how many.

looptune    LoopTune's 7 actions, 10 steps and 10 loops from the naive tree; no stop: a policy
            is done when no action promises a gain
general     every action but undo, from the constructed tree; stop is an action
"""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.diagnostics import UsageError
from loopwright.ir.machine import Machine
from loopwright.lazy_dataclass import dataclass
from loopwright.tuning.actions import ACTIONS, LOOPTUNE_ACTIONS, MOST_LOOPS
from loopwright.tuning.environment import GeneralRules
from loopwright.tuning.loop_tree import LoopTree
from loopwright.tuning.training_trees import mixed_trees, training_trees
from loopwright.tuning.tree_construction import constructed_tree
from loopwright.tuning.tree_evaluator import Evaluate

__all__ = ["SPACES", "PolicySpace", "space_named"]


@dataclass(frozen=True, slots=True)
class PolicySpace:
    """What a policy may do, and where it begins."""

    name: str
    actions: tuple[str, ...]
    steps: int
    most_loops: int
    phases: bool
    starts: tuple[str, ...]  # of training
    is_constructed: bool  # a policy begins on the constructed tree, else on the naive one

    def rules(self, evaluate: Evaluate, machine: Machine) -> GeneralRules:
        """Observations without times: a policy needs no model of them when it is used."""
        return GeneralRules(
            evaluate,
            machine,
            steps=self.steps,
            phases=self.phases,
            actions=self.actions,
            most_loops=self.most_loops,
            shows_times=False,
        )

    def start(self, tree: LoopTree, machine: Machine) -> LoopTree:
        """Where a policy begins, of the naive tree."""
        return constructed_tree(tree, machine) if self.is_constructed else tree.at(0)

    def trees(self) -> Sequence[LoopTree]:
        """What it is trained on."""
        if not self.is_constructed:
            return training_trees()
        return tuple(
            tree for pair in zip(mixed_trees(), training_trees(), strict=False) for tree in pair
        )


SPACES = {
    space.name: space
    for space in (
        PolicySpace("looptune", LOOPTUNE_ACTIONS, 10, 10, False, ("naive",), False),
        PolicySpace(
            "general",
            tuple(word for word in ACTIONS if word != "undo"),
            12,
            MOST_LOOPS,
            True,
            ("constructed", "constructed", "naive", "random"),
            True,
        ),
    )
}


def space_named(name: str) -> PolicySpace:
    """One of SPACES."""
    if name not in SPACES:
        raise UsageError("unknown space", found=repr(name)[:60], hint=", ".join(SPACES))
    return SPACES[name]
