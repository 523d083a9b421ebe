"""Programs as generated Athread code on the emulator: one build serves several of them.

    build = Emulated({"gemm": program}, machine, (8, 8), folder)
    build.run([("gemm", arrays, {"ni": 5, "nj": 7, "nk": 9})])  # arrays change in place

All of the emulator's checks are on, and cores are started whatever little work there is.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from loopwright.backends.athread.athread_module import (
    MeshFunction,
    emit_header,
    emit_master,
    emit_slave,
)
from loopwright.backends.c_text.c_syntax import c_type
from loopwright.backends.device_text.device_host import HostFunction, parameter_types
from loopwright.ir.device import DeviceProgram, is_by_value
from loopwright.ir.loops import LoopNest
from loopwright.ir.mesh_machine import MeshMachine
from loopwright.ir.program import Program, Role
from loopwright.lower.buffers import contiguous
from loopwright.lower.passes import lower_schedule
from loopwright.pipeline import compile_program
from loopwright.planner.mesh_plans.mesh import mesh_planner_of
from loopwright.runtime.athread_emulator.athread_build import build_athread
from loopwright.runtime.athread_emulator.athread_run import AthreadRun, run_built
from loopwright.targets import mesh_function
from loopwright.transform.plan import Plan, apply_plan

__all__ = ["Emulated", "Job", "of_cores"]

Arrays = dict[str, "np.ndarray[Any, np.dtype[Any]]"]
Edit = Callable[[str, str], str]  # a file of the build, by its name and text
Job = tuple[str, Arrays, Mapping[str, int]]  # of which program, its arrays and parameters

_HEAD = """#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *in, *out;

static void *taken(long bytes)
{
    void *data = malloc(bytes ? bytes : 1); /* of this size: the emulator knows where it ends */
    if (!data || fread(data, 1, bytes, in) != (size_t)bytes)
        abort();
    return data;
}

static long number(void)
{
    long *data = taken(sizeof(long)), found = *data;
    free(data);
    return found;
}

static void given(void *data, long bytes)
{
    fwrite(data, 1, bytes, out);
    free(data);
}
"""


def of_cores(
    program: Program, nest: LoopNest, machine: MeshMachine, name: str, scheduled: Program
) -> MeshFunction | None:
    """A function of C that runs a nest on the cores; None where no loop is dealt out."""
    shapes = {a.name: a.shape for a in scheduled.arrays if a.role is not Role.LOCAL}
    packed = contiguous(nest, shapes, scheduled.params)
    device = DeviceProgram(name, packed.buffers, packed.scalars, (), ())
    host = HostFunction(name, device, (), tuple(packed.scalars), {}, f"{name}:0")
    return mesh_function(program, scheduled, nest, machine, host)


# By identity: a program, its plan, a machine and a name, which are kept, and what they make.
_Made = tuple[LoopNest, MeshFunction | None]
_made: dict[tuple[int, int, int, str], tuple[_Made, tuple[object, ...]]] = {}


def _by_plan(program: Program, plan: Plan, machine: MeshMachine, label: str) -> _Made:
    """The nest and the function of a plan, once for all builds of them: bugs are seeded in text."""
    key = id(program), id(plan), id(machine), label
    if key not in _made:
        schedule = apply_plan(program, plan)
        nest = lower_schedule(schedule)
        function = of_cores(program, nest, machine, label, schedule.program)
        _made[key] = (nest, function), (program, plan, machine)
    return _made[key][0]


@dataclass(frozen=True)
class _Entry:
    number: int
    function: MeshFunction


class Emulated:
    """Programs planned for a machine and a shape of cores, built for the emulator."""

    def __init__(
        self,
        programs: Mapping[str, Program],
        machine: MeshMachine,
        shape: tuple[int, int],
        folder: Path,
        *,
        plans: Mapping[str, Plan] | None = None,
        edit: Edit | None = None,
    ) -> None:
        """Plan and build; `plans` replace the planner's, `edit` changes files."""
        self.machine = machine
        self.serial: list[str] = []  # programs that no core runs
        self.nests: dict[str, LoopNest] = {}
        self._entries: dict[str, _Entry] = {}
        for name, program in programs.items():
            given = (plans or {}).get(name)
            label = f"lw_p{len(self._entries)}"
            if given is None:
                found = compile_program(program, machine, 1, mesh_planner_of(shape))
                nest, scheduled = found.nest, found.schedule.program
                function = of_cores(program, nest, machine, label, scheduled)
            else:
                nest, function = _by_plan(program, given, machine, label)
            if function is None:
                self.serial.append(name)
                continue
            self.nests[name] = nest
            place = f"{name}.c:1"
            function = replace(function, host=replace(function.host, place=place))
            self._entries[name] = _Entry(len(self._entries), function)
        self._program = self._built(folder, edit) if self._entries else None

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def function(self, name: str) -> MeshFunction:
        """What was emitted for a program."""
        return self._entries[name].function

    def _built(self, folder: Path, edit: Edit | None) -> Path:
        functions = [entry.function for entry in self._entries.values()]
        texts = {
            "programs_athread.h": emit_header(functions, "PROGRAMS_H"),
            "programs_master.c": emit_master(functions, "programs_athread.h"),
            "programs_slave.c": emit_slave(functions, "programs_athread.h"),
            "main.c": _driver(functions),
        }
        for name, text in texts.items():
            written = text if edit is None else edit(name, text)
            (folder / name).write_text(written, encoding="utf-8")
        main, master, slave = (
            str(folder / name) for name in ("main.c", "programs_master.c", "programs_slave.c")
        )
        words = [f"-I{folder}", "-DLW_LEAST_WORK=0"]
        if self.machine.has_remote_access:
            words.append("-DLW_ATHREAD_PRO")
        if edit is not None:
            words.append("-O1")  # most of what a fault costs is the compiler's time
        return build_athread([main, master], [slave], self.machine, folder, words)

    def run(
        self, jobs: Sequence[Job], *, seed: int = 0, profile: bool = False, strict: bool = True
    ) -> AthreadRun:
        """Run all jobs in one process of the emulator; their arrays are changed in place."""
        assert self._program is not None
        given, taken = (self._program.parent / name for name in ("in.bin", "out.bin"))
        given.write_bytes(b"".join(self._packed(job) for job in jobs))
        done = run_built(
            self._program, [str(given), str(taken)],
            seed=seed, profile=profile, timeout=600, strict=strict,
        )  # fmt: skip
        assert done.status == 0
        found = taken.read_bytes()
        for name, arrays, _ in jobs:
            for buffer in self._entries[name].function.program.buffers:
                array = arrays[buffer.name]
                data = np.frombuffer(found[: array.nbytes], array.dtype).reshape(array.shape)
                array[...] = data
                found = found[array.nbytes :]
        assert not found
        return done

    def _packed(self, job: Job) -> bytes:
        name, arrays, params = job
        entry = self._entries[name]
        host = entry.function.host
        parts = [struct.pack("q", entry.number)]
        parts += [struct.pack("q", params[scalar]) for scalar in host.given]
        for buffer in host.program.buffers:
            data = np.ascontiguousarray(arrays[buffer.name]).tobytes()
            parts += [struct.pack("q", len(data)), data]
        return b"".join(parts)


def _driver(functions: Sequence[MeshFunction]) -> str:
    """A main that reads calls from a file, makes them, and writes the arrays into another one."""
    lines = [_HEAD]
    for function in functions:
        types = ", ".join(parameter_types(function.host)) or "void"
        lines.append(f"void {function.host.name}({types});")
    lines += ["int main(int argc, char **argv)", "{", '    in = fopen(argv[1], "rb");']
    lines += ['    out = fopen(argv[2], "wb");', "    long which;"]
    lines += ["    while (fread(&which, sizeof which, 1, in) == 1)", "        switch (which) {"]
    for number, function in enumerate(functions):
        host = function.host
        values, before, after = [], [], []
        for at, _ in enumerate(host.given):
            before.append(f"long n{at} = number();")
            values.append(f"n{at}")
        for at, buffer in enumerate(host.program.buffers):
            before += [f"long s{at} = number();", f"void *d{at} = taken(s{at});"]
            is_value = is_by_value(buffer)
            values.append(f"*({c_type(buffer.dtype)} *)d{at}" if is_value else f"d{at}")
            after.append(f"given(d{at}, s{at});")
        call = f"{host.name}({', '.join(values)});"
        body = [f"            {line}" for line in (*before, call, *after, "break;")]
        lines += [f"        case {number}: {{", *body, "        }"]
    lines += ["        }", "    fclose(out);", "    return 0;", "}"]
    return "\n".join([*lines, ""])
