"""Plans of contractions from the learned policy: the block of its tree as a register tile.

The policy edits the constructed tree of the contraction. What it leaves inside the innermost summed
loop is the block that is kept in registers, which a plan names as rows and vectors. Code of trees
and kernels of plans differ, so a plan that was not measured takes the construction's place only
where the model of trees promises much.
"""

from __future__ import annotations

from dataclasses import replace

from loopwright.diagnostics import UsageError
from loopwright.ir.contraction_shape import Dim
from loopwright.ir.kernel_variant import Algorithm
from loopwright.planner.contraction_plans.given_choice import given_choice, plan_of
from loopwright.transform.plan import Plan
from loopwright.tuning.loop_tree import LoopTree
from loopwright.tuning.policy import Policy
from loopwright.tuning.tasks import ContractionTask, Task
from loopwright.tuning.tensor_nests import contraction_tree_of
from loopwright.tuning.tree_facts import statement_facts

__all__ = ["LEAST_GAIN", "policy_plan", "task_tree"]

LEAST_GAIN = 1.25  # predicted, of a plan that is used without being measured


def policy_plan(task: Task, policy: Policy, least_gain: float = LEAST_GAIN) -> Plan:
    """The policy's plan of a task, else its construction.

    The construction stays where the task is no product of floating-point numbers, the plan does not
    fit, or the model of trees promises less than `least_gain` over the constructed tree.
    """
    construction = task.construction()
    step = construction.whole_contract
    tree = task_tree(task)
    if tree is None or step is None or not isinstance(task, ContractionTask):
        return construction
    (variant,) = step.variants
    if variant.algorithm is not Algorithm.PRODUCT:
        return construction
    edited = policy.tree(tree, task.machine)
    rows, columns = _block(edited)
    vectors = -(-columns // variant.lanes)
    if (rows, vectors) == (variant.rows, variant.vectors):
        return construction
    if least_gain > 1:
        cost = policy.cost(task.machine)
        if cost(policy.space.start(tree, task.machine)) < least_gain * cost(edited):
            return construction
    changed = replace(step, variants=(replace(variant, rows=rows, vectors=vectors),))
    given = task.shape, task.algebra, task.machine, task.threads
    try:
        return plan_of(given_choice(Plan((changed,)), *given, reassoc=task.reassoc))
    except UsageError:
        return construction


def task_tree(task: Task) -> LoopTree | None:
    """The naive tree of a contraction with its bundles fused; None where it has no tree."""
    if not isinstance(task, ContractionTask):
        return None
    algebra, shape = task.algebra, task.shape
    is_sum = algebra.plus == "add" and algebra.times == "mul" and algebra.out.is_float
    if not is_sum or not task.reassoc or {algebra.left, algebra.right} != {algebra.out}:
        return None
    batch, m, n, k = shape.sizes
    left = "km" if _is_unit(shape.i, "left") and not _is_unit(shape.p, "left") else "mk"
    right = "nk" if _is_unit(shape.p, "right") and not _is_unit(shape.j, "right") else "kn"
    out = "nm" if _is_unit(shape.i, "out") and not _is_unit(shape.j, "out") else "mn"
    b = "b" if batch > 1 else ""
    sizes = {"b": batch, "m": m, "n": n, "k": k}
    return contraction_tree_of(f"{b}{left},{b}{right}->{b}{out}", sizes, algebra.out)


def _is_unit(dims: tuple[Dim, ...], operand: str) -> bool:
    return bool(dims) and getattr(dims[-1], operand) == 1


def _block(tree: LoopTree) -> tuple[int, int]:
    """Rows and columns of the written block inside the innermost summed loop."""
    nest = tree.nests[0]
    groups = statement_facts(tree, nest.statement).groups
    found = {0: 1, 1: 1}
    for loop in reversed(nest.loops):
        group = groups[loop.dim]
        if group == 2:
            break
        if group in found:
            found[group] *= loop.trips
    return found[0], found[1]
