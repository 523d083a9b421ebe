"""The C compiler of the system: its command and flags, libraries built by it and loaded.

The compiler is run without a shell, in a folder of its own that only this user can read, and is
stopped when it takes too long. Libraries are kept in the disk cache, named by a hash of the text,
the command, the compiler and the processor; an entry of the cache is authenticated before it is
loaded.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shlex
import weakref
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from loopwright.child_process import call
from loopwright.compilers import CANDIDATES, compiler_path
from loopwright.diagnostics import ToolchainError, UsageError
from loopwright.lazy_dataclass import dataclass
from loopwright.machines.host import processor_text
from loopwright.memo import SharedWhileUsed
from loopwright.runtime.code_memory import count_code, make_room
from loopwright.runtime.disk_cache import Entry, disk_cache
from loopwright.runtime.own_folder import own_folder

__all__ = [
    "Compiler",
    "build_library",
    "build_object",
    "complaint",
    "find_compiler",
    "find_function",
    "load_library",
    "openmp_threads",
    "run_tool",
    "tuning_flags",
]

_SECONDS = 120.0  # of one run
_PROBE = "int probe(int x) { return x + 1; }\n"
_MISSING = "install gcc or clang, or name a compiler in the variable CC"


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler."""

    command: tuple[str, ...]  # the program by its path, then arguments that always come first
    version: str  # what it says of itself, one line

    def accepts(self, *flags: str) -> bool:
        """Whether it compiles anything at all with these flags."""
        return _accepts(self.command, flags)

    def compiles(self, *flags: str) -> bool:
        """Whether it makes object files with these flags, libraries of theirs left aside."""
        return _accepts(self.command, flags, "-c")


@dataclass(frozen=True, slots=True)
class Said:
    """What a tool that ran to its end has printed."""

    returncode: int
    stdout: str
    stderr: str


def find_compiler(name: str | None = None) -> Compiler:
    """The compiler called `name`, else the one in the variable CC, else cc, gcc or clang.

    Raises ToolchainError when there is none.
    """
    wanted = name or os.environ.get("CC", "").strip()
    if wanted:
        return _compiler(tuple(_words(wanted)))
    found = compiler_path()
    if found is not None:
        return _compiler((found,))
    raise ToolchainError(CANDIDATES[:1], f"try: {_MISSING}", "there is no C compiler here")


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"CC is no command: {error}", found=repr(text)) from None


@lru_cache(maxsize=64)
def _compiler(command: tuple[str, ...]) -> Compiler:
    path = compiler_path(command[0])
    if path is None:
        raise ToolchainError(command, f"try: {_MISSING}", "there is no such program")
    full = (path, *command[1:])
    done = run_tool((*full, "--version"))
    line = done.stdout.strip().splitlines()[:1] if done.returncode == 0 else []
    return Compiler(full, line[0] if line else "unknown version")


@lru_cache(maxsize=64)
def _accepts(command: tuple[str, ...], flags: tuple[str, ...], kind: str = "-shared") -> bool:
    with own_folder() as folder:
        source = folder / "probe.c"
        source.write_text(_PROBE, encoding="ascii")
        target = str(folder / "probe.so")
        words = (*command, *flags, kind, "-fPIC", "-o", target, str(source))
        return run_tool(words).returncode == 0


@lru_cache(maxsize=64)
def tuning_flags(compiler: Compiler, *, openmp: bool) -> tuple[str, ...]:
    """The flags for fast code on this machine that the compiler accepts."""
    flags = ["-O3", "-fno-math-errno", "-fno-trapping-math"]
    native = next((f for f in ("-march=native", "-mcpu=native") if compiler.accepts(f)), None)
    flags += [] if native is None else [native]
    if openmp:
        team = next((f for f in ("-fopenmp", "-fopenmp-simd") if compiler.accepts(f)), None)
        flags += [] if team is None else [team]
    return tuple(flags)


def build_library(text: str, flags: Sequence[str], compiler: Compiler | None = None) -> bytes:
    """The shared library of a C text, from the disk cache if it was made before.

    Raises ToolchainError with the compiler's own words when it fails.
    """
    compiler = compiler or find_compiler()
    cache_ = disk_cache()
    key = _key(text, flags, compiler)
    found = cache_.get(key) if cache_ is not None else None
    if found is not None:
        return found.code
    code = _built(text, flags, compiler)
    if cache_ is not None:
        cache_.put(key, Entry({"kind": "library"}, code))
    return code


def build_object(text: str, flags: Sequence[str], compiler: Compiler) -> bytes:
    """The object file of a C text, or with the flag -S its assembly.

    Raises ToolchainError with the compiler's own words when it fails.
    """
    words = ("-fPIC", *(() if "-S" in flags else ("-c",)))
    return _made(text, (*flags, *words), compiler)


def load_library(code: bytes, *, shared: bool = False) -> ctypes.CDLL:
    """A shared library, loaded into the process; its functions release the GIL.

    It is unloaded when neither it nor one of its functions (`library[name]`) is referenced. With
    `shared` equal code is loaded once, also its variables.
    """
    if not shared:
        return _loaded(code)
    digest = hashlib.sha256(code).digest()
    library = _shared.get(digest)
    if library is None:
        library = _shared[digest] = _loaded(code)
    return library


_shared: SharedWhileUsed[bytes, ctypes.CDLL] = SharedWhileUsed()


def _loaded(code: bytes) -> ctypes.CDLL:
    make_room(len(code))
    library = _opened(code)
    count_code(library, len(code))
    runtime = _openmp_runtime(library)
    if runtime is None or _runtimes.setdefault(runtime, library) is not library:
        _unload_at_end(library)
    return library


# One library for each OpenMP runtime, by where that lies: threads of the runtime wait in its code
# between calls, so it must not be unloaded with the last library that brought it.
_runtimes: dict[int, ctypes.CDLL] = {}


def _openmp_runtime(library: ctypes.CDLL) -> int | None:
    function = find_function(library, "omp_set_num_threads")
    return None if function is None else ctypes.cast(function, ctypes.c_void_p).value


_team_owner: int | None = None  # the process in which teams of OpenMP have begun


def openmp_threads(threads: int) -> int:
    """Threads that a region of OpenMP may have now, if a call asks for `threads`.

    One in a child of a process that has run regions with more: a fork copies no threads, and GNU's
    runtime would wait for those of the parent for ever.
    """
    global _team_owner
    if threads == 1:
        return 1
    if _team_owner is None:
        _team_owner = os.getpid()
    return threads if _team_owner == os.getpid() else 1


def find_function(library: ctypes.CDLL, name: str) -> Any:
    """A function of a library or its dependencies, which keeps the library; None if missing."""
    try:
        return library[name]
    except AttributeError:
        return None


def _unload_at_end(library: ctypes.CDLL) -> None:
    close = ctypes.CDLL(None)["dlclose"]
    close.argtypes = [ctypes.c_void_p]
    weakref.finalize(library, close, library._handle).atexit = False


def _opened(code: bytes) -> ctypes.CDLL:
    with own_folder() as folder:
        path = folder / "kernel.so"
        path.write_bytes(code)
        try:
            return ctypes.CDLL(str(path))
        except OSError as error:
            raise ToolchainError((str(path),), str(error), "cannot be loaded") from None


def complaint(path: Path, flags: Sequence[str], compiler: Compiler) -> str:
    """The error messages of the compiler for a file; empty when it accepts it."""
    words = (*compiler.command, *flags, "-fsyntax-only", "-w", str(path))
    done = run_tool(words)
    return "" if done.returncode == 0 else done.stderr.strip() or "it failed without a word"


def _key(text: str, flags: Sequence[str], compiler: Compiler) -> str:
    program = os.stat(compiler.command[0])
    identity = f"{compiler.version} {program.st_size} {program.st_mtime_ns}"
    # Flags such as -march=native say what the processor has by another name: one home may serve
    # several machines, and a library for one of them end another's process.
    parts = (
        "library",
        processor_text(),
        text,
        "\0".join(flags),
        "\0".join(compiler.command),
        identity,
    )
    return hashlib.sha256("\0\0".join(parts).encode()).hexdigest()


def _built(text: str, flags: Sequence[str], compiler: Compiler) -> bytes:
    return _made(text, (*flags, "-shared", "-fPIC"), compiler, "-lm")


def _made(text: str, flags: Sequence[str], compiler: Compiler, *libraries: str) -> bytes:
    """What the compiler makes of a text."""
    with own_folder() as folder:
        source, target = folder / "kernel.c", folder / "kernel"
        source.write_text(text, encoding="utf-8")
        words = (*compiler.command, *flags, "-o", str(target), str(source), *libraries)
        done = run_tool(words)
        if done.returncode != 0:
            raise ToolchainError(words, done.stderr or done.stdout, "failed")
        return target.read_bytes()


def run_tool(words: Sequence[str]) -> Said:
    """Run a tool, for at most `_SECONDS`."""
    try:
        done = call(words, seconds=_SECONDS)
    except OSError as error:
        raise ToolchainError(words, str(error), "cannot be run") from None
    if done.is_late:
        raise ToolchainError(words, "", f"took longer than {_SECONDS:.0f} s")
    said, complained = (text.decode("utf-8", "replace") for text in (done.output, done.errors))
    return Said(done.status, said, complained)
