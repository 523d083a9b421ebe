"""Kernels: from a form or a nest to loaded code, kept in memory and on disk.

    Form --lower--> LoopNest --backends--> Module --runtime--> object code --> CompiledKernel

Nothing here needs isl, so a call whose kernel lies in the disk cache never loads it.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from dataclasses import replace

from loopwright import options
from loopwright.backends.llvm import emit_module
from loopwright.backends.llvm_entry import entry_symbols
from loopwright.ir.form import Form
from loopwright.ir.loops import LoopNest
from loopwright.ir.module import Module
from loopwright.lower.contraction import lower_contraction
from loopwright.machines.host import host
from loopwright.runtime import jit
from loopwright.runtime.cache import Entry, disk_cache
from loopwright.runtime.kernel import CompiledKernel
from loopwright.runtime.threads import SYMBOLS, Pool, pool_source

__all__ = [
    "contraction_kernel",
    "contraction_module",
    "contraction_nest",
    "nest_kernel",
    "nest_module",
    "thread_pool",
]

ENTRY = "kernel"
_kernels: dict[Form, CompiledKernel] = {}
_lock = threading.RLock()
_pool: Pool | None = None


def contraction_kernel(form: Form) -> CompiledKernel:
    """The kernel of a form: from memory, else from disk, else compiled."""
    found = _kernels.get(form)
    if found is None:
        with _lock:
            found = _kernels.get(form)
            if found is None:
                found = _load(repr(form), lambda: contraction_module(form))
                _kernels[form] = found
    return found


def contraction_nest(form: Form) -> LoopNest:
    """The loop nest of a form."""
    return lower_contraction(form, ENTRY)


def contraction_module(form: Form) -> Module:
    """The LLVM module of a form."""
    return emit_module(contraction_nest(form), host().features)


def nest_module(nest: LoopNest) -> Module:
    """The LLVM module of any nest."""
    return emit_module(replace(nest, name=ENTRY), host().features)


def nest_kernel(nest: LoopNest, key: str) -> CompiledKernel:
    """A kernel of any nest; `key` names everything the nest was made from."""
    with _lock:
        return _load(key, lambda: nest_module(nest))


def _load(key: str, make: Callable[[], Module]) -> CompiledKernel:
    """Object code of a module, from disk when it is there, linked into the process."""
    name = _content_key(key)
    cache = disk_cache()
    entry = cache.get(name) if cache is not None else None
    if entry is None:
        module = make()
        code = jit.compile_to_object(module.text, options.current().cpu)
        header = {"buffers": list(module.buffers), "scalars": list(module.scalars)}
        entry = Entry(header, code)
        if cache is not None:
            cache.put(name, entry)
    loaded = jit.load_object(entry.code, entry_symbols(ENTRY))
    return CompiledKernel(loaded, ENTRY, entry.header["buffers"], entry.header["scalars"])


def thread_pool() -> Pool:
    """The workers of this process, started on first use."""
    global _pool
    if _pool is None:
        with _lock:
            if _pool is None:
                _pool = _make_pool()
    return _pool


def _make_pool() -> Pool:
    source = pool_source()
    name = _content_key(source)
    cache = disk_cache()
    entry = cache.get(name) if cache is not None else None
    if entry is None:
        entry = Entry({}, jit.compile_to_object(source))
        if cache is not None:
            cache.put(name, entry)
    return Pool(jit.load_object(entry.code, SYMBOLS))


def _content_key(content: str) -> str:
    """Hash of what a kernel is made from: content, compiler, LLVM and CPU."""
    cpu = options.current().cpu or jit.host_cpu_name()
    parts = (content, _compiler_identity(), jit.llvm_version(), cpu)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


_identity: str | None = None


def _compiler_identity() -> str:
    """Name, size and time of every file of this package: a changed compiler makes new keys."""
    global _identity
    if _identity is None:
        home = os.path.dirname(os.path.abspath(__file__))
        facts = []
        for folder, _, files in sorted(os.walk(home)):
            for file in sorted(files):
                if file.endswith(".py"):
                    found = os.stat(os.path.join(folder, file))
                    facts.append(f"{folder}/{file} {found.st_size} {found.st_mtime_ns}")
        _identity = hashlib.sha256("\n".join(facts).encode()).hexdigest()
    return _identity


def _after_fork() -> None:
    """A child has none of the parent's threads, and locks may have been held by them."""
    global _lock, _pool
    _lock = threading.RLock()
    _pool = None


os.register_at_fork(after_in_child=_after_fork)
