"""Actions on a LoopTree: what an agent, a search or a person may do next.

An action is a word: `up down swap_up swap_down split_N merge vectorize unroll parallel pack_a
pack_b accumulate_N undo stop`. `refusal` says why one is not possible now; `mask` asks it of all.
`Session` keeps the way to a tree, for undo.

The rules, beside those of the edits themselves:

    swap, merge   the new order is legal (tree_legality)
    vectorize     iterations depend on each other at most by an accumulation that may be reordered;
                  the loops from there on are at most MOST_UNROLLED points, which become
                  straight-line code; no loop inside packs
    unroll        the loops from there on are at most MOST_UNROLLED points
    parallel      the outermost loop of a nest, whose iterations are independent; packs nothing
    pack_a, _b    the operand is packed nowhere in the nest, and no loop around is vectorised
    accumulate_N  the nest accumulates over some dimension, in any order
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from math import prod

from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.ir.loops import Mark
from loopwright.lazy_dataclass import dataclass
from loopwright.tuning.loop_tree import LoopTree
from loopwright.tuning.tree_legality import (
    carries_dependence,
    is_reorderable_nest,
    order_violation,
)

__all__ = [
    "ACTIONS",
    "LOOPTUNE_ACTIONS",
    "Session",
    "act",
    "done",
    "mask",
    "refusal",
    "tree_after",
]

SPLITS = (2, 3, 4, 6, 8, 12, 16, 32, 64, 128)
ACCUMULATORS = (2, 4, 8)
MOVES = ("up", "down")
SWAPS = ("swap_up", "swap_down")
REORDERINGS = (*SWAPS, "merge")
# All words, in the order of an action space.
ACTIONS: tuple[str, ...] = (
    *MOVES,
    *SWAPS,
    *(f"split_{n}" for n in SPLITS),
    "merge",
    "vectorize",
    "unroll",
    "parallel",
    "pack_a",
    "pack_b",
    *(f"accumulate_{n}" for n in ACCUMULATORS),
    "undo",
    "stop",
)
# The action space of LoopTune's paper.
LOOPTUNE_ACTIONS = (*MOVES, *SWAPS, "split_4", "split_8", "split_16")

MOST_LOOPS = 16  # of a tree: what an observation has room for
MOST_UNROLLED = 512  # points of straight-line code
_NUMBERED = re.compile(r"(split|accumulate)_([1-9][0-9]*)")
_MARKS = {"vectorize": Mark.VECTOR, "unroll": Mark.UNROLL, "parallel": Mark.PARALLEL}


def act(tree: LoopTree, action: str) -> LoopTree:
    """The tree after an action other than undo and stop; raises IllegalStep where it is refused."""
    reason = refusal(tree, action)
    if reason is not None:
        raise IllegalStep(action, reason)
    return done(tree, action)


def mask(tree: LoopTree, actions: Sequence[str] = ACTIONS, *, can_undo: bool = False) -> list[bool]:
    """Which of the actions are possible."""
    return [can_undo if a == "undo" else refusal(tree, a) is None for a in actions]


def refusal(tree: LoopTree, action: str) -> str | None:
    """Why an action is not possible on a tree; None where it is."""
    numbered = _NUMBERED.fullmatch(action)
    if numbered:
        number = int(numbered[2])
        return _no_split(tree, number) if numbered[1] == "split" else _no_accumulators(tree)
    match action:
        case "stop":
            return None
        case "undo":
            return "a tree does not know its past; a Session does"
        case "up":
            return None if tree.cursor > 0 else "the cursor is on the first loop"
        case "down":
            return None if tree.cursor + 1 < tree.count else "the cursor is on the last loop"
        case "swap_up" | "swap_down" | "merge":
            changed = _reordered(tree, action)
            return changed if isinstance(changed, str) else None
        case "vectorize":
            return _no_vectors(tree)
        case "unroll":
            return _no_unrolling(tree)
        case "parallel":
            return _not_parallel(tree)
        case "pack_a" | "pack_b":
            return _no_packing(tree, "ab".index(action[-1]))
    raise UsageError("unknown action", repr(action), ", ".join(ACTIONS))


def done(tree: LoopTree, action: str) -> LoopTree:
    """`act` for an action that `refusal` has nothing against: it is not asked again."""
    numbered = _NUMBERED.fullmatch(action)
    if numbered:
        number = int(numbered[2])
        return tree.split(number) if numbered[1] == "split" else tree.accumulate(number)
    match action:
        case "up" | "down":
            return tree.at(tree.cursor + (1 if action == "down" else -1))
        case "swap_up" | "swap_down":
            return tree.swap(1 if action == "swap_down" else -1)
        case "merge":
            return tree.merge()
        case "vectorize" | "unroll" | "parallel":
            return tree.mark(_MARKS[action])
        case "pack_a" | "pack_b":
            return tree.pack("ab".index(action[-1]))
    raise UsageError("not an action on a tree", repr(action))


def tree_after(tree: LoopTree, action: str) -> LoopTree | None:
    """The tree after an action other than undo and stop; None where it is refused.

    `refusal` and `done` in one: whether loops may change places is told by the changed tree.
    """
    if action in REORDERINGS:
        changed = _reordered(tree, action)
        return None if isinstance(changed, str) else changed
    return done(tree, action) if refusal(tree, action) is None else None


def _no_split(tree: LoopTree, size: int) -> str | None:
    if tree.count >= MOST_LOOPS:
        return f"the tree has {MOST_LOOPS} loops"
    if size > tree.loop.size:
        return f"the loop has {tree.loop.size} iterations"
    return None


def _reordered(tree: LoopTree, action: str) -> LoopTree | str:
    """The tree with loops in another order, or why that is not possible."""
    try:
        changed = done(tree, action)
    except UsageError as error:
        return str(error)
    if any(loop.mark is Mark.PARALLEL for loop in changed.nest.loops[1:]):
        return "a parallel loop stays outermost"
    if any(loop.mark is Mark.PARALLEL and loop.packs for loop in changed.nest.loops):
        return "an operand would be packed before a parallel loop"
    if _pack_depths(changed) and max(_pack_depths(changed)) > _vector_depth(changed):
        return "no operand is packed inside a vectorised loop"
    if _unrolled(changed) > MOST_UNROLLED:
        return f"more than {MOST_UNROLLED} points would be unrolled"
    witness = order_violation(changed, changed.nest)
    return changed if witness is None else str(witness)


def _no_vectors(tree: LoopTree) -> str | None:
    at, depth = tree.place
    nest = tree.nests[at]
    if any(loop.mark is Mark.VECTOR for loop in nest.loops):
        return "a loop of the nest is vectorised already"
    if tree.loop.mark is Mark.PARALLEL:
        return "the loop is parallel"
    if _points_from(tree, depth) > MOST_UNROLLED:
        return f"more than {MOST_UNROLLED} points would be unrolled"
    if any(loop.packs for loop in nest.loops[depth + 1 :]):
        return "no operand is packed inside a vectorised loop"
    if carries_dependence(tree, nest, depth, relaxed=True):
        return "its iterations depend on each other in a given order"
    return None


def _no_unrolling(tree: LoopTree) -> str | None:
    _, depth = tree.place
    if tree.loop.mark is not Mark.SERIAL:
        return f"the loop is marked {tree.loop.mark.value}"
    if _points_from(tree, depth) > MOST_UNROLLED:
        return f"more than {MOST_UNROLLED} points would be unrolled"
    return None


def _not_parallel(tree: LoopTree) -> str | None:
    _, depth = tree.place
    if depth > 0:
        return "the loop is not outermost"
    if tree.loop.mark is not Mark.SERIAL:
        return f"the loop is marked {tree.loop.mark.value}"
    if tree.loop.packs:
        return "an operand is packed before the loop"
    if carries_dependence(tree, tree.nest, depth):
        return "its iterations depend on each other"
    return None


def _no_packing(tree: LoopTree, operand: int) -> str | None:
    _, depth = tree.place
    nest = tree.nest
    operands = nest.statement.operands
    if operand >= len(operands):
        return f"the nest has no operand {'ab'[operand]}"
    if any(operand in loop.packs for loop in nest.loops):
        return "the operand is packed already"
    if operands[operand].array == nest.statement.write.array:
        return "the nest writes the operand"
    if tree.loop.mark is Mark.PARALLEL:
        return "the loop is parallel"
    if depth > _vector_depth(tree):
        return "no operand is packed inside a vectorised loop"
    return None


def _no_accumulators(tree: LoopTree) -> str | None:
    statement = tree.nest.statement
    if statement.plus is None or not statement.reduced:
        return "the nest accumulates nothing"
    if not is_reorderable_nest(tree, tree.nest):
        return "the order of the accumulation is given"
    return None


def _points_from(tree: LoopTree, depth: int) -> int:
    return prod(loop.trips for loop in tree.nest.loops[depth:])


def _unrolled(tree: LoopTree) -> int:
    """Points of the loops from the first on that is vectorised or unrolled."""
    marks = (Mark.VECTOR, Mark.UNROLL)
    depths = [k for k, loop in enumerate(tree.nest.loops) if loop.mark in marks]
    return _points_from(tree, depths[0]) if depths else 0


def _vector_depth(tree: LoopTree) -> int:
    loops = tree.nest.loops
    return next((k for k, x in enumerate(loops) if x.mark is Mark.VECTOR), len(loops))


def _pack_depths(tree: LoopTree) -> list[int]:
    return [k for k, loop in enumerate(tree.nest.loops) if loop.packs]


@dataclass(frozen=True, slots=True)
class Session:
    """A tree and the trees before it; immutable, as trees are."""

    tree: LoopTree
    past: tuple[LoopTree, ...] = ()
    actions: tuple[str, ...] = ()  # that led here, undone ones left out
    is_over: bool = False  # after stop

    def act(self, action: str) -> Session:
        """The session after an action; raises IllegalStep where it is refused."""
        if self.is_over:
            raise IllegalStep(action, "the session was stopped")
        if action == "stop":
            return replace(self, is_over=True)
        if action == "undo":
            if not self.past:
                raise IllegalStep(action, "nothing was done")
            return Session(self.past[-1], self.past[:-1], self.actions[:-1])
        changed = act(self.tree, action)
        return Session(changed, (*self.past, self.tree), (*self.actions, action))

    def mask(self, actions: Sequence[str] = ACTIONS) -> list[bool]:
        """Which of the actions are possible now."""
        if self.is_over:
            return [False] * len(actions)
        return mask(self.tree, actions, can_undo=bool(self.past))
