"""Targets: what code can be emitted as. A row here is all that it takes to add one.

`compile_program`, `lw.compile` and the command `cc` know targets by this table only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any

from loopwright.analysis.subscript_bounds import guarded_loads_inside
from loopwright.backends.athread.athread_module import MeshFunction, emit_slave, require_scratchpad
from loopwright.backends.c_text.c_choices import (
    any_admitted,
    any_by_bits,
    any_open,
    any_updates,
    choices_by_bits,
    no_choices,
)
from loopwright.backends.c_text.c_dialect import (
    ATHREAD,
    C_AS_WRITTEN,
    CUDA,
    OPENCL,
    OPENMP,
    C,
    Dialect,
)
from loopwright.backends.c_text.c_elementary import has_far_numbers
from loopwright.backends.c_text.c_far_numbers import Functions, taken_in_vectors
from loopwright.backends.c_text.c_module import emit_c
from loopwright.backends.c_text.c_syntax import as_identifier
from loopwright.backends.device_text.device_host import HostFunction
from loopwright.backends.device_text.device_module import emit_kernels
from loopwright.backends.elementary.elementary_functions import elementary_functions
from loopwright.diagnostics import UsageError
from loopwright.faults import FAULTS, survive
from loopwright.ir.device import DeviceProgram
from loopwright.ir.dtypes import DType
from loopwright.ir.expr import REAL_INSTRUCTIONS, Binary, Call, Const, Expr
from loopwright.ir.grid_check import require_fit
from loopwright.ir.islkit import ISL_QUOTA, GaveUp, attempt, bounded, isl
from loopwright.ir.loops import Alloc, Buffer, For, LoopNest, Mark, Space, Stmt, Store
from loopwright.ir.machine import Machine
from loopwright.ir.mesh_machine import MeshMachine
from loopwright.ir.module import Module
from loopwright.ir.program import Program, Role
from loopwright.ir.visit import expressions, is_same, statements, walk
from loopwright.kernels import ENTRY, machine_code_module
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.ast_expressions import parameter_condition, parameter_expr
from loopwright.lower.buffers import contiguous, row_major
from loopwright.lower.collapse_rows import collapse_rows
from loopwright.lower.contract_arrays import sink_scalars
from loopwright.lower.grid_nests.split_kernels import split_kernels
from loopwright.lower.linear_forms import normal
from loopwright.lower.mesh_nests.split_mesh import split_mesh
from loopwright.lower.origins import origins
from loopwright.lower.passes import lower_schedule
from loopwright.lower.split_at_borders import split_at_borders
from loopwright.lower.values.absolute_differences import absolute_differences
from loopwright.lower.values.elements_apart import run_elements_singly
from loopwright.lower.values.extremes import takes_extremes
from loopwright.lower.values.extremes_in_lanes import extremes_in_lanes
from loopwright.lower.values.functions_apart import functions_apart
from loopwright.lower.values.fuse_products import fuse_products
from loopwright.lower.values.keep_elements import keep_elements
from loopwright.lower.values.kept_copies import write_out_kept
from loopwright.lower.values.kept_sums import gathers_in_memory
from loopwright.lower.values.masked_updates import mask_updates
from loopwright.lower.values.narrow_arithmetic import narrow_arithmetic
from loopwright.lower.values.predictive_commoning import carry_chosen
from loopwright.lower.values.promote_registers import promote_scalars
from loopwright.lower.values.rare_calls import branch_around_calls
from loopwright.lower.values.rare_lanes import branch_on_lanes
from loopwright.lower.values.rare_quotients import branch_around_quotients, has_branches_singly
from loopwright.lower.values.signs import clamp_signs, takes_signs
from loopwright.lower.values.sums_apart import run_sums_singly
from loopwright.lower.values.unsigned_sums import unsigned_sums
from loopwright.lower.values.wide_counts import counts_widely, widen_counts
from loopwright.planner.grid_plans.gpu import gpu_planner
from loopwright.planner.mesh_plans.mesh import mesh_planner, scratchpad_room
from loopwright.planner.planners import Planner, model_planner, text_planner
from loopwright.transform.schedule_legality import initial_schedule

__all__ = [
    "TARGETS",
    "MachineKind",
    "Target",
    "mesh_function",
    "tells_more",
    "text_with_bits",
    "told_to_c",
]


class MachineKind(Enum):
    """What a target's code runs on, and which data files describe it."""

    PROCESSOR = "processor"  # ir/machine
    GPU = "GPU"  # ir/gpu_machine
    MESH = "mesh"  # ir/mesh_machine


@dataclass(frozen=True, slots=True)
class Target:
    """A language that nests are printed in, who plans for it, and who runs it."""

    name: str
    kind: MachineKind
    planner: Planner  # of the plan "model"
    emit: Callable[[Program, LoopNest, Any], Module]  # for a machine of the kind
    is_parallel: bool  # its loops may be shared out to threads of a processor
    dialect: Dialect | None = None  # of C; None: machine code through LLVM, loaded here

    def threads(self, count: int) -> int:
        """How many threads code is planned for when `count` will run it."""
        return count if self.is_parallel else 1

    @property
    def is_c(self) -> bool:
        """Whether a C compiler takes its text, between the lines of a user's file too."""
        return self.dialect is not None and self.kind is MachineKind.PROCESSOR


def _emit_llvm(program: Program, nest: LoopNest, machine: Any) -> Module:
    return machine_code_module(replace(nest, name=ENTRY), machine)


def told_to_c(
    program: Program, nest: LoopNest, machine: Machine, *, library: bool = False
) -> LoopNest:
    """The nest of a program as a compiler of C likes it; `library`: all functions are its own.

    Where that is at fault, the nest as it is.
    """
    try:
        strides = {name: row_major(x) for name, x in _shapes(program).items()}
        rows = _with_constant_strides(collapse_rows(nest, strides), strides)
        return _told(_with_functions(rows, machine, library), machine, _guesses(program))
    except FAULTS as error:
        survive(error, f"the text of '{program.name}'")
        return nest


def tells_more(
    program: Program, nest: LoopNest, machine: Machine, *, library: bool = False
) -> bool:
    """Whether `told_to_c` does what pays in loops that no step has changed.

    Loads happen that data choose, numbers that they choose are named, extremes are taken of
    integers that a condition admits, selections are made without branches (c_text/c_choices),
    which only machines of AArch64 are told, elements that stay are stored again, integers gathered
    in them are reductions, loops of vectors call functions that are lines of ours, or roots and
    quotients stay under a branch.
    """
    try:
        may_guess = _guesses(program)
        nest = _with_functions(nest, machine, library)
        told = _told(nest, machine, may_guess)
        is_guessed = may_guess is not None and not is_same(told, _told(nest, machine, None))
    except FAULTS as error:
        survive(error, f"the text of '{program.name}'")
        return False
    is_chosen = any_open(told) or any_admitted(told)
    is_chosen = is_chosen or (machine.isa == "aarch64" and any_by_bits(told))
    loops = [stmt for stmt in statements(nest.body) if isinstance(stmt, For)]
    is_gathered = any(map(gathers_in_memory, loops)) or any(map(takes_extremes, loops))
    if machine.isa == "x86_64":
        is_chosen = is_chosen or any(map(_has_signs_in_vectors, loops))
        is_chosen = is_chosen or any(map(counts_widely, loops))
    vectors = (s for s in statements(told.body) if isinstance(s, For) and s.mark is Mark.SIMD)
    is_called = any(_own_calls(loop, taken_in_vectors(loop, told.functions)) for loop in vectors)
    is_called = is_called or has_branches_singly(told)
    return is_guessed or is_chosen or any_updates(told) or is_gathered or is_called


def _has_signs_in_vectors(loop: For) -> bool:
    """Whether a loop that compilers take in vectors has signs of integers to take."""
    return takes_signs(loop) and choices_by_bits(loop) is not no_choices


def _with_constant_strides(nest: LoopNest, known: Mapping[str, tuple[Expr, ...]]) -> LoopNest:
    """The nest with the strides of arguments that constant extents decide."""
    strides = {name: tuple(map(normal, found)) for name, found in known.items()}

    def told(buffer: Buffer) -> Buffer:
        found = strides.get(buffer.name, ())
        is_constant = len(found) > 1 and all(isinstance(stride, Const) for stride in found)
        return replace(buffer, strides=found) if is_constant else buffer

    return replace(nest, buffers=tuple(map(told, nest.buffers)))


def _with_functions(nest: LoopNest, machine: Machine, library: bool) -> LoopNest:
    known = () if library else elementary_functions(machine.features)
    return replace(nest, functions=_own_calls(nest.body, known))


def _own_calls(stmt: Stmt, functions: Functions) -> frozenset[tuple[str, DType]]:
    """Those functions that a statement calls."""
    values = (value for s in statements(stmt) for value in expressions(s))
    calls = (node for value in values for node in walk(value) if isinstance(node, Call))
    return frozenset(pair for x in calls if (pair := (x.function, x.dtype)) in functions)


def _told(nest: LoopNest, machine: Machine, may_guess: Expr | None) -> LoopNest:
    signs = clamp_signs(nest) if machine.isa == "x86_64" else nest  # measured there only
    split = split_at_borders(signs, (Mark.SIMD,))
    narrow = narrow_arithmetic(absolute_differences(split))
    narrow = branch_around_calls(narrow, nest.functions)
    narrow = extremes_in_lanes(narrow, machine.lanes, is_row_major=True)
    twice = [pair for pair in nest.functions if has_far_numbers(pair[0])]
    # Again when scalars of an iteration are bound: until then they stand before the calls.
    strips = functions_apart(narrow, nest.functions, twice)
    bound = functions_apart(promote_scalars(sink_scalars(strips)), nest.functions, twice)
    copies = write_out_kept(carry_chosen(bound, may_guess))
    kept = keep_elements(copies, may_guess=may_guess)
    if machine.isa == "x86_64":  # measured there only
        kept = widen_counts(run_sums_singly(mask_updates(kept)))
    kept = branch_on_lanes(run_elements_singly(unsigned_sums(kept), machine.lanes))
    return branch_around_quotients(kept, singly=True)


def _guesses(program: Program) -> Expr | None:
    return bounded(lambda: _may_guess(program), lambda error: None)


def _may_guess(program: Program) -> Expr | None:
    """The condition on parameters under which loads may happen that data would have refused."""
    inside = guarded_loads_inside(program)
    if inside.is_empty():
        return None
    return parameter_condition(inside.gist(program.context), program.context)


def _c(dialect: Dialect) -> Callable[[Program, LoopNest, Any], Module]:
    def emit(program: Program, nest: LoopNest, machine: Any) -> Module:
        plain = replace(nest, name=as_identifier(program.name), scalars=program.params)
        kept = told_to_c(program, plain, machine)
        return emit_c(kept, dialect, shapes=_shapes(program), origin=origins(program))

    return emit


def text_with_bits(program: Program, nest: LoopNest, machine: Machine) -> Module | None:
    """C of a nest that has the bits of its machine code, where nothing is fused by its compiler.

    For arrays without gaps. None for nests that machine code computes otherwise: with threads,
    with kernels of contractions, regrouped, or with functions that are no single instructions.
    """
    if not (nest.leave_to_llvm and _has_bits_of_c(nest)) or nest.reassoc:
        return None
    plain = replace(nest, scalars=program.params)
    kept = told_to_c(program, plain, machine, library=True)
    fused = fuse_products(kept) if "fma" in machine.features and nest.fuses else kept
    return emit_c(fused, C_AS_WRITTEN, shapes=_shapes(program), origin=origins(program))


# Functions that every compiler computes as the standard of floating numbers says.
_EXACT = REAL_INSTRUCTIONS | {"sqrt", "floor", "ceil", "fma", "min_number", "max_number"}
_EXACT |= {"add_sat", "dot"}


def _has_bits_of_c(nest: LoopNest) -> bool:
    """Whether a nest is for one thread, of numbers and functions that all compilers agree on."""
    own = list(statements(nest.body))
    buffers = [*nest.buffers, *(s.buffer for s in own if isinstance(s, Alloc))]
    nodes = [node for s in own for value in expressions(s) for node in walk(value)]
    return (
        not any(isinstance(s, For) and s.mark is Mark.PARALLEL for s in own)
        and not any(b.space is Space.TABLE for b in buffers)
        and not any(b.dtype.is_complex or (b.dtype.is_float and b.dtype.bits < 32) for b in buffers)
        and not any(
            (isinstance(x, Call) and x.function not in _EXACT)
            or (isinstance(x, Binary) and x.op == "pow" and not x.dtype.is_integer)
            for x in nodes
        )
    )


def _kernels(dialect: Dialect) -> Callable[[Program, LoopNest, Any], Module]:
    def emit(program: Program, nest: LoopNest, machine: Any) -> Module:
        packed = contiguous(nest, _shapes(program), program.params)
        device = split_kernels(replace(packed, name=as_identifier(program.name)))
        require_fit(device, machine)
        text = emit_kernels([device], dialect, origin=origins(program))
        names = tuple(buffer.name for buffer in device.buffers)
        return Module(dialect.name, text, device.name, names, device.scalars, device=device)

    return emit


_HOST_CYCLES = 4  # of the host for an instance of a statement, about


def mesh_function(
    source: Program, program: Program, nest: LoopNest, machine: MeshMachine, host: HostFunction
) -> MeshFunction | None:
    """The nest of a program for the cores of a mesh; None where no loop is dealt out to them.

    `source` is the program as it was written. Raises UsageError where boxes do not fit, and GaveUp
    where its loops as written are too hard for isl's quota.
    """
    with attempt(ISL_QUOTA):
        return _mesh_function(source, program, nest, machine, host)


def _mesh_function(
    source: Program, program: Program, nest: LoopNest, machine: MeshMachine, host: HostFunction
) -> MeshFunction | None:
    shapes = _shapes(program)
    packed = contiguous(nest, shapes, program.params)
    made = split_mesh(replace(packed, name=host.name))
    if made is None:
        return None
    loops = contiguous(lower_schedule(initial_schedule(source)), _shapes(source), source.params)
    places = {
        s.name: f"{os.path.basename(s.span.file)}:{s.span.line}"
        for s in program.statements
        if s.span is not None
    }

    def origin(store: Store) -> str:
        return places.get(store.statement, "")

    least = round(machine.launch_cycles / _HOST_CYCLES)
    work = tuple(_box_around(source, s.domain) for s in source.statements)
    function = MeshFunction(host, made, loops, _shapes(source), work, least, origin)
    require_scratchpad(function, scratchpad_room(machine), machine.name)
    return function


def _box_around(program: Program, domain: isl.Set) -> tuple[Expr, ...]:
    """The extents of a box around the points of a set, over the parameters."""
    known = domain.params().intersect_params(program.context)
    found = []
    for at in range(domain.dim(isl.dim_type.set)):
        ends = domain.dim_min(at), domain.dim_max(at)
        low, high = (parameter_expr(end.gist(known), known) for end in ends)
        found.append(normal(high - low + 1))
    return tuple(found)


def _emit_mesh(program: Program, nest: LoopNest, machine: Any) -> Module:
    name = as_identifier(program.name)
    device = DeviceProgram(name, nest.buffers, program.params, (), ())
    host = HostFunction(name, device, (), program.params, {}, program.name)
    try:
        function = mesh_function(program, program, nest, machine, host)
    except GaveUp as error:
        message = f"the loops of '{program.name}' are too hard to write down"
        raise UsageError(message, str(error), "simpler conditions, or several functions") from None
    if function is None:
        raise UsageError(f"no loop of '{program.name}' is parallel", hint='target="c"')
    names = tuple(buffer.name for buffer in nest.buffers)
    text = emit_slave([function], f"{name}_athread.h")
    return Module("athread", text, function.cores, names, program.params)


def _shapes(program: Program) -> dict[str, Any]:
    return {a.name: a.shape for a in program.arrays if a.role is not Role.LOCAL}


_PROCESSOR, _GPU, _MESH = MachineKind.PROCESSOR, MachineKind.GPU, MachineKind.MESH
TARGETS: Mapping[str, Target] = {
    target.name: target
    for target in (
        Target("host", _PROCESSOR, model_planner, _emit_llvm, is_parallel=True),
        Target("openmp", _PROCESSOR, text_planner, _c(OPENMP), is_parallel=True, dialect=OPENMP),
        Target("c", _PROCESSOR, text_planner, _c(C), is_parallel=False, dialect=C),
        Target("cuda", _GPU, gpu_planner, _kernels(CUDA), is_parallel=False, dialect=CUDA),
        Target("opencl", _GPU, gpu_planner, _kernels(OPENCL), is_parallel=False, dialect=OPENCL),
        Target("athread", _MESH, mesh_planner, _emit_mesh, is_parallel=False, dialect=ATHREAD),
    )
}
