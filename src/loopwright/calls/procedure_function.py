"""A whole NumPy function for one tuple of argument types: variants, kernels, calls, reports.

A variant of the function is read for what calls know of the memory of their arguments. A call that
a variant is not made for (a guard fails, arguments overlap, elements are not aligned) runs the
Python function, before anything was written.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeAlias

from loopwright import options
from loopwright.calls.arguments import stride_values
from loopwright.calls.entry_values import EntryValues
from loopwright.calls.procedure_call import ForPython, ProcedureCall, argument_strides
from loopwright.calls.procedure_definition import (
    Interface,
    ProcedureDefinition,
    interface_of,
)
from loopwright.diagnostics import SourceError, UsageError
from loopwright.frontends.python import ArgType
from loopwright.frontends.python.fingerprint import NewCapture, argument_types, lookup
from loopwright.frontends.python.procedures.variant import Variant
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.expr import Var
from loopwright.ir.procedure import Procedure
from loopwright.kernels import nest_kernel, stage_text
from loopwright.log import log
from loopwright.machines.machine_argument import target_machine
from loopwright.memo import BoundedCache
from loopwright.runtime.array_arguments import (
    Array,
    is_regular,
    made_for,
    overlaps_itself,
)

if TYPE_CHECKING:
    from loopwright.ir.loops import LoopNest
    from loopwright.runtime.call_table import CallProgram
    from loopwright.runtime.kernel import CompiledKernel

__all__ = ["ProcedureFunction"]

Run: TypeAlias = Callable[[tuple[Any, ...]], Any]

_Read: TypeAlias = "tuple[Procedure, LoopNest]"

_MOST_READY = 1024  # calls remembered with their kernel
_MOST_VARIANTS = 16
_LEAST, _MOST = -(2**63), 2**63 - 1


class _Variant:
    """A function as it was read for one kind of call, by this process or an earlier one.

    `key` stands for all that it means, None where text does not tell that.
    """

    def __init__(self, known: Interface, key: str | None, read: Callable[[], _Read]) -> None:
        self.interface, self._key, self._read = known, key, read
        # By the strides that code is made for: kernels serve all integers.
        self._kernels: dict[tuple[tuple[str, int], ...], CompiledKernel] = {}

    @property
    def procedure(self) -> Procedure:
        """The function without its statements."""
        return self.interface.procedure

    def read(self) -> _Read:
        """The function with its statements, and its loops."""
        return self._read()

    def kernel(self, strides: dict[str, tuple[int, ...]]) -> CompiledKernel:
        """The kernel for arrays with these strides in elements."""
        made = made_for(stride_values(strides))
        known = tuple(sorted(made.items()))
        found = self._kernels.get(known)
        if found is None:
            meaning = self._key or repr(self.read()[1])
            what = f"function '{self.procedure.name}'"
            found = self._kernels[known] = nest_kernel(
                f"procedure {meaning} {known}", lambda: _specialised(self.read()[1], strides), what
            )
        return found


class ProcedureFunction:
    """A function for one tuple of argument types. Safe to call from several threads at once."""

    def __init__(self, function: FunctionType, types: tuple[ArgType, ...]) -> None:
        self._function, self._types = function, types
        self.captured: tuple[tuple[str, object], ...] = ()  # outer names, the values they had
        self.python_calls = 0  # that the Python function has run
        self._variants: dict[Variant, _Variant | SourceError] = {}
        self._ready: BoundedCache[tuple[Any, ...], Run] = BoundedCache(_MOST_READY)
        self._hidden: tuple[str, ...] = ()  # arrays from outside, passed behind the arguments
        self._in_key = tuple(k for k, x in enumerate(types) if _is_integer(x))
        self._arrays = tuple(k for k, x in enumerate(types) if x.kind == "array")
        self._count = len(types)

    def recall_for(self, args: tuple[Any, ...]) -> bool:
        """Whether an earlier process has compiled the function for such a call."""
        arrays = self._arrays_of(self._with_hidden(args))
        if not all(map(is_regular, arrays.values())):
            return False
        variant = _variant_of(arrays)
        return self._definition(variant).recalled() is not None and bool(self._variant(variant))

    def read_for(self, args: tuple[Any, ...]) -> None:
        """Read the function for a call; raises SourceError where it cannot be compiled."""
        arrays = self._arrays_of(self._with_hidden(args))
        if all(map(is_regular, arrays.values())):
            try:
                self._variant(_variant_of(arrays))
            except NewCapture as capture:
                self._hide(capture.name)
                self.read_for(args)

    def _hide(self, name: str) -> None:
        """Pass an array from outside as one more argument from now on."""
        self._hidden = (*self._hidden, name)
        self._types = (*self._types, *argument_types((lookup(self._function, name),)))
        self._arrays = (*self._arrays, self._count + len(self._hidden) - 1)
        self._variants.clear()
        self._ready.clear()

    def __call__(self, args: tuple[Any, ...], threads: int) -> Any:
        """Run compiled code, on one thread, or the Python function."""
        del threads
        given = self._with_hidden(args)
        key = self._key(given)
        run = self._ready.get(key)
        if run is None:
            try:
                run = self._ready[key] = self._prepare(given)
            except NewCapture as capture:
                self._hide(capture.name)
                return self(args, 1)
        try:
            return run(given)
        except ForPython as reason:
            return self._in_python(args, reason)

    def _with_hidden(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of a call, and the arrays from outside as they are now."""
        if not self._hidden:
            return args
        return (*args, *[lookup(self._function, name) for name in self._hidden])

    def _arrays_of(self, given: tuple[Any, ...]) -> dict[int, Array]:
        return {k: given[k] for k in self._arrays}

    def _key(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (
            *[(args[k].shape, args[k].strides) for k in self._arrays],
            *[args[k] for k in self._in_key],
        )

    def record(self, program: CallProgram, args: tuple[Any, ...], threads: int) -> bool:
        """Write down what a call does that came before; False where that is not possible."""
        del threads
        if self._hidden:  # arrays from outside are looked up in every call
            return False
        run = self._ready.get(self._key(args))
        return isinstance(run, ProcedureCall) and run.record(program, args)

    def _in_python(self, args: tuple[Any, ...], reason: object) -> Any:
        self.python_calls += 1
        log("python", lambda: f"{self._function.__qualname__}: {reason}")
        return self._function(*args)

    # -- variants ---------------------------------------------------------------------------------

    def _variant(self, variant: Variant) -> _Variant:
        found = self._variants.get(variant)
        if found is None:
            if len(self._variants) >= _MOST_VARIANTS:
                raise ForPython("there are too many kinds of calls")
            try:
                found = self._known(variant)
            except SourceError as error:
                found = error
            self._variants[variant] = found
        if isinstance(found, SourceError):
            raise found
        return found

    def _definition(self, variant: Variant) -> ProcedureDefinition:
        machine = target_machine().content_hash
        return ProcedureDefinition(self._function, self._types, variant, machine)

    def _known(self, variant: Variant) -> _Variant:
        """The function for one kind of call, from disk or read now."""
        definition = self._definition(variant)
        recalled = None if self._hidden else definition.recalled()
        log("cache", lambda: f"{'miss' if recalled is None else 'hit'}, {definition}")
        if recalled is None:
            made = self._read(variant)
            interface = interface_of(*made)
            key = None if self._hidden else definition.keep(interface)
            found = _Variant(interface, key, lambda: made)
        else:
            key, interface = recalled
            found = _Variant(interface, key, cache(lambda: self._read(variant)))
        captured = interface.procedure.captured
        self.captured = tuple(dict([*self.captured, *captured]).items())
        return found

    def _read(self, variant: Variant) -> _Read:
        # lazy: loads what reads and lowers functions
        from loopwright.frontends.python.procedures.read_procedure import read_procedure

        # lazy: likewise
        from loopwright.lower.procedure_nests.lower_procedure import lower_procedure

        # lazy: likewise
        from loopwright.planner.contraction_plans.inner_product import planned_product

        procedure = read_procedure(self._function, self._types, variant, self._hidden)
        if options.current().check:
            from loopwright.ir.check_procedure import check_procedure  # lazy: developers check

            check_procedure(procedure)
        names = [parameter.name for parameter in procedure.parameters]
        orders = {names[k]: order for k, order in variant.orders}
        machine = target_machine()
        nest = lower_procedure(
            procedure, orders, 64 * machine.lanes(64), partial(planned_product, machine=machine)
        )
        return procedure, nest

    def _fitting(self, args: tuple[Any, ...]) -> tuple[_Variant, EntryValues]:
        """The variant for a call, and the sizes and integers that the call gives it."""
        arrays = {k: args[k] for k in self._arrays}
        if not all(map(is_regular, arrays.values())):
            raise ForPython("elements are not aligned")
        variant = _variant_of(arrays)
        reason = ""
        for trusting in (True, False):
            try:
                found = self._variant(
                    Variant(variant.ones, variant.orders, variant.gapped, trusting)
                )
            except SourceError as error:
                if self._has_code():
                    raise ForPython(f"calls of this kind are not compiled: {error}") from error
                raise
            values = EntryValues(_integers(found.procedure, args))
            broken = _broken_guard(found.procedure, args, values)
            if broken is None:
                return found, values
            reason = broken
        raise ForPython(reason)

    def _has_code(self) -> bool:
        return any(isinstance(found, _Variant) for found in self._variants.values())

    # -- calls ------------------------------------------------------------------------------------

    def _prepare(self, args: tuple[Any, ...]) -> Run:
        """What runs calls with these shapes, strides and integers."""
        try:
            found, values = self._fitting(args)
            self._require_own_elements(found, args)
        except ForPython as verdict:
            return partial(_refuse, str(verdict))
        kernel = found.kernel(argument_strides(found.procedure, args))
        return ProcedureCall(kernel, args, values, found.interface)

    def _require_own_elements(self, found: _Variant, args: tuple[Any, ...]) -> None:
        """Refuse a call that writes elements which several indices reach."""
        for parameter, arg in zip(found.procedure.parameters, args, strict=True):
            if parameter.name in found.interface.written and overlaps_itself(arg):
                raise ForPython(f"elements of '{parameter.name}' share memory")

    # -- reports ----------------------------------------------------------------------------------

    def explain(self, args: tuple[Any, ...] = (), threads: int = 1) -> str:
        """What the function is compiled to."""
        del threads
        from loopwright.ir.procedure_text import procedure_text  # lazy: loads isl

        try:
            if not args:
                return f"{self._function.__name__}: a whole function, as loops in source order"
            found = self._fitting(self._with_hidden(args))[0]
        except ForPython as reason:
            return f"'{self._function.__name__}' is left to Python: {reason}"
        lines = ["a whole function, its statements as loops in source order, on one thread"]
        if self.python_calls:
            lines.append(f"{self.python_calls} calls were left to Python")
        procedure = found.read()[0]
        return "\n".join([*lines, *procedure.claims, procedure_text(procedure)])

    def inspect(self, stage: str, args: tuple[Any, ...], threads: int) -> str:
        """The text of a stage for one call: loops, c, llvm or asm."""
        del threads
        args = self._with_hidden(args)
        try:
            found = self._fitting(args)[0]
        except ForPython as reason:
            raise UsageError(f"the call is left to Python: {reason}") from reason
        nest = _specialised(found.read()[1], argument_strides(found.procedure, args))
        return stage_text(nest, stage, target_machine())

    def inspect_schedule(self, args: tuple[Any, ...] = (), threads: int = 1) -> str:
        """The statements in the order they run."""
        return self.explain(args, threads)

    def plan_of(self, args: tuple[Any, ...], threads: int) -> Any:
        """Refuse: such functions run in source order."""
        raise self._has_no_plan()

    def task(self, args: tuple[Any, ...], threads: int, *, as_loops: bool = False) -> Any:
        """Refuse: there are no plans to measure."""
        raise self._has_no_plan()

    def _has_no_plan(self) -> UsageError:
        return UsageError(
            f"'{self._function.__name__}' is compiled as a whole function, which has no plan",
            hint="plans are for functions of affine loops alone",
        )


def _refuse(reason: str, args: tuple[Any, ...]) -> Any:
    del args
    raise ForPython(reason)


def _specialised(nest: LoopNest, strides: dict[str, tuple[int, ...]]) -> LoopNest:
    from loopwright.lower.buffers import specialise  # lazy: for new kernels only

    return specialise(nest, made_for(stride_values(strides)))


def _integers(procedure: Procedure, args: tuple[Any, ...]) -> dict[str, int]:
    """The sizes and integer arguments of a call."""
    pairs = list(zip(procedure.parameters, args, strict=True))
    values: dict[str, int] = {}
    for parameter, arg in pairs:
        if parameter.kind == "array":
            shape = zip(procedure.array(parameter.name).shape, arg.shape, strict=True)
            values |= {extent.name: size for extent, size in shape if isinstance(extent, Var)}
        if parameter.kind == "int":
            values[parameter.name] = int(arg)
            if not _LEAST <= values[parameter.name] <= _MOST:
                raise ForPython(f"argument '{parameter.name}' does not fit int64")
    return values


def _broken_guard(procedure: Procedure, args: tuple[Any, ...], values: EntryValues) -> str | None:
    """What a procedure is not made for; None where it is made for the call."""
    for parameter, arg in zip(procedure.parameters, args, strict=True):
        if parameter.kind != "array":
            continue
        for extent, size in zip(procedure.array(parameter.name).shape, arg.shape, strict=True):
            if values.integer(extent) != size:
                return f"the shape of '{parameter.name}' is {arg.shape}"
    for guard in procedure.guards:
        if not values.holds(guard):
            from loopwright.ir.text import expr_text  # lazy: loads isl

            return f"not so: {expr_text(guard)}"
    return None


def _is_integer(kind: ArgType) -> bool:
    """Whether an argument may be a variable of the code, whose value calls are prepared for."""
    return kind.kind != "array" and DTYPES[kind.dtype].is_exact


def _variant_of(arrays: dict[int, Array]) -> Variant:
    """What calls with these arrays, by position, know of their memory."""
    orders = {k: _order(array) for k, array in arrays.items()}
    return Variant(
        frozenset((k, d) for k, x in arrays.items() for d, n in enumerate(x.shape) if n == 1),
        tuple((k, order) for k, order in orders.items() if order != tuple(range(len(order)))),
        frozenset(k for k, x in arrays.items() if _has_gaps(x, orders[k])),
    )


def _order(array: Array) -> tuple[int, ...]:
    """The dimensions from the slowest to the fastest; those that do not move keep their places."""
    pairs = zip(array.shape, array.strides, strict=True)
    moves = [extent != 1 and stride != 0 for extent, stride in pairs]
    moving = (d for d in range(array.ndim) if moves[d])
    by_stride = iter(sorted(moving, key=lambda d: -abs(array.strides[d])))
    return tuple(next(by_stride) if moves[d] else d for d in range(array.ndim))


def _has_gaps(array: Array, order: tuple[int, ...]) -> bool:
    """Whether the elements do not lie one behind the other."""
    return not array.transpose(order).flags.c_contiguous
