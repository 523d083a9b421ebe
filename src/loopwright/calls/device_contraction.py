"""One or two operands on a CUDA device into one result: a choice, its kernels, their launches.

Kernels are remembered by what their code depends on, launches by the layout of the arrays: a call
laid out like an earlier one plans nothing, and its tables lie on the device already.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from loopwright.backends.c_text.c_dialect import CUDA
from loopwright.backends.device_text.device_module import emit_kernels
from loopwright.calls.einsum_call import (
    Scaling,
    algebra_of,
    contraction_shape,
    extents_of,
    is_one,
)
from loopwright.frontends.einsum_syntax import EinsumSubscripts
from loopwright.ir.contraction_shape import ContractionShape
from loopwright.ir.device import value_bits
from loopwright.ir.dtypes import FLOAT32, DType
from loopwright.ir.grid_check import require_fit
from loopwright.ir.grid_kernel import ElementsKernel, GridKernel
from loopwright.ir.grid_registers import relieved
from loopwright.ir.kernel_variant import Algebra, Initial
from loopwright.lazy_dataclass import dataclass
from loopwright.log import log
from loopwright.lower.grid_nests.grid_elements import lower_grid_elements
from loopwright.lower.grid_nests.grid_launch import elements_launch, product_launch
from loopwright.lower.grid_nests.grid_product import lower_grid_product
from loopwright.lower.grid_nests.split_kernels import split_kernels
from loopwright.machines.machine_argument import target_gpu
from loopwright.memo import BoundedCache
from loopwright.planner.grid_plans.grid_products import GridChoice, choose_grid
from loopwright.runtime.cuda_driver import CudaDevice
from loopwright.runtime.cuda_executable import CudaExecutable
from loopwright.runtime.device_arrays import DeviceArray
from loopwright.runtime.device_tables import DeviceTable, refuse_capture
from loopwright.semirings import Semiring

if TYPE_CHECKING:
    from loopwright.transform.plan import Plan

__all__ = [
    "DeviceCall",
    "DeviceContraction",
    "contract_on_device",
    "copy_on_device",
    "device_choice",
    "grid_executable",
]

_MOST_KERNELS = 256
_MOST_LAUNCHES = 512
_executables: BoundedCache[str, CudaExecutable] = BoundedCache(_MOST_KERNELS)
_launches: BoundedCache[tuple[Any, ...], DeviceContraction] = BoundedCache(_MOST_LAUNCHES)
_lock = threading.RLock()
_ALIGNED = 16  # bytes that loads move at most


@dataclass(frozen=True, slots=True, eq=False)
class DeviceCall:
    """`out = beta * out plus alpha * products` of arrays on one device, in one of its streams."""

    names: EinsumSubscripts
    views: tuple[DeviceArray, ...]
    out: DeviceArray
    ring: Semiring
    accumulator: DType
    scaling: Scaling
    device: CudaDevice
    stream: int
    plan: Plan | None = None  # of the user, for one or two operands

    @property
    def algebra(self) -> Algebra:
        """What is computed, of one or two operands."""
        dtypes = [view.dtype for view in self.views]
        return algebra_of(self.ring, dtypes, self.out.dtype, self.accumulator, self.scaling)

    @property
    def shape(self) -> ContractionShape:
        """The loops of the bundles, of one or two operands."""
        layouts = [(view.shape, view.strides) for view in (*self.views, self.out)]
        return contraction_shape(self.names, extents_of(self.names, self.views), layouts)


def contract_on_device(call: DeviceCall) -> DeviceContraction:
    """One or two operands into `out`, of which there is at least one element.

    The launches are those of any other call of this layout.
    """
    scaling = call.scaling
    key = (
        call.names,
        call.ring,
        call.accumulator,
        scaling.initial,
        is_one(scaling.alpha),
        call.device,
        call.plan,
        tuple((v.dtype, v.shape, v.strides, v.pointer % _ALIGNED) for v in (*call.views, call.out)),
    )
    found = _launches.get(key)
    if found is None:
        with _lock:
            found = _launches.get(key)
            if found is None:
                found = _launches[key] = DeviceContraction(call)
    found(call)
    return found


def copy_on_device(call: DeviceCall, source: DeviceArray, target: DeviceArray) -> None:
    """Copy an array to another of its shape, converted to its type."""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(source.shape)]
    accumulator = FLOAT32 if source.dtype.is_stored_only else source.dtype
    algebra = Algebra(
        "add",
        "first",
        accumulator.numpy.type(0).item(),
        source.dtype,
        source.dtype,
        target.dtype,
        accumulator,
        Initial.ZERO,
        scaled=False,
    )
    layouts = [(view.shape, view.strides) for view in (source, target)]
    names = EinsumSubscripts((letters,), letters)
    extents = dict(zip(letters, source.shape, strict=True))
    shape = contraction_shape(names, extents, layouts)
    choice = choose_grid(shape, algebra, target_gpu(arch=call.device.arch))
    step = _Step.of(call.device, choice, choice.shape, 0)
    places = (target.pointer, source.pointer, 0)
    reach = max(source.reach, target.reach)
    step.run(places, call.scaling, call.stream, call.device, reach)


def device_choice(call: DeviceCall) -> GridChoice:
    """The kernel for one or two operands, by the user's plan or by the model."""
    left, right = call.views[0], call.views[-1]
    machine = target_gpu(arch=call.device.arch)
    pointers = (left.pointer, right.pointer, call.out.pointer)
    alignment = (_alignment(pointers[0]), _alignment(pointers[1]), _alignment(pointers[2]))
    given = call.shape, call.algebra, machine, alignment
    if call.plan is None:
        return choose_grid(*given)
    from loopwright.planner.grid_plans.given_grid import given_grid_choice  # lazy: plans load isl

    choice = given_grid_choice(call.plan, *given)
    require_fit(grid_executable(choice.kernel).program, machine)
    return choice


def grid_executable(kernel: GridKernel | ElementsKernel) -> CudaExecutable:
    """The code of a kernel, for any device."""
    key = repr(kernel)  # as text: -0.0 is not 0.0
    found = _executables.get(key)
    if found is None:
        if isinstance(kernel, GridKernel):
            nest = lower_grid_product(kernel, "product")
        else:
            nest = lower_grid_elements(kernel, "elements")
        program = split_kernels(nest)
        found = _executables[key] = CudaExecutable(program, emit_kernels([program], CUDA))
    return found


class _Step:
    """A kernel with the scalars and the table of its launch."""

    __slots__ = ("executable", "is_swapped", "kernel", "scalars", "table")

    def __init__(
        self,
        kernel: GridKernel | ElementsKernel,
        scalars: tuple[int, ...],
        table: DeviceTable | None,
    ) -> None:
        self.kernel = kernel
        self.executable = grid_executable(kernel)
        self.scalars = scalars
        self.table = table
        self.is_swapped = kernel.swapped

    @classmethod
    def of(
        cls, device: CudaDevice, choice: GridChoice, shape: ContractionShape, out_part: int
    ) -> _Step:
        kernel, given = choice.kernel, (shape, choice.parts, choice.chunk, out_part)
        if isinstance(kernel, ElementsKernel):
            return cls(kernel, elements_launch(kernel, *given).scalars, None)
        launch = product_launch(kernel, *given)
        table = DeviceTable(device, launch.table) if launch.table.size else None
        return cls(kernel, launch.scalars, table)

    def in_registers(self, device: CudaDevice, reach: int) -> _Step:
        """The step, or where its kernel spills one of the same tile that does not."""
        kernel = self.kernel
        if not isinstance(kernel, GridKernel):
            return self
        spilled = self.executable.local_bytes(self.scalars, device, reach)
        others = relieved(kernel.variant) if spilled else ()
        steps = (_Step(replace(kernel, variant=x), self.scalars, self.table) for x in others)
        found = next(
            (x for x in steps if not x.executable.local_bytes(self.scalars, device, reach)), self
        )
        if spilled:
            taken = "taken all the same" if found is self else _relief(kernel, found.kernel)
            log("plan", lambda: f"{kernel.variant}: spills {spilled} bytes of a thread, {taken}")
        return found

    def run(
        self,
        places: tuple[int, int, int],
        scaling: Scaling,
        stream: int,
        device: CudaDevice,
        reach: int,
    ) -> None:
        """Launch the kernel on the addresses of out and of the program's operands."""
        out, left, right = places
        algebra = self.kernel.algebra
        pointers = [out, right, left] if self.is_swapped else [out, left, right]
        if algebra.times == "first":
            pointers.pop()
        if self.table is not None:
            pointers.append(self.table.pointer)
        if algebra.scaled:
            pointers.append(value_bits(scaling.alpha, algebra.accumulator))
        if algebra.initial is Initial.SCALED:
            pointers.append(value_bits(scaling.beta, algebra.accumulator))
        self.executable.launch(pointers, self.scalars, stream, device, reach)
        if self.table is not None:
            self.table.used(stream)


class DeviceContraction:
    """The launches for one layout of one or two operands."""

    def __init__(self, call: DeviceCall) -> None:
        algebra = call.algebra
        choice = device_choice(call)
        text = call.names.text
        log(
            "plan",
            lambda: (
                f"einsum '{text}' on device: {choice.kernel.variant}"
                f"{f', {choice.parts} parts' if choice.parts > 1 else ''}, "
                f"{choice.seconds * 1e6:.3g} us predicted"
            ),
        )
        if isinstance(choice.kernel, GridKernel) and choice.kernel.variant.looked_up:
            refuse_capture(call.device, call.stream, f"einsum '{text}' of this layout")
        self._reach = max(view.reach for view in (*call.views, call.out))
        self._joined: _Step | None = None
        self._scratch = 0
        if choice.joined is None:
            self._first = self._planned(call, _Step.of(call.device, choice, choice.shape, 0))
            return
        batch, m, n, _ = choice.shape.sizes
        elements = batch * m * n
        first = _Step.of(call.device, choice, choice.sums, elements)
        self._joined = _Step.of(call.device, choice.joined, choice.joined.shape, 0)
        self._scratch = choice.parts * elements * algebra.accumulator.bytes
        self._reach = max(self._reach, choice.parts * elements)
        self._first = self._planned(call, first)

    def _planned(self, call: DeviceCall, step: _Step) -> _Step:
        """The step of the user's plan as it is; of ours one that keeps to registers."""
        return step if call.plan is not None else step.in_registers(call.device, self._reach)

    def __call__(self, call: DeviceCall) -> None:
        places = (call.out.pointer, call.views[0].pointer, call.views[-1].pointer)
        self.launch(places, call.scaling, call.stream, call.device)

    def launch(
        self, places: tuple[int, int, int], scaling: Scaling, stream: int, device: CudaDevice
    ) -> None:
        """Launch all kernels on the addresses of out, left and right."""
        if self._joined is None:
            self._first.run(places, scaling, stream, device, self._reach)
            return
        out, left, right = places
        with device.current():
            sums = device.allocate(stream, self._scratch)
            try:
                self._first.run((sums, left, right), scaling, stream, device, self._reach)
                self._joined.run((out, sums, 0), scaling, stream, device, self._reach)
            finally:
                device.release(stream, sums)


def _relief(kernel: GridKernel, other: GridKernel | ElementsKernel) -> str:
    """What a kernel that is taken for another one of its tile does differently."""
    assert isinstance(other, GridKernel)
    before, now = kernel.variant, other.variant
    told = ["its end computes places anew"]
    told += [f"{now.copies} step at a time"] if now.copies != before.copies else []
    told += [f"{now.resident} blocks"] if now.resident != before.resident else []
    return f"taken so that {', '.join(told)}"


def _alignment(pointer: int) -> int:
    """The greatest power of two up to 16 that divides an address."""
    return min(_ALIGNED, pointer & -pointer or _ALIGNED)
