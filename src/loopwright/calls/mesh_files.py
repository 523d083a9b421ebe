"""A C file for a mesh of cores as the files of a program: master, slave, header, Makefile."""

from __future__ import annotations

import re
from collections.abc import Sequence

from loopwright.backends.athread.athread_module import emit_header, emit_master, emit_slave
from loopwright.calls.device_files import MADE, goal, has_main, stem_of, words
from loopwright.calls.splice import Optimised, spliced
from loopwright.diagnostics import UsageError
from loopwright.frontends.c import CFile
from loopwright.ir.mesh_machine import MeshMachine

__all__ = ["mesh_files"]

_INDEPENDENT = "loops whose iterations are independent"


def mesh_files(
    file: CFile, results: Sequence[Optimised], machine: MeshMachine, flags: Sequence[str] = ()
) -> dict[str, bytes]:
    """The files of a program by name; `flags` are those that the user's file is compiled with.

    Raises UsageError where no region is left to the cores.
    """
    name, stem = stem_of(file)
    functions = [found.mesh for found in results if found.mesh is not None]
    if not functions:
        reason = results[0].reason
        wanted = "a --machine of more LDM" if "LDM" in reason else _INDEPENDENT
        message = f"no region can be run on a mesh of cores: {reason}"
        raise UsageError(message, hint=f"{wanted}, or --target c")
    header = f"{stem}_athread.h"
    guard = re.sub("[^A-Z0-9]", "_", f"LW_{stem}_ATHREAD_H".upper())
    head = f"/* {MADE} from {name}: %s. */\n"
    texts = {
        header: head % "what the host and the cores share" + emit_header(functions, guard),
        f"{stem}_master.c": head % "functions of the host" + emit_master(functions, header),
        f"{stem}_slave.c": head % "functions of the compute cores" + emit_slave(functions, header),
        "Makefile": _makefile(stem, name, machine, flags, has_main(file)),
    }
    files = {name: spliced(file, list(results))}
    return files | {path: text.encode() for path, text in texts.items()}


def _makefile(
    stem: str, name: str, machine: MeshMachine, flags: Sequence[str], is_whole: bool
) -> str:
    is_pro = machine.has_remote_access
    objects = f"{stem}.o {stem}_master.o {stem}_slave.o"
    compiler, host, slave, hybrid = (
        ("swgcc", "-mhost", "-mslave -msimd", "-mhybrid")
        if is_pro
        else ("sw5cc", "-host", "-slave -msimd", "-hybrid")
    )
    own = [flag for flag in flags if flag.startswith("-DLW_")]  # for the generated files, too
    define = " -DLW_ATHREAD_PRO" if is_pro else ""
    link = f"\t$(CC) $(HYBRID) $(LDFLAGS) -o $@ {objects} $(LDLIBS)\n"
    return f"""# {MADE}: make, then ./{stem} on {machine.name}; make host: without compute cores;
# make profile: with counts of cycles
CC = {compiler}
HOST = {host}
SLAVE = {slave}
HYBRID = {hybrid}
CFLAGS ?= -O3
LDLIBS ?= -lm
CPPFLAGS += {words(flags)}
ATHREAD = {words(["-I.", *own])}{define}

{goal(stem, objects, link, is_whole)}
{stem}.o: {name}
\t$(CC) $(HOST) $(CPPFLAGS) $(CFLAGS) -c -o $@ {name}

{stem}_master.o: {stem}_master.c {stem}_athread.h
\t$(CC) $(HOST) $(ATHREAD) $(CFLAGS) -c -o $@ {stem}_master.c

{stem}_slave.o: {stem}_slave.c {stem}_athread.h
\t$(CC) $(SLAVE) $(ATHREAD) $(CFLAGS) -c -o $@ {stem}_slave.c

host: {name} {stem}_master.c {stem}_athread.h
\tcc $(CPPFLAGS) -DLW_NO_ATHREAD -I. $(CFLAGS) -o {stem} {name} {stem}_master.c $(LDLIBS)

profile: # counts cycles, and prints them when the program ends
\t$(MAKE) clean
\t$(MAKE) ATHREAD="$(ATHREAD) -DLW_PROFILE"

clean:
\trm -f {stem if is_whole else ""} {objects}

.PHONY: all clean host profile
"""
