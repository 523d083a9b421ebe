"""The proof behind a new kernel of einsum: its program, its contraction, its plan, all checked.

A kernel from memory or disk was proven when it was made; only compiling a new one comes here, so
that calls of known kernels never load isl.
"""

from __future__ import annotations

from functools import partial

from loopwright.analysis.find_contractions import explain, find_contractions
from loopwright.calls.unproven import Unproven, unproven
from loopwright.diagnostics import InternalError
from loopwright.faults import FAULTS, survive
from loopwright.frontends.einsum_syntax import EinsumSubscripts
from loopwright.frontends.einsum_tree import FIRST_OPERAND, einsum_tree
from loopwright.frontends.extract import program_of
from loopwright.ir.expr import Binary
from loopwright.ir.form import Initial
from loopwright.ir.islkit import bounded
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.text import schedule_text
from loopwright.log import dump
from loopwright.planner.analytical import Algebra, Choice
from loopwright.planner.contraction_plan import contraction_plan
from loopwright.transform.apply import apply_plan

__all__ = ["prove_einsum"]


def prove_einsum(names: EinsumSubscripts, algebra: Algebra, choice: Choice) -> Schedule:
    """The legal schedule that `choice` stands for.

    Raises Unproven when isl gives up, and when a plan that is not legal is survived.

    Operators of users are opaque to the proof: what counts is that plus is associative and
    commutative, which was tried when their semiring was made. Known names stand in for them.
    """
    operands = (algebra.left, algebra.right)[: len(names.operands)]
    plus = algebra.plus if isinstance(algebra.plus, str) else "max"
    times = algebra.times if isinstance(algebra.times, str) else "add"
    zero = algebra.zero if algebra.initial is Initial.ZERO else None
    operators = partial(Binary, plus), partial(Binary, times)
    tree = einsum_tree(names, operands, algebra.accumulator, *operators, zero)
    try:
        schedule = bounded(
            lambda: _schedule(names, program_of(tree, reassoc=algebra.reassoc), choice), unproven
        )
    except FAULTS as error:
        survive(error, f"the proof of einsum '{names.text}'")
        raise Unproven(str(error)) from error
    dump("schedule", lambda: schedule_text(schedule))
    return schedule


def _schedule(names: EinsumSubscripts, program: Program, choice: Choice) -> Schedule:
    found = find_contractions(program)
    if len(found) != 1 or len(found[0].covers) != len(program.statements):
        reasons = "; ".join(explain(program))
        raise InternalError(f"einsum '{names.text}' was not proven a contraction", reasons)
    # The analysis takes the operand that has loops for left, whichever comes first.
    turned = found[0].left.access.array != FIRST_OPERAND
    return apply_plan(program, contraction_plan(found[0], choice, turned=turned))
