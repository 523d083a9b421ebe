"""Resources of the system that run out: the n-th use of one by the package fails.

`failing("write", 3)` replaces the functions by which Python asks the system for something, so that
the third request of a kind fails as the system would fail it, where the package is among the
callers; with `lasting`, all later ones fail as well. n = 0 counts the requests only.

    open     a file, a pipe or a temporary folder: too many open files
    write    what reaches a disk: a new file, its bytes, its name, a folder; no space left
    fork     another program, or a copy of this process
    thread   another thread
    load     a shared library, or an object that LLVM links into the process
    memory   an array of NumPy, or pages of the system
"""

from __future__ import annotations

import _pyio
import _thread
import builtins
import ctypes
import errno
import io
import mmap
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import llvmlite.binding as llvm
from numpy._core import _multiarray_umath

import loopwright

PRIMITIVES = ("open", "write", "fork", "thread", "load", "memory")
LIMITS = ("files", "size", "room")

_PACKAGE = str(Path(loopwright.__file__).parent) + os.sep
_NOTHING = 0
# Bytes that NumPy always gets: where there are none for a Python number beside an array (`0 + a`),
# NumPy 2.4 at times writes to the missing array (PyArray_FromAny, LONG_setitem) and crashes.
_SMALL = 16


class Uses:
    """How often a primitive was asked for, and which requests fail."""

    def __init__(self, primitive: str, fails: int, *, lasting: bool) -> None:
        self.primitive = primitive
        self.count = 0
        self.failed = 0
        self.places: list[str] = []  # of the requests that failed
        self._fails = fails
        self._lasting = lasting
        self._lock = threading.Lock()  # no request of a thread is counted twice

    def fails(self, primitive: str) -> bool:
        """Count a request of the calling function; whether it is to fail."""
        if primitive != self.primitive:
            return False
        place = _place(sys._getframe(2))
        if place is None:
            return False
        with self._lock:
            self.count += 1
            due = self.count == self._fails or (self._lasting and 0 < self._fails < self.count)
            if due:
                self.failed += 1
                self.places.append(place)
            return due


def _place(frame: FrameType | None) -> str | None:
    """The line of the package that asks for something; None where the package does not."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(_PACKAGE):
            return f"{frame.f_code.co_filename[len(_PACKAGE) :]}:{frame.f_lineno}"
        frame = frame.f_back
    return None


@contextmanager
def failing(primitive: str, fails: int, *, lasting: bool = False) -> Iterator[Uses]:
    """Let requests of the package fail until the block ends."""
    uses = Uses(primitive, fails, lasting=lasting)
    with ExitStack() as stack:
        for target, name, replacement in _replacements(uses):
            stack.enter_context(patch.object(target, name, replacement))
        if primitive == "memory":
            stack.enter_context(_allocating(uses))
        yield uses


def _replacements(uses: Uses) -> Iterator[tuple[Any, str, Any]]:
    """The functions to replace, where they are looked up, and what replaces them."""

    opens = io.open

    def refused(error: Callable[..., Exception], primitive: str, real: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            # A file that is there already, as a number, gets an object only.
            is_new = real is not opens or not isinstance(given[0], int)
            if is_new and uses.fails(primitive):
                raise error(*given)
            return real(*given, **named)

        return call

    def on_disk(real: Any) -> Any:
        def call(handle: int, *given: Any) -> Any:
            if _is_on_disk(handle) and uses.fails("write"):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(handle, *given)

        return call

    def system_error(number: int) -> Callable[..., Exception]:
        def made(*given: Any) -> Exception:
            named = [x for x in given[:1] if isinstance(x, str | bytes | os.PathLike)]
            return OSError(number, os.strerror(number), *map(os.fspath, named))

        return made

    full = system_error(errno.ENOSPC)
    match uses.primitive:
        case "open":
            many = system_error(errno.EMFILE)
            yield os, "open", refused(many, "open", os.open)
            yield os, "pipe", refused(many, "open", os.pipe)
            for module in (io, builtins):
                yield module, "open", refused(many, "open", opens)
        case "write":
            real_open = os.open

            def creating(path: Any, flags: int, *rest: Any, **named: Any) -> int:
                if flags & os.O_CREAT and not os.path.exists(path) and uses.fails("write"):
                    raise full(path)
                return real_open(path, flags, *rest, **named)

            yield os, "open", creating
            written = _written_in_python()
            for name in ("replace", "rename", "link", "mkdir"):
                yield os, name, refused(full, "write", getattr(os, name))
            for name in ("write", "fsync", "ftruncate"):
                yield os, name, on_disk(getattr(os, name))
            for module in (io, builtins):
                yield module, "open", written
        case "fork":
            busy = system_error(errno.EAGAIN)
            yield os, "fork", refused(busy, "fork", os.fork)
            yield os, "posix_spawn", refused(busy, "fork", os.posix_spawn)
            yield subprocess, "_fork_exec", refused(busy, "fork", subprocess._fork_exec)  # type: ignore[attr-defined]
        case "thread":
            no_thread = refused(
                lambda *given: RuntimeError("can't start new thread"),
                "thread",
                _thread.start_new_thread,
            )
            yield _thread, "start_new_thread", no_thread
            yield threading, "_start_new_thread", no_thread
        case "load":
            unmapped = refused(_unmapped, "load", ctypes._dlopen)  # type: ignore[attr-defined]
            yield ctypes, "_dlopen", unmapped
            link = refused(
                lambda *given: RuntimeError("Cannot allocate memory"),
                "load",
                llvm.JITLibraryBuilder.link,
            )
            yield llvm.JITLibraryBuilder, "link", link
        case "memory":
            enough = system_error(errno.ENOMEM)
            yield mmap, "mmap", refused(enough, "memory", mmap.mmap)
            yield from _threads_with_allocator(uses)


def _is_on_disk(handle: int) -> bool:
    in_memory = os.readlink(f"/proc/self/fd/{handle}").startswith("/memfd:")
    return stat.S_ISREG(os.fstat(handle).st_mode) and not in_memory


def _unmapped(name: Any, *rest: Any) -> Exception:
    return OSError(f"{name}: failed to map segment from shared object")


def _written_in_python() -> Callable[..., Any]:
    """`open` whose files, if the package writes them, call os.write of this moment."""
    real = io.open

    def opened(file: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
        is_read = not set(mode) & set("wax+")
        if is_read or _place(sys._getframe(1)) is None:
            return real(file, mode, *rest, **named)
        return _pyio.open(file, mode, *rest, **named)

    return opened


# -- arrays ---------------------------------------------------------------------------------------

# Called and calling with the GIL, which NumPy's own allocator releases by itself.
_Malloc = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_Calloc = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
_Realloc = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class _Handler(ctypes.Structure):
    """PyDataMem_Handler of NumPy's C interface."""

    _fields_ = [
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        ("malloc", _Malloc),
        ("calloc", _Calloc),
        ("realloc", _Realloc),
        ("free", ctypes.c_void_p),
    ]


_kept: list[Any] = []  # arrays call their handler when they are freed, at any later time
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype = ctypes.py_object
_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_api = ctypes.cast(_pointer(_multiarray_umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
_set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(_api[304] or 0)
_get_handler = ctypes.PYFUNCTYPE(ctypes.py_object)(_api[305] or 0)


def _failing_handler(uses: Uses) -> Any:
    """NumPy's allocator, which returns no memory where a request is to fail."""
    usual = _Handler.from_address(_pointer(_get_handler(), b"mem_handler"))
    malloc, calloc, realloc = usual.malloc, usual.calloc, usual.realloc
    made = _Handler(b"failing", 1, usual.context)
    made.malloc = _Malloc(
        lambda context, size: _NOTHING if _fails(uses, size) else malloc(context, size)
    )
    made.calloc = _Calloc(
        lambda context, n, size: _NOTHING if _fails(uses, n * size) else calloc(context, n, size)
    )
    made.realloc = _Realloc(
        lambda context, old, size: _NOTHING if _fails(uses, size) else realloc(context, old, size)
    )
    made.free = usual.free
    _kept.append((made, malloc, calloc, realloc))
    return _capsule(ctypes.addressof(made), b"mem_handler", None)


def _fails(uses: Uses, size: int) -> bool:
    return size > _SMALL and uses.fails("memory")


@contextmanager
def _allocating(uses: Uses) -> Iterator[None]:
    before = _set_handler(_failing_handler(uses))
    try:
        yield
    finally:
        _set_handler(before)


def _threads_with_allocator(uses: Uses) -> Iterator[tuple[Any, str, Any]]:
    """Threads begin with NumPy's own allocator: those of the package get this one."""
    start, capsule = _thread.start_new_thread, _failing_handler(uses)

    def started(work: Callable[..., Any], given: tuple[Any, ...], *named: Any) -> int:
        def with_allocator(*mine: Any, **also: Any) -> Any:
            _set_handler(capsule)
            return work(*mine, **also)

        return start(with_allocator, given, *named)

    yield _thread, "start_new_thread", started
    yield threading, "_start_new_thread", started


# -- limits of the system -------------------------------------------------------------------------


@contextmanager
def limited(limit: str, amount: int) -> Iterator[None]:
    """Let the system refuse what is beyond a limit: open files, bytes of a file, MiB of memory.

    Counted from what is in use now, but for the bytes of a file.
    """
    match limit:
        case "files":
            which, most = resource.RLIMIT_NOFILE, _next_file() + amount
        case "size":
            which, most = resource.RLIMIT_FSIZE, amount
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        case _:
            used = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
            which, most = resource.RLIMIT_AS, used + (amount << 20)
    before = resource.getrlimit(which)
    resource.setrlimit(which, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(which, before)


def _next_file() -> int:
    handle = os.open(os.devnull, os.O_RDONLY)
    os.close(handle)
    return handle


def open_files() -> int:
    """Files that this process has open."""
    return len(os.listdir("/proc/self/fd"))
