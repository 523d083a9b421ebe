"""What was done with a region of C, and why not more, in words with source lines."""

from __future__ import annotations

from dataclasses import replace

from loopwright.analysis.dependences import Dependences, dependences
from loopwright.analysis.find_contractions import explain
from loopwright.analysis.legality import Witness, carried_by, witness
from loopwright.analysis.reductions import reductions, relaxed_dependences
from loopwright.analysis.size_estimates import bytes_of, likely_sizes
from loopwright.backends.athread.athread_module import scratchpad_report
from loopwright.backends.c_text.c_elementary import own_functions
from loopwright.calls.explain_kernels import kernel_lines, register_lines
from loopwright.calls.overlap_test import find_overlap_test, pair_lines
from loopwright.calls.splice import Optimised, region_program
from loopwright.frontends.c import CRegion
from loopwright.frontends.source_tree import ForLoop, IfElse, Node
from loopwright.ir.gpu_machine import GpuMachine
from loopwright.ir.islkit import bounded
from loopwright.ir.machine import Machine
from loopwright.ir.mesh_machine import MeshMachine
from loopwright.ir.program import Program, Role
from loopwright.ir.schedule_tree import loop_names
from loopwright.ir.text import expr_text, schedule_text
from loopwright.pipeline import compile_program
from loopwright.planner.cost.predict import predicted
from loopwright.planner.plan_choice import choose_plan
from loopwright.planner.planners import Planner

__all__ = ["as_written", "explain_on_gpu", "explain_region"]


def explain_region(
    found: Optimised,
    machine: Machine | GpuMachine | MeshMachine,
    threads: int | None = None,
) -> str:
    """Statements, loops with what binds them, the steps taken, the time expected.

    Of a plan that the model has chosen for so many threads, what it was weighed against.
    """
    program = found.program
    lines = as_written(found)
    lines.append("  steps")
    lines += [f"    {step}" for step in found.plan] or [f"    none: {found.reason}"]
    if len(found.plan):
        lines.append("  loops as they run")
        lines += [f"  {line}" for line in _order(found)]
    lines += pair_lines(found.overlap)
    if isinstance(machine, GpuMachine):
        return "\n".join([*lines, *_kernels(found, machine)])
    if isinstance(machine, MeshMachine):
        report = [] if found.mesh is None else scratchpad_report(found.mesh)
        return "\n".join([*lines, *(f"  {line}" for line in report)])
    lines += _memory(found)
    own = own_functions(found.text or "")
    lines += [f"  functions in vectors, as lines of the text: {', '.join(own)}"] if own else []
    too_hard = "nothing, the program is too hard to analyse"
    lines.append(f"  predicted: {bounded(lambda: predicted(program, machine), lambda _: too_hard)}")
    if threads is not None:
        lines.append(f"  expected: {choose_plan(program, machine, threads, text=True)}")
    return "\n".join(lines)


def explain_on_gpu(
    region: CRegion,
    target: str,
    machine: GpuMachine,
    planner: Planner | None = None,
    *,
    reassoc: bool,
) -> str:
    """Statements, loops with what binds them, the kernels with their accesses, the steps taken."""
    program = region_program(region, reassoc=reassoc)
    made = compile_program(program, machine, 1, planner, target)
    assert made.module is not None
    assert made.module.device is not None
    lines = as_written(Optimised(region, program, made.plan, made.schedule, made.nest, None))
    lines += (f"  {line}" for line in register_lines(made.plan))
    lines.append(f"  kernels for {machine.name}")
    lines += (f"  {line}" for line in kernel_lines(made.module.device, made.schedule, machine))
    lines.append("  steps")
    lines += [f"    {step}" for step in made.plan] or ["    none: loops in source order"]
    lines += pair_lines(find_overlap_test(region, program))
    return "\n".join(lines)


def as_written(found: Optimised) -> list[str]:
    """The statements of a region, what each is taken for, and its loops."""
    region, program = found.region, found.program
    lines = [f"{region.span.file}:{region.span.line}: region of {region.function}", "  statements"]
    taken_for = {line.partition(":")[0]: line.partition(": ")[2] for line in explain(program)}
    for statement in program.statements:
        place = "" if statement.span is None else f"line {statement.span.line}  "
        text = "" if statement.span is None else statement.span.text.strip()
        lines.append(f"    {statement.name}  {place}{text}")
        if statement.name in taken_for:
            lines.append(f"        {taken_for[statement.name]}")
    lines.append("  loops as written")
    lines += bounded(lambda: _loops(found), lambda _: ["    too hard to analyse"])
    return lines


def _kernels(found: Optimised, machine: GpuMachine) -> list[str]:
    """The kernels of a region with their blocks, and what is moved to the device and back."""
    if found.function is None:
        return []
    lines = ["  kernels"]
    for kernel in found.function.program.kernels:
        x, y, z = kernel.block
        grid = " x ".join(expr_text(axis) for axis in kernel.grid)
        held = machine.occupancy(x * y * z, 1, kernel.shared_bytes)
        lines.append(f"    {kernel.name}: blocks of {x} x {y} x {z} threads, {grid} of them")
        shared = f"{kernel.shared_bytes} bytes of shared memory"
        lines.append(f"        {shared}; at most {held.blocks} blocks on a multiprocessor")
    moved = found.function.transfers
    into = ", ".join(t.array for t in moved if t.is_brought_in)
    back = ", ".join(t.array for t in moved if t.is_brought_back)
    return [*lines, f"  to the device: {into or 'nothing'}", f"  back: {back or 'nothing'}"]


def _loops(found: Optimised) -> list[str]:
    """For every loop of the source whether it is free, or the dependence that binds it."""
    program = found.program
    exact = dependences(program)
    free = replace(program, reassoc=True)
    relaxed = exact if program.reassoc else relaxed_dependences(free)
    sums = {r.statement: r for r in reductions(free)}
    places = _places(found.region.tree.body)
    lines = []
    for loop in loop_names(program.schedule):
        name, line = places.get(loop, (loop, 0))
        head = f"    {name} (line {line})" if line else f"    {name}"
        bound = witness(carried_by(exact, program.schedule, loop), verb="carries")
        if bound is None:
            lines.append(f"{head}: its iterations are independent")
            continue
        lines.append(f"{head}: {_pair(bound)}")
        if not _is_bound(relaxed, program, loop) and sums:
            sum_ = sums.get(bound.source.statement)
            what = f"the order of the sum in {sum_.statement}" if sum_ else "the order of sums"
            lines.append(f"        only {what} binds it: --reassoc would free it")
    return lines


def _order(found: Optimised) -> list[str]:
    """The loops of the schedule with their marks, one line each."""
    return schedule_text(found.schedule).splitlines()[1:]


def _memory(found: Optimised) -> list[str]:
    """The bytes of local arrays that a plan has in memory, at likely sizes."""
    program = found.schedule.program
    arrays = [a for a in program.arrays if a.role is Role.LOCAL and a.rank]
    if not arrays:
        return []
    sizes = likely_sizes(program)
    each = {array.name: bytes_of(array, sizes) for array in arrays}
    parts = ", ".join(f"{name} {count:,}" for name, count in each.items())
    return [f"  allocates: {sum(each.values()):,} bytes at likely sizes ({parts})"]


def _is_bound(relaxed: Dependences, program: Program, loop: str) -> bool:
    return not carried_by(relaxed, program.schedule, loop).is_empty


def _pair(bound: Witness) -> str:
    """`carries flow S1[0] -> S1[1], line 20 -> line 20`."""
    text = f"{bound.verb} {bound.kind} {bound.source} -> {bound.target}"
    spans = (bound.source.span, bound.target.span)
    if spans[0] is None or spans[1] is None:
        return text
    return f"{text} (line {spans[0].line} -> line {spans[1].line})"


def _places(nodes: tuple[Node, ...]) -> dict[str, tuple[str, int]]:
    """Loop variables of the tree: their names in the source, and their lines."""
    found: dict[str, tuple[str, int]] = {}
    for node in nodes:
        match node:
            case ForLoop(var=var, body=body, span=span):
                found[var] = (var, span.line)
                found |= _places(body)
            case IfElse(body=body, orelse=orelse):
                found |= _places((*body, *orelse))
    return found
