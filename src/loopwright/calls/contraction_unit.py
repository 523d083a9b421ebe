"""A contraction of a program as kernels: operand prologues, the product, the epilogue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from loopwright.calls.arguments import (
    Fresh,
    Strides,
    Values,
    row_major,
    short_strides,
    stride_values,
)
from loopwright.calls.function_summary import FunctionSummary
from loopwright.calls.launches import Launch, Launches
from loopwright.ir.contraction import Contraction
from loopwright.ir.contraction_shape import ContractionShape
from loopwright.ir.kernel_variant import Algebra, Initial
from loopwright.kernels import contraction_kernel, elementwise_nest, nest_kernel, thread_pool
from loopwright.lower.contraction_nests.contraction_parts import Fill, split_contraction
from loopwright.lower.contraction_nests.launch import launch
from loopwright.planner.contraction_plans.analytical import Choice, choose
from loopwright.planner.contraction_plans.call_shape import contraction_shape, value_of
from loopwright.planner.contraction_plans.explain import log_plan
from loopwright.planner.contraction_plans.vectors import crosses_columns, reads_windows
from loopwright.tuning.recall import origin_line, recorded_choice

if TYPE_CHECKING:
    from loopwright.ir.loops import LoopNest
    from loopwright.ir.machine import Machine
    from loopwright.transform.plan import Plan
    from loopwright.tuning.records import Record

__all__ = ["ContractionUnit"]

Compile = Callable[
    [Choice], "LoopNest"
]  # by a proven schedule; raises Unproven where there is none

_NO_TABLE = np.zeros(0, dtype=np.int64)


class ContractionUnit:
    """The code around and of one contraction: see lower/contraction_nests/contraction_parts."""

    def __init__(
        self,
        summary: FunctionSummary,
        contraction: Contraction,
        machine: Machine,
        plan: Plan | None = None,
    ) -> None:
        self._machine = machine
        self._plan = plan  # of the user; None: what the model decides
        self._params = summary.params
        self._parts = split_contraction(contraction, summary.arrays, summary.params)
        self._arrays = (*summary.arrays, *self._parts.temporaries)

    # -- one call ---------------------------------------------------------------------------------

    def prepare(
        self, params: Values, strides: Strides, threads: int, compile_: Compile
    ) -> Launches:
        """Kernels and launches for arrays of these strides; `compile_` gives new kernels."""
        temporaries = self._temporaries(params)
        strides = _with(strides, temporaries)
        product = self._product(params, strides, threads, compile_)
        return Launches(
            temporaries,
            (
                *(self._fill(fill, params, strides) for fill in self._parts.before),
                *([] if product is None else [product]),
                *(self._fill(fill, params, strides) for fill in self._parts.after),
            ),
        )

    def _temporaries(self, params: Values) -> tuple[Fresh, ...]:
        return tuple(
            (a.name, tuple(value_of(extent, params) for extent in a.shape), a.dtype.numpy)
            for a in self._parts.temporaries
        )

    def shape(self, params: Values, strides: Strides) -> ContractionShape | None:
        """The loops of the product; None when nothing is to be multiplied."""
        c = self._parts.bare
        left, out = c.left.access, c.out
        right = left if c.right is None else c.right.access
        strides = _with(strides, self._temporaries(params))
        shape = contraction_shape(c, (left, right, out), params, strides)
        if 0 in shape.sizes:
            return None
        if c.right is None:
            batch, i, j, p = (tuple(replace(d, right=0) for d in x) for x in shape.bundles)
            shape = replace(shape, batch=batch, i=i, j=j, p=p)
        return shape

    def is_faster_as_loops(self, params: Values, strides: Strides) -> bool:
        """Whether loops are faster than kernels on arrays that lie like this."""
        shape = self.shape(params, strides)
        if shape is None:
            return False
        return crosses_columns(shape, reassoc=self.reassoc) or reads_windows(shape)

    @property
    def reassoc(self) -> bool:
        """Whether the steps of the reduction may be taken in any order."""
        return self._parts.bare.reassoc

    @property
    def algebra(self) -> Algebra:
        """What the product computes."""
        return self._parts.algebra

    def choice(self, params: Values, strides: Strides, threads: int) -> Choice | None:
        """The choice for the product, by the user's plan, a record or the model; None: no product.

        There is none when nothing is to be multiplied.
        """
        return self._chosen(params, strides, threads)[0]

    def _chosen(
        self, params: Values, strides: Strides, threads: int
    ) -> tuple[Choice | None, Record | None]:
        """The choice, and the record that it comes from."""
        shape, reassoc = self.shape(params, strides), self.reassoc
        if shape is None:
            return None, None
        given = shape, self._parts.algebra, self._machine, threads
        if self._plan is None:
            made = choose(*given, reassoc=reassoc)
            return recorded_choice(made, *given, reassoc=reassoc) or (made, None)
        # lazy: plans load isl
        from loopwright.planner.contraction_plans.given_choice import given_choice

        return given_choice(self._plan, *given, reassoc=reassoc), None

    def _product(
        self, params: Values, strides: Strides, threads: int, compile_: Compile
    ) -> Launch | None:
        choice = self.choice(params, strides, threads)
        c = self._parts.bare
        if choice is None:
            if self._parts.algebra.initial is not Initial.ZERO:
                return None
            return self._fill(self._parts.empty, params, strides)
        log_plan(f"contraction {c.statement}", choice, self._machine)
        kernel = contraction_kernel(choice.kernel, lambda: compile_(choice))
        values = launch(choice.variant, choice.blocks, choice.shape)
        bound = kernel.bind(values.values, values.table, choice.threads, thread_pool)
        left = c.left.access.array
        right = left if c.right is None else c.right.access.array
        if choice.variant.swapped:
            left, right = right, left
        out = c.out.array
        return bound, (out, left, right)

    def _fill(self, fill: Fill, params: Values, strides: Strides) -> Launch:
        machine, unit = self._machine, sorted(short_strides(strides).items())
        made_for = (machine.vector_bytes, machine.vector_registers)
        key = repr((fill, self._arrays, self._params, unit, made_for))
        what = f"loops that fill '{fill.target.array}'"
        kernel = nest_kernel(key, lambda: self._fill_nest(fill, strides), what)
        return kernel.bind(params | stride_values(strides), _NO_TABLE), kernel.buffers

    def _fill_nest(self, fill: Fill, strides: Strides) -> LoopNest:
        unit = short_strides(strides)
        return elementwise_nest(
            fill.loops, fill.target, fill.value, self._arrays, self._params, unit, self._machine
        )

    # -- reports ----------------------------------------------------------------------------------

    def explain(self, params: Values, strides: Strides, threads: int) -> str:
        """The plan of a call in words."""
        choice, record = self._chosen(params, strides, threads)
        if choice is None:
            return "nothing to compute"
        # lazy: for reports only
        from loopwright.planner.contraction_plans.explain import explain_choice

        told = explain_choice(choice, self._machine)
        return told if record is None else f"{told}\n{origin_line(record)}"

    def nests(
        self, params: Values, strides: Strides, threads: int, compile_: Compile
    ) -> list[LoopNest]:
        """The nests of a call in the order they run."""
        choice = self.choice(params, strides, threads)
        strides = _with(strides, self._temporaries(params))
        before, after = (
            [self._fill_nest(fill, strides) for fill in fills]
            for fills in (self._parts.before, self._parts.after)
        )
        if choice is not None:
            return [*before, compile_(choice), *after]
        is_filled = self._parts.algebra.initial is Initial.ZERO
        empty = [self._fill_nest(self._parts.empty, strides)] if is_filled else []
        return [*before, *empty, *after]


def _with(strides: Strides, temporaries: tuple[Fresh, ...]) -> Strides:
    return {**strides, **{name: row_major(shape) for name, shape, _ in temporaries}}
