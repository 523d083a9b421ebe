"""The code of a request: found in memory or on disk, else planned, scanned and compiled.

    KernelRequest --plan--> Computation --scan--> LoopNest --> code

What a call needs besides the code is cached with it, so that a request of an earlier process needs
no plan: proving that rows may run in parallel takes longer than all else.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from loopwright.ir.expr import Var as ScalarVar
from loopwright.kernels import nest_kernel, recall, remember, stage_text
from loopwright.lazy_dataclass import dataclass
from loopwright.machines.machine_argument import target_machine
from loopwright.memo import computed_once
from loopwright.runtime.code_memory import keeps_code
from loopwright.sparse.executors.compose import REFUSED, SPARSE, KernelRequest, named_format
from loopwright.sparse.executors.interior_rows import RowBound
from loopwright.sparse.format import Format
from loopwright.sparse.uf import Constraint, Term, TupleVar, parse_linear
from loopwright.sparse.validated_levels import levels_of

if TYPE_CHECKING:
    from loopwright.ir.loops import LoopNest
    from loopwright.runtime.kernel import CompiledKernel
    from loopwright.sparse.executors.kernel_plan import KernelPlan

__all__ = ["SparseCode", "code_of"]


@dataclass(frozen=True)
class Preconditions:
    """What must hold before code runs."""

    is_filled: bool  # the result must hold zeros before
    row_bounds: tuple[RowBound, ...]  # give the cuts between interior row ranges
    relies_on_invariants: bool  # the invariants of the format must have been checked
    is_validated: bool  # index arrays are validated by the code, which says what it found

    def to_json(self) -> dict[str, Any]:
        row_bounds = [[e.is_low, e.array, e.factor, str(e.rest)] for e in self.row_bounds]
        flags = {"is_filled": self.is_filled, "relies_on_invariants": self.relies_on_invariants}
        return {**flags, "is_validated": self.is_validated, "row_bounds": row_bounds}

    @staticmethod
    def of_json(facts: dict[str, Any]) -> Preconditions:
        row_bounds = (
            RowBound(low, name, by, parse_linear(r, ())) for low, name, by, r in facts["row_bounds"]
        )
        flags = facts["relies_on_invariants"], facts["is_validated"]
        return Preconditions(facts["is_filled"], tuple(row_bounds), *flags)


class SparseCode:
    """The loops and the machine code of a request."""

    def __init__(self, request: KernelRequest) -> None:
        self.request = request
        self.zero = request.ring.zero(request.dtype)
        self.key = _key(request)

    @computed_once
    def plan(self) -> KernelPlan:
        from loopwright.sparse.executors.kernel_plan import plan  # lazy: for new kernels only

        if self.request.is_validated:  # loops are rewritten later: the plan is the same
            return code_of(replace(self.request, is_validated=False)).plan
        return plan(self.request)

    @computed_once
    def needs(self) -> Preconditions:
        """What the code needs; from disk where an earlier process found it out."""
        key = f"needs of {self.key}"
        known = recall(key)
        if known is not None:
            return Preconditions.of_json(known)
        flags = self.plan.relies_on_invariants, self._is_validated()
        needs = Preconditions(self.plan.is_filled, self.plan.row_bounds, *flags)
        remember(key, needs.to_json())
        return needs

    @computed_once
    def kernel(self) -> CompiledKernel:
        """The loaded code; compiled when it is neither in memory nor on disk."""
        return nest_kernel(self.key, self.nest, f"sparse {self.request.format.name}")

    def _is_validated(self) -> bool:
        return self.request.is_validated and any(b.name == REFUSED for b in self.nest().buffers)

    def nest(self) -> LoopNest:
        """The loops; those that validate as they run, where that is requested and possible."""
        from loopwright.sparse.executors.row_blocking import (  # lazy: for new kernels only
            unroll_and_jam_rows,
            vectorize_rows,
        )
        from loopwright.sparse.executors.row_loops import (  # lazy: likewise
            carry_row_pointers,
            split_fma_chains,
            zero_extend_indices,
        )
        from loopwright.sparse.executors.validate_blocks import validate_in_blocks  # lazy: likewise
        from loopwright.sparse.spf.scan import scan  # lazy: likewise

        scanned = scan(self.plan.computation)
        nest = carry_row_pointers(unroll_and_jam_rows(scanned))
        machine = target_machine()
        nest = split_fma_chains(vectorize_rows(nest, machine.vector_bytes), machine)
        nest = zero_extend_indices(nest, _counted_from_0(self.request.format))
        if not self.request.is_validated:
            return nest
        levels = levels_of(named_format(self.request.format))
        return validate_in_blocks(nest, scanned, levels) or nest

    def inspect(self, stage: str) -> str:
        """The text of a stage: "loops", "c", "llvm" or "asm"."""
        return stage_text(self.nest(), stage, target_machine())


def _key(request: KernelRequest) -> str:
    """The name of the code, the same in every process: functions count by what they compute."""
    ring, dtype = request.ring, request.dtype
    x, y = ScalarVar("x", dtype), ScalarVar("y", dtype)
    operators = ring.plus_expr(dtype, x, y), ring.times_expr(dtype, x, y)
    told = replace(request, ring=replace(ring, plus="", times=""))
    made_for = target_machine().content_hash
    return f"sparse kernel {told!r} of {operators!r} for {made_for}"


@keeps_code
@lru_cache(maxsize=512)
def code_of(request: KernelRequest) -> SparseCode:
    """The code of a request; nothing is compiled before it is used."""
    return SparseCode(request)


@lru_cache(maxsize=256)
def _counted_from_0(format: Format) -> frozenset[str]:
    """Index arrays whose numbers are never negative, which is validated before code runs."""
    found = []
    for index in format.indices:
        (name,) = index.range.variables
        at_least = Constraint.ge(Term.of(TupleVar(name)))
        is_bounded = all(at_least in conj.constraints for conj in index.range.conjs)
        if is_bounded and index.pad is None:
            found.append(SPARSE + index.name)
    return frozenset(found)
