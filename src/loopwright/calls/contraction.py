"""A contraction of a program as kernels: operand prologues, the product, the epilogue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from loopwright.ir.contraction import ACCUMULATOR, Contraction, LoopRange, Operand
from loopwright.ir.expr import Cast, Const, Expr, Var
from loopwright.ir.form import Initial
from loopwright.ir.program import Access, Array, Program, Role
from loopwright.ir.text import nest_text
from loopwright.ir.visit import substitute, walk
from loopwright.kernels import (
    contraction_kernel,
    contraction_module,
    contraction_nest,
    nest_kernel,
    thread_pool,
)
from loopwright.lower.buffers import stride_name
from loopwright.machines.host import host
from loopwright.pipeline import elementwise_nest
from loopwright.planner.analytical import Algebra, Choice, choose
from loopwright.planner.explain import explain_choice
from loopwright.planner.numbers import instance_of, value_of
from loopwright.runtime import jit
from loopwright.runtime.arguments import Array as NumpyArray
from loopwright.runtime.arguments import element_strides
from loopwright.semirings import identity

__all__ = ["ContractionUnit"]

Values = dict[str, int]
Arrays = dict[str, NumpyArray]
Run = Callable[[Arrays], None]


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

    def __init__(self, program: Program, contraction: Contraction) -> None:
        self.program = program
        self.contraction = contraction
        self.arrays = list(program.arrays)
        c = contraction
        inner = (*c.batch, *c.i, *c.j)
        self.before: list[_Fill] = []
        self.left = self._operand(c.left, (*c.batch, *c.i, *c.p), "left_value")
        right = c.right
        self.right = None
        if right is not None:
            self.right = self._operand(right, (*c.batch, *c.p, *c.j), "right_value")
        self.out = c.out
        self.initial = Initial.ZERO
        plain = c.final == Var(ACCUMULATOR, c.dtype)
        if not plain or c.out.dtype != c.dtype:
            self.out = self._temporary("sums", inner, c.dtype)
        self.after: list[_Fill] = []
        if self.out is not c.out:
            value = substitute(c.final, {ACCUMULATOR: self.out.load()})
            self.after.append(_Fill(inner, c.out, _as(value, c.out)))
        zero = Const(identity(c.plus, c.dtype), c.dtype)
        if not _is_constant(c.initial, zero):
            self.initial = Initial.OUT
            if c.initial != self.out.load():
                self.before.append(_Fill(inner, self.out, _as(c.initial, self.out)))

    def _operand(self, operand: Operand, loops: tuple[LoopRange, ...], name: str) -> Access:
        """Where the kernel reads an operand: in place, or where its prologue put it."""
        value = operand.value
        if isinstance(value, Cast) and value.dtype == self.contraction.dtype:
            value = value.x
        if value == operand.access.load():
            return operand.access
        used = {x.name for e in (operand.value,) for x in walk(e) if isinstance(x, Var)}
        needed = tuple(loop for loop in loops if loop.name in used)
        place = self._temporary(name, needed, operand.value.dtype)
        self.before.append(_Fill(needed, place, operand.value))
        return place

    def _temporary(self, wish: str, loops: tuple[LoopRange, ...], dtype: object) -> Access:
        taken = {a.name for a in self.arrays} | set(self.program.params)
        name = wish
        while name in taken:
            name += "_"
        shape = tuple((loop.stop - loop.start).max(0) for loop in loops)
        index = tuple(Var(loop.name) - loop.start for loop in loops)
        self.arrays.append(Array(name, dtype, shape, Role.LOCAL))  # type: ignore[arg-type]
        return Access(name, index, dtype)  # type: ignore[arg-type]

    # -- one call ---------------------------------------------------------------------------------

    def prepare(self, params: Values, arrays: Arrays, threads: int) -> Run:
        """Kernels and launches for arrays of these shapes."""
        shapes = {
            a.name: (tuple(value_of(x, params) for x in a.shape), a.dtype.numpy)
            for a in self.arrays[len(self.program.arrays) :]
        }
        given = {**arrays, **{n: np.empty(s, d) for n, (s, d) in shapes.items()}}
        runs = [self._fill(fill, params, given) for fill in self.before]
        runs.append(self._product(params, given, threads))
        runs.extend(self._fill(fill, params, given) for fill in self.after)

        def run(arrays: Arrays) -> None:
            named = {**arrays, **{n: np.empty(s, d) for n, (s, d) in shapes.items()}}
            for part in runs:
                part(named)

        return run

    def _choice(self, params: Values, arrays: Arrays, threads: int) -> Choice | None:
        """The plan of the product; None when nothing is to be multiplied."""
        c = self.contraction
        right = self.right or replace(self.left, array=self.left.array)
        strides = {name: element_strides(array) for name, array in arrays.items()}
        instance = instance_of(c, (self.left, right, self.out), params, strides)
        if 0 in instance.sizes:
            return None
        if self.right is None:
            bundles = [tuple(replace(d, right=0) for d in dims) for dims in instance.bundles]
            left, _, out = instance.bases
            instance = replace(
                instance,
                batch=bundles[0],
                i=bundles[1],
                j=bundles[2],
                p=bundles[3],
                bases=(left, left, out),
            )
        algebra = Algebra(
            c.plus,
            c.times if self.right is not None else "first",
            identity(c.plus, c.dtype),
            self.left.dtype,
            right.dtype,
            self.out.dtype,
            c.dtype,
            self.initial,
            False,
            c.reassoc,
        )
        return choose(instance, algebra, host(), threads)

    def _product(self, params: Values, arrays: Arrays, threads: int) -> Run:
        choice = self._choice(params, arrays, threads)
        if choice is None:
            return self._empty_product(params, arrays)
        kernel = contraction_kernel(choice.form)
        bound = kernel.bind(choice.values, choice.table, choice.threads, thread_pool)
        left, right = self.left.array, (self.right or self.left).array
        if choice.instance.swapped:
            left, right = right, left
        out = self.out.array
        return lambda named: bound(named[out], named[left], named[right])

    def _empty_product(self, params: Values, arrays: Arrays) -> Run:
        """Nothing to add: only the initial value counts."""
        if self.initial is not Initial.ZERO:
            return lambda named: None
        c = self.contraction
        zero = Const(identity(c.plus, c.dtype), c.dtype)
        fill = _Fill((*c.batch, *c.i, *c.j), self.out, _as(zero, self.out))
        return self._fill(fill, params, arrays)

    def _fill(self, fill: _Fill, params: Values, arrays: Arrays) -> Run:
        strides = {
            stride_name(name, d): stride
            for name, array in arrays.items()
            for d, stride in enumerate(element_strides(array))
        }
        unit = {name: 1 for name, stride in strides.items() if stride == 1}
        nest = elementwise_nest(
            fill.loops, fill.target, fill.value, self.arrays, self.program.params, unit
        )
        kernel = nest_kernel(nest, repr(nest))
        bound = kernel.bind({**params, **strides}, np.zeros(0, dtype=np.int64))
        names = kernel.buffers
        return lambda named: bound(*(named[name] for name in names))

    # -- reports ----------------------------------------------------------------------------------

    def _planned(self, params: Values, arrays: Arrays, threads: int) -> Choice | None:
        extra = {
            a.name: np.empty(tuple(value_of(x, params) for x in a.shape), a.dtype.numpy)
            for a in self.arrays[len(self.program.arrays) :]
        }
        return self._choice(params, {**arrays, **extra}, threads)

    def explain(self, params: Values, arrays: Arrays, threads: int) -> str:
        choice = self._planned(params, arrays, threads)
        return "nothing to compute" if choice is None else explain_choice(choice, host())

    def inspect(self, stage: str, params: Values, arrays: Arrays, threads: int) -> str:
        choice = self._planned(params, arrays, threads)
        if choice is None:
            return ""
        if stage == "loops":
            return nest_text(contraction_nest(choice.form))
        text = contraction_module(choice.form).text
        return text if stage == "llvm" else jit.assembly(text)


def _as(value: Expr, target: Access) -> Expr:
    return value if value.dtype == target.dtype else Cast(value, target.dtype)


def _is_constant(value: Expr, constant: Const) -> bool:
    """Whether `value` is this constant; -0.0 is not 0.0."""
    if not isinstance(value, Const):
        return False
    return repr(complex(value.value)) == repr(complex(constant.value))
