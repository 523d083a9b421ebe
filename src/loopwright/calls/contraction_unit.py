"""A contraction of a program as kernels: operand prologues, the product, the epilogue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from loopwright.calls.arguments import Arrays, Fresh, Values
from loopwright.calls.layout import Strides, row_major, stride_values, unit_strides
from loopwright.calls.plan_log import log_plan
from loopwright.calls.recipe import Recipe
from loopwright.ir.contraction import ACCUMULATOR, Contraction, LoopRange, Operand
from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Cast, Const, Expr, Var
from loopwright.ir.form import Initial
from loopwright.ir.program import Access, Array, Role
from loopwright.ir.walk import substitute, walk
from loopwright.kernels import (
    contraction_kernel,
    contraction_nest,
    elementwise_nest,
    nest_kernel,
    thread_pool,
)
from loopwright.lower.linear_forms import linear
from loopwright.machines.host import host
from loopwright.planner.analytical import Algebra, Choice, choose
from loopwright.planner.numbers import contraction_shape, value_of
from loopwright.semirings.named import identity

if TYPE_CHECKING:
    from loopwright.ir.loops import LoopNest

__all__ = ["ContractionUnit"]

Run = Callable[[Arrays], None]
Prove = Callable[[Choice], object]  # raises Unproven where it cannot

_NO_TABLE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class _Fill:
    """`target = value` over loops, before or after the product."""

    loops: tuple[LoopRange, ...]
    target: Access
    value: Expr


class ContractionUnit:
    """The code around and of one contraction.

    What the kernel's form cannot express goes through temporaries: an operand with a prologue is
    computed into one, an epilogue is applied to the finished sums. Both cost a pass over data that
    the product reads or writes many times.
    """

    def __init__(self, recipe: Recipe, contraction: Contraction) -> None:
        self._params = recipe.params
        self._arrays = list(recipe.arrays)
        self._given = len(recipe.arrays)  # arrays beyond these are temporaries
        self._contraction = c = contraction
        self._loops = {loop.name for loop in (*c.batch, *c.i, *c.j, *c.p)}
        self._before: list[_Fill] = []
        self._after: list[_Fill] = []
        self._left = self._operand(c.left, (*c.batch, *c.i, *c.p), "left_value")
        self._right: Access | None = None
        if c.right is not None:
            self._right = self._operand(c.right, (*c.batch, *c.p, *c.j), "right_value")
        self._outer = (*c.batch, *c.i, *c.j)
        self._out = self._result()
        self._zero = Const(identity(c.plus, c.dtype), c.dtype)
        self._initial = self._start()

    def _operand(self, operand: Operand, loops: tuple[LoopRange, ...], name: str) -> Access:
        """Where the kernel reads an operand: in place, or where its prologue put it."""
        value = operand.value
        if isinstance(value, Cast) and value.dtype == self._contraction.dtype:
            value = value.x  # the kernel converts elements to the type of its sums
        if value == operand.access.load() and self._has_strides(operand.access):
            return operand.access
        used = {x.name for x in walk(operand.value) if isinstance(x, Var)}
        needed = tuple(loop for loop in loops if loop.name in used)
        place = self._temporary(name, needed, operand.value.dtype)
        self._before.append(_Fill(needed, place, operand.value))
        return place

    def _result(self) -> Access:
        """Where the kernel leaves its sums: in place, or where the epilogue takes them from."""
        c = self._contraction
        is_plain = c.final == Var(ACCUMULATOR, c.dtype) and c.out.dtype == c.dtype
        if is_plain and self._has_strides(c.out):
            return c.out
        sums = self._temporary("sums", self._outer, c.dtype)
        value = substitute(c.final, {ACCUMULATOR: sums.load()})
        self._after.append(_Fill(self._outer, c.out, _as(value, c.out.dtype)))
        return sums

    def _has_strides(self, access: Access) -> bool:
        """Whether the element moves by a fixed step with each loop: not so in `A[i // 2]`."""
        atoms = (atom for entry in access.index for atom, _ in linear(entry).terms)
        return not any(
            isinstance(x, Var) and x.name in self._loops
            for atom in atoms
            if not isinstance(atom, Var)
            for x in walk(atom)
        )

    def _start(self) -> Initial:
        """What the sums start from; a value other than zero is put in their place first."""
        first = self._contraction.initial
        if _is_constant(first, self._zero):
            return Initial.ZERO
        if first != self._out.load():
            self._before.append(_Fill(self._outer, self._out, _as(first, self._out.dtype)))
        return Initial.OUT

    def _temporary(self, wish: str, loops: tuple[LoopRange, ...], dtype: DType) -> Access:
        taken = {a.name for a in self._arrays} | set(self._params) | self._loops
        name = wish
        while name in taken:
            name += "_"
        shape = tuple((loop.stop - loop.start).max(0) for loop in loops)
        index = tuple(Var(loop.name) - loop.start for loop in loops)
        self._arrays.append(Array(name, dtype, shape, Role.LOCAL))
        return Access(name, index, dtype)

    # -- one call ---------------------------------------------------------------------------------

    def prepare(self, params: Values, strides: Strides, threads: int, prove: Prove) -> Run:
        """Kernels and launches for arrays of these strides; `prove` is asked for new kernels."""
        temporaries = self._temporaries(params)
        strides = _with(strides, temporaries)
        runs = [
            *(self._fill(fill, params, strides) for fill in self._before),
            self._product(params, strides, threads, prove),
            *(self._fill(fill, params, strides) for fill in self._after),
        ]

        def run(arrays: Arrays) -> None:
            for name, shape, dtype in temporaries:
                arrays[name] = np.empty(shape, dtype)
            for part in runs:
                part(arrays)

        return run

    def _temporaries(self, params: Values) -> tuple[Fresh, ...]:
        return tuple(
            (a.name, tuple(value_of(extent, params) for extent in a.shape), a.dtype.numpy)
            for a in self._arrays[self._given :]
        )

    def _choice(self, params: Values, strides: Strides, threads: int) -> Choice | None:
        """The plan of the product; None when nothing is to be multiplied."""
        c, left, out = self._contraction, self._left, self._out
        right = left if self._right is None else self._right
        shape = contraction_shape(c, (left, right, out), params, strides)
        if 0 in shape.sizes:
            return None
        if self._right is None:
            batch, i, j, p = (tuple(replace(d, right=0) for d in x) for x in shape.bundles)
            shape = replace(shape, batch=batch, i=i, j=j, p=p)
        algebra = Algebra(
            plus=c.plus,
            times="first" if self._right is None else c.times,
            zero=self._zero.value,
            left=left.dtype,
            right=right.dtype,
            out=out.dtype,
            accumulator=c.dtype,
            initial=self._initial,
            scaled=False,
            reassoc=c.reassoc,
        )
        return choose(shape, algebra, host(), threads)

    def _product(self, params: Values, strides: Strides, threads: int, prove: Prove) -> Run:
        choice = self._choice(params, strides, threads)
        if choice is None:
            if self._initial is not Initial.ZERO:
                return lambda arrays: None
            return self._fill(self._nothing(), params, strides)
        log_plan(f"contraction {self._contraction.statement}", choice)
        kernel = contraction_kernel(choice.form, lambda: prove(choice))
        bound = kernel.bind(choice.values, choice.table, choice.threads, thread_pool)
        left, right = self._left.array, (self._right or self._left).array
        if choice.shape.swapped:
            left, right = right, left
        out = self._out.array
        return lambda arrays: bound(arrays[out], arrays[left], arrays[right])

    def _nothing(self) -> _Fill:
        """The sums of nothing."""
        return _Fill(self._outer, self._out, self._zero)

    def _fill(self, fill: _Fill, params: Values, strides: Strides) -> Run:
        machine, unit = host(), sorted(unit_strides(strides))
        made_for = (machine.vector_bytes, machine.vector_registers)
        key = repr((fill, self._arrays, self._params, unit, made_for))
        what = f"loops that fill '{fill.target.array}'"
        kernel = nest_kernel(key, lambda: self._fill_nest(fill, strides), what)
        bound = kernel.bind(params | stride_values(strides), _NO_TABLE)
        names = kernel.buffers
        return lambda arrays: bound(*(arrays[name] for name in names))

    def _fill_nest(self, fill: _Fill, strides: Strides) -> LoopNest:
        unit = unit_strides(strides)
        return elementwise_nest(
            fill.loops, fill.target, fill.value, self._arrays, self._params, unit
        )

    # -- reports ----------------------------------------------------------------------------------

    def explain(self, params: Values, strides: Strides, threads: int) -> str:
        """The plan of a call in words."""
        strides = _with(strides, self._temporaries(params))
        choice = self._choice(params, strides, threads)
        if choice is None:
            return "nothing to compute"
        from loopwright.planner.explain import explain_choice  # lazy: for reports only

        return explain_choice(choice, host())

    def nests(self, params: Values, strides: Strides, threads: int) -> list[LoopNest]:
        """The nests of a call in the order they run."""
        strides = _with(strides, self._temporaries(params))
        choice = self._choice(params, strides, threads)
        if choice is None:
            empty = [self._nothing()] if self._initial is Initial.ZERO else []
            fills = [*self._before, *empty, *self._after]
            return [self._fill_nest(fill, strides) for fill in fills]
        return [
            *(self._fill_nest(fill, strides) for fill in self._before),
            contraction_nest(choice.form),
            *(self._fill_nest(fill, strides) for fill in self._after),
        ]


def _with(strides: Strides, temporaries: tuple[Fresh, ...]) -> Strides:
    return {**strides, **{name: row_major(shape) for name, shape, _ in temporaries}}


def _as(value: Expr, dtype: DType) -> Expr:
    return value if value.dtype == dtype else Cast(value, dtype)


def _is_constant(value: Expr, constant: Const) -> bool:
    """Whether `value` is this constant, bit for bit: -0.0 is not 0.0."""
    if not isinstance(value, Const) or value.dtype != constant.dtype:
        return False
    one, other = (np.array(x.value, constant.dtype.numpy) for x in (value, constant))
    return one.tobytes() == other.tobytes()
