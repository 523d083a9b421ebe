"""Build an Athread program for the emulator: both sides compiled, instrumented and linked.

The emulator itself is C of this package, compiled on first use and kept in the disk cache.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from loopwright.diagnostics import ToolchainError, UsageError
from loopwright.ir.mesh_machine import MeshMachine
from loopwright.runtime.athread_emulator.instrument_assembly import (
    Instrumented,
    Site,
    instrument,
)
from loopwright.runtime.athread_emulator.sunway_c import rewrite_sunway_c
from loopwright.runtime.disk_cache import Entry, disk_cache
from loopwright.runtime.own_folder import own_folder
from loopwright.runtime.toolchain import Compiler, find_compiler, run_tool

__all__ = ["build_athread", "require_emulator"]

_FOLDER = Path(__file__).parent
_INCLUDE = _FOLDER / "include"
_NATIVE = _FOLDER / "native"
_OWN_FLAGS = ("-std=gnu11", "-O2", "-g0", "-fno-strict-aliasing")
# Vectors are the program's own, sums keep their order, and a loop stays a loop of accesses.
_FLAGS = (
    "-std=gnu17", "-O2", "-g1", "-w", "-fcommon", "-fno-strict-aliasing", "-ffp-contract=off",
    "-fno-tree-vectorize", "-fno-optimize-sibling-calls", "-fno-stack-protector",
    "-U_FORTIFY_SOURCE", "-Wno-implicit-function-declaration", "-Wno-implicit-int",
    "-Wno-int-conversion", "-Wno-incompatible-pointer-types",
)  # fmt: skip
# Section anchors would keep variables together (see instrument_assembly). Addresses that are kept
# over the calls that check accesses fill the stack, of which a compute core has little.
_GCC_ONLY = (
    "-fno-tree-loop-distribute-patterns", "-fno-section-anchors", "-fno-move-loop-invariants",
    "-fno-gcse", "-fno-ivopts",
)  # fmt: skip
# Calls before each access to memory: gcc's, which knows vectors of all sizes; clang's.
_ACCESSES = (
    ("-fsanitize=thread", "--param=tsan-instrument-func-entry-exit=0"),
    (
        "-fsanitize=kernel-address", "-mllvm", "-asan-instrumentation-with-call-threshold=0",
        "-mllvm", "-asan-stack=0", "-mllvm", "-asan-globals=0",
    ),
    ("-fsanitize=thread",),
)  # fmt: skip
_BLOCKS = ("-fsanitize-coverage=trace-pc",)
_GENERATED = "_athread.h"  # whose functions are told of by the lines that call them


def build_athread(
    masters: Sequence[str],
    slaves: Sequence[str],
    machine: MeshMachine,
    folder: Path,
    flags: Sequence[str] = (),
    compiler: Compiler | None = None,
    *,
    flags_of: Mapping[str, Sequence[str]] | None = None,
) -> Path:
    """Build the program of host and CPE sources in `folder`; the path of the executable.

    `flags` are those of all sources, `flags_of` those of one of them, by its path. Raises
    ToolchainError where there is no C compiler or it refuses a source.
    """
    for path in (*masters, *slaves):
        if not os.path.isfile(path):
            raise UsageError(f"there is no file '{path}'")
    compiler = compiler or find_compiler()
    hooks = _access_flags(compiler)
    accepted = tuple(flag for flag in _GCC_ONLY if compiler.accepts(flag))
    builder = _Builder(compiler, folder, (*_FLAGS, *accepted, *flags, *hooks), flags_of or {})
    parts = builder.host_side(masters) + builder.cpe_side(slaves)
    tables = folder / "lw_tables.c"
    tables.write_text(_tables(machine, builder.sites), encoding="utf-8")
    target = folder / "program"
    emulator = folder / "lw_emulator.o"
    emulator.write_bytes(_emulator_object(compiler))
    words = (*compiler.command, "-w", "-o", str(target), *map(str, parts), str(tables))
    _checked((*words, str(emulator), "-lm", *_libraries(flags)))
    return target


def require_emulator() -> None:
    """Refuse, by a ToolchainError, where no compiler can build programs for the emulator."""
    _access_flags(find_compiler())


def _libraries(flags: Sequence[str]) -> list[str]:
    return [flag for flag in flags if flag.startswith(("-l", "-L"))]


class _Builder:
    """Sources to instrumented assembly; the sites of all of them are numbered together."""

    def __init__(
        self,
        compiler: Compiler,
        folder: Path,
        flags: Sequence[str],
        flags_of: Mapping[str, Sequence[str]],
    ) -> None:
        self._compiler = compiler
        self._flags_of = flags_of
        self._folder = folder
        self._flags = tuple(flag for flag in flags if not flag.startswith(("-l", "-L")))
        self.sites: list[Site] = [Site("before main", 0)]
        self._host_functions: set[str] = set()

    def host_side(self, paths: Sequence[str]) -> list[Path]:
        """The files of assembly of the host's sources."""
        made = []
        for number, path in enumerate(paths):
            found = self._instrumented(path, f"host{number}", ("-D__sw_host__",), is_slave=False)
            self._host_functions |= set(found.functions)
            made.append(self._written(f"host{number}", found))
        return made

    def cpe_side(self, paths: Sequence[str]) -> list[Path]:
        """The files of assembly of the CPEs' sources.

        Sunway's compiler puts `slave_` before their functions; here they have this name beside
        their own, and in place of it where the host has a function of the same name.
        """
        known: tuple[str, ...] = ("-D__sw_slave__", "-D__ATHREAD_EMULATOR__")
        first = len(self.sites)
        found = [self._cpe_source(path, number, known) for number, path in enumerate(paths)]
        clashes = {name for one in found for name in one.functions} & self._host_functions
        if clashes:
            del self.sites[first:]
            known += tuple(f"-D{name}=slave_{name}" for name in sorted(clashes))
            found = [self._cpe_source(path, number, known) for number, path in enumerate(paths)]
        return [self._written(f"cpe{number}", one) for number, one in enumerate(found)]

    def _cpe_source(self, path: str, number: int, macros: Sequence[str]) -> Instrumented:
        return self._instrumented(path, f"cpe{number}", macros, is_slave=True)

    def _instrumented(
        self, path: str, name: str, macros: Sequence[str], *, is_slave: bool
    ) -> Instrumented:
        here = os.path.dirname(path) or "."
        flags = (*self._flags, *self._flags_of.get(path, ()))
        words = (*self._compiler.command, *flags, "-E", *macros, f"-I{_INCLUDE}")
        source, target = self._folder / f"{name}.i", self._folder / f"{name}.plain.s"
        source.write_text(rewrite_sunway_c(_checked((*words, f"-I{here}", path))), encoding="utf-8")
        blocks = _BLOCKS if is_slave else ()
        words = (*self._compiler.command, *flags, *blocks, "-S", "-o", str(target))
        _checked((*words, str(source)))
        text = target.read_text(encoding="utf-8")
        found = instrument(text, len(self.sites), is_slave=is_slave)
        self.sites += found.sites
        return found

    def _written(self, name: str, found: Instrumented) -> Path:
        target = self._folder / f"{name}.s"
        target.write_text(found.text, encoding="utf-8")
        return target


def _access_flags(compiler: Compiler) -> tuple[str, ...]:
    for flags in _ACCESSES:
        if compiler.compiles(*flags, *_BLOCKS):
            return flags
    raise ToolchainError(
        compiler.command,
        "try: gcc 8 or newer, or clang, by the variable CC",
        "cannot instrument accesses to memory, which the emulator needs",
    )


def _tables(machine: MeshMachine, sites: Sequence[Site]) -> str:
    """C with the numbers of the machine, and the place and cost of each site."""
    rows = [
        f"    {{{_text(site.file)}, {site.line}, {site.cost.quarter_slots}, {site.cost.flops}, "
        f"{int(site.file.endswith(_GENERATED))}}},"
        for site in sites
    ]
    head = f"{_text(machine.name)}, {machine.rows}, {machine.columns}, {machine.scratchpad_bytes}"
    return "\n".join([
        f'#include "{_NATIVE / "emulator.h"}"',
        f"const struct lw_machine lw_machine = {{{head}, {machine.dma_unit}}};",
        "const struct lw_site lw_sites[] = {",
        *rows,
        "};",
        "",
    ])  # fmt: skip


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _emulator_object(compiler: Compiler) -> bytes:
    """The emulator as one object file, from the disk cache if it was compiled before."""
    sources = sorted(_NATIVE.iterdir())
    texts = [path.read_text(encoding="utf-8") for path in sources]
    identity = (*compiler.command, compiler.version, *_OWN_FLAGS, *texts)
    key = hashlib.sha256("\0".join(("athread emulator", *identity)).encode()).hexdigest()
    cache = disk_cache()
    found = cache.get(key) if cache is not None else None
    if found is not None:
        return found.code
    code = _compiled(compiler, [path for path in sources if path.suffix == ".c"])
    if cache is not None:
        cache.put(key, Entry({"kind": "athread emulator"}, code))
    return code


def _compiled(compiler: Compiler, sources: Sequence[Path]) -> bytes:
    with own_folder() as folder:
        target, unit = folder / "emulator.o", folder / "emulator.c"
        unit.write_text("".join(f"#include {_text(str(path))}\n" for path in sources))
        _checked((*compiler.command, *_OWN_FLAGS, "-c", "-o", str(target), str(unit)))
        return target.read_bytes()


def _checked(words: Sequence[str]) -> str:
    """What a tool writes; raises ToolchainError with its words where it fails."""
    done = run_tool(words)
    if done.returncode != 0:
        raise ToolchainError(words[:1], done.stderr or done.stdout, "refuses the program")
    return done.stdout
