"""Kernels: from a nest to loaded code, kept in memory and on disk.

    LoopNest --backends--> Module --runtime--> object code --> CompiledKernel

Nothing here needs isl, so a call whose kernel lies in the disk cache never loads it; nor does it
load what makes new kernels.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from loopwright import options
from loopwright.backends.llvm.llvm_entry import entry_symbols
from loopwright.diagnostics import UsageError
from loopwright.faults import FAULTS, survive
from loopwright.ir.dtypes import FLOAT32, FLOAT64
from loopwright.ir.kernel_variant import Algebra, ContractionKernel
from loopwright.log import dump, log
from loopwright.machines.host import host
from loopwright.memo import BoundedCache, SharedWhileUsed
from loopwright.runtime import llvm_engine as jit
from loopwright.runtime.code_memory import bounded
from loopwright.runtime.disk_cache import Entry, disk_cache
from loopwright.runtime.kernel import CompiledKernel
from loopwright.runtime.native_dispatch import Dispatcher, knows_layout
from loopwright.runtime.thread_pool import Pool
from loopwright.runtime.workers import SYMBOLS, pool_source

if TYPE_CHECKING:
    from loopwright.ir.contraction import LoopRange
    from loopwright.ir.expr import Expr
    from loopwright.ir.loops import LoopNest
    from loopwright.ir.machine import Machine
    from loopwright.ir.module import Module
    from loopwright.ir.program import Access, Array

__all__ = [
    "ENTRY",
    "Unproven",
    "contraction_kernel",
    "dispatcher",
    "elementwise_nest",
    "machine_code_module",
    "nest_kernel",
    "object_kernel",
    "recall",
    "remember",
    "stage_text",
    "thread_pool",
]

ENTRY = "kernel"


class Unproven(Exception):  # noqa: N818, a verdict and no error
    """Raised when the proof of a contraction's plan takes too long, or is at fault."""


# With and without bounds checks. What is forgotten here lives on in the launches that use it, and
# calls that need it again share it with them.
_kernels: BoundedCache[tuple[str, bool], CompiledKernel] = bounded(BoundedCache(1024))
_loaded: SharedWhileUsed[tuple[str, bool], jit.LoadedObject] = SharedWhileUsed()
_lock = threading.RLock()
_pool: Pool | None = None
_dispatcher: Dispatcher | None = None


def contraction_kernel(kernel: ContractionKernel, make: Callable[[], LoopNest]) -> CompiledKernel:
    """A contraction's kernel: from memory, else from disk, else compiled from `make()`."""
    checked = options.current().boundscheck
    found = _kernels.get((repr(kernel), checked))  # as text: -0.0 is not 0.0
    return found or _load(kernel, checked, make, "")


def nest_kernel(
    key: str, make: Callable[[], LoopNest], what: str = "loops", *, checked: bool = False
) -> CompiledKernel:
    """The kernel of the nest that `make` gives; `key` names everything the nest is made from.

    A kernel found in memory or on disk needs no nest. Logs call it `what`. With `checked`, it
    raises BoundsError for an access outside of its arrays, whatever the options say.
    """
    checked = checked or options.current().boundscheck
    found = _kernels.get((key, checked))
    return found or _load(key, checked, make, what)


def object_kernel(key: str, make: Callable[[], Entry], what: str) -> CompiledKernel:
    """The kernel of an object file with the entry points of ours, which `make` gives.

    `key` names everything it is made from, who makes it included.
    """
    found = _kernels.get((key, False))
    if found is None:
        entry = _stored(key, make, what)  # outside of the lock: another program makes it
        found = _linked(key, False, lambda: entry)
    return found


def elementwise_nest(
    loops: Sequence[LoopRange],
    target: Access,
    value: Expr,
    arrays: Sequence[Array],
    params: Sequence[str],
    unit: Mapping[str, int],
    machine: Machine,
) -> LoopNest:
    """The nest of `target = value` over loops, for arrays with the given short strides."""
    lanes = machine.lanes(value.dtype.real.bits)
    from loopwright.lower.buffers import specialise  # lazy: likewise

    # lazy: for new kernels only
    from loopwright.lower.contraction_nests.elements import lower_elementwise

    nest = lower_elementwise(ENTRY, loops, target, value, arrays, params, lanes)
    return specialise(nest, unit)


def stage_text(nest: LoopNest, stage: str, machine: Machine) -> str:
    """What a stage makes of a nest: its loops, C ("c"), LLVM IR ("llvm") or assembly ("asm")."""
    if stage == "loops":
        from loopwright.ir.text import nest_text  # lazy: loads isl, which nests do without

        return nest_text(nest)
    if stage == "c":
        # lazy: only those who ask for C need it
        from loopwright.backends.c_text.c_dialect import OPENMP
        from loopwright.backends.c_text.c_module import emit_c  # lazy: likewise

        return emit_c(replace(nest, name=ENTRY), OPENMP).text
    checked = options.current().boundscheck
    module = machine_code_module(replace(nest, name=ENTRY), machine, checked=checked)
    if stage == "llvm":
        return module.text
    if machine == host():
        return jit.assembly(module.units, _cpu())
    return jit.assembly(module.units, machine.llvm_cpu, machine.isa)


def machine_code_module(nest: LoopNest, machine: Machine, *, checked: bool = False) -> Module:
    """LLVM IR of a nest, rewritten as the code generator of this machine likes it."""
    # lazy: for new kernels
    from loopwright.backends.elementary.elementary_functions import elementary_functions
    from loopwright.backends.llvm.llvm_emitter import emit_module  # lazy: likewise
    from loopwright.lower.beside_leaves import beside_leaves  # lazy: likewise
    from loopwright.lower.collapse_rows import collapse_rows  # lazy: likewise
    from loopwright.lower.split_at_borders import split_at_borders  # lazy: likewise
    from loopwright.lower.unswitch_loops import unswitch_loops  # lazy: likewise
    from loopwright.lower.values.extremes_in_lanes import extremes_in_lanes  # lazy: likewise
    from loopwright.lower.values.functions_apart import functions_apart  # lazy: likewise
    from loopwright.lower.values.lanes_in_scalars import lanes_in_scalars  # lazy: likewise
    from loopwright.lower.values.narrow_arithmetic import narrow_arithmetic  # lazy: likewise
    from loopwright.lower.values.plain_reductions import plain_reductions  # lazy: likewise

    # lazy: likewise
    from loopwright.lower.values.quotients_apart import LEAST_LANES, quotients_apart
    from loopwright.lower.values.rare_calls import branch_around_calls  # lazy: likewise
    from loopwright.lower.values.rare_lanes import branch_on_lanes  # lazy: likewise
    from loopwright.lower.values.rare_quotients import branch_around_quotients  # lazy: likewise
    from loopwright.lower.values.sums_in_lanes import sums_in_lanes  # lazy: likewise

    wide = [dtype for dtype in (FLOAT32, FLOAT64) if machine.lanes(dtype.bits) >= LEAST_LANES]

    def rewritten(nest: LoopNest) -> LoopNest:
        known = elementary_functions(machine.features)
        liked = nest if checked else collapse_rows(nest)  # subscripts leave their rows
        liked = unswitch_loops(split_at_borders(liked))
        liked = branch_around_calls(narrow_arithmetic(liked), known)
        if nest.leave_to_llvm and not checked:
            liked = extremes_in_lanes(liked, machine.lanes)
        liked = functions_apart(plain_reductions(branch_on_lanes(liked)), known)
        liked = branch_around_quotients(sums_in_lanes(liked, wide))
        return lanes_in_scalars(quotients_apart(liked, wide))

    try:
        liked = beside_leaves(nest, rewritten)
    except FAULTS as error:
        survive(error, f"the code of '{nest.name}'")
        liked = nest
    return emit_module(liked, machine.features, checked=checked)


def _load(
    key: ContractionKernel | str, checked: bool, make: Callable[[], LoopNest], what: str
) -> CompiledKernel:
    """The kernel of a nest."""
    name = key if isinstance(key, str) else repr(key)
    return _linked(name, checked, lambda: _entry(key, checked, make, what))


def _linked(name: str, checked: bool, stored: Callable[[], Entry]) -> CompiledKernel:
    """Object code, from disk when it is there, linked into the process."""
    with _lock:
        found = _kernels.get((name, checked))
        if found is None:
            loaded = _loaded.get((name, checked))
            if loaded is None:
                entry = stored()
                loaded = jit.load_object(entry.code, entry_symbols(ENTRY), entry.header)
                _loaded[name, checked] = loaded
            found = _kernels[name, checked] = _kernel(loaded)
        return found


def _kernel(code: jit.LoadedObject) -> CompiledKernel:
    if "ranks" not in code.header:
        return CompiledKernel(code, ENTRY, **code.header)
    from loopwright.runtime.checked_kernel import CheckedKernel  # lazy: for those who check only

    return CheckedKernel(code, ENTRY, **code.header)


def _entry(
    key: ContractionKernel | str, checked: bool, make: Callable[[], LoopNest], what: str
) -> Entry:
    """The stored kernel of `key`. Who asks to see how it is compiled gets it compiled."""
    if isinstance(key, ContractionKernel):
        algorithm, dtype = key.variant.algorithm.value, key.algebra.accumulator
        what = f"{algorithm} kernel of {_operators(key.algebra)} in {dtype}"

    def compiled() -> Entry:
        start = time.perf_counter()
        nest = replace(make(), name=ENTRY)
        middle = time.perf_counter()
        entry = _compiled(nest, isinstance(key, ContractionKernel), checked)
        ends = start, middle, time.perf_counter()
        log("time", lambda: _durations(what, ends))
        return entry

    content = key if isinstance(key, str) else repr(key)
    content = f"{content} checked" if checked else content
    return _stored(content, compiled, what, anew=bool(options.current().dump))


def _operators(algebra: Algebra) -> str:
    names = (
        x if isinstance(x, str) else "a user's function" for x in (algebra.plus, algebra.times)
    )
    return " over ".join(names)


def _durations(what: str, ends: tuple[float, float, float]) -> str:
    start, middle, end = ends
    loops, code = 1e3 * (middle - start), 1e3 * (end - middle)
    return f"{what}: compiled in {loops + code:.1f} ms, {loops:.1f} to loops, {code:.1f} to code"


def _stored(content: str, make: Callable[[], Entry], what: str, *, anew: bool = False) -> Entry:
    """What the disk holds for `content`, else what `make` gives, which is stored."""
    name = _content_key(content)
    cache = disk_cache()
    entry = cache.get(name) if cache is not None and not anew else None
    found = (
        "off" if cache is None else "passed over" if anew else "miss" if entry is None else "hit"
    )
    log("cache", lambda: f"{found}, {what}, {name[:16]}")
    if entry is None:
        entry = make()
        if cache is not None:
            cache.put(name, entry)
    return entry


def _compiled(nest: LoopNest, is_contraction: bool, checked: bool) -> Entry:
    if options.current().check:
        from loopwright.ir.check import check_nest  # lazy: loads isl, and only developers check

        check_nest(nest)
    machine = host()  # code that is loaded runs here
    for stage in ("loops", "c", "llvm", "asm"):
        dump(stage, partial(stage_text, nest, stage, machine))
    module = machine_code_module(nest, machine, checked=checked)
    header = {
        "buffers": list(module.buffers),
        "scalars": list(module.scalars),
        "is_parallel": _is_parallel(nest),
        "needs_memory": _needs_memory(nest),
    }
    if checked:
        header |= _checks(nest, is_contraction)
    return Entry(header, jit.compile_to_object(module.units, _cpu()))


def _checks(nest: LoopNest, is_contraction: bool) -> dict[str, Any]:
    """What a call must know to fill in limits and to name who left them.

    Kernels of contractions see their operands as memory, by places; others by subscripts.
    """
    from loopwright.backends.llvm.llvm_bounds_check import checked_names  # lazy: to check only
    from loopwright.ir.loops import Space  # lazy: for new kernels only

    arguments = [buffer for buffer in nest.buffers if buffer.space is Space.GLOBAL]
    ranks = [-1 if is_contraction and b.strides else len(b.strides) for b in arguments]
    return {"names": list(checked_names(nest)), "ranks": ranks}


def _cpu() -> str | None:
    """LLVM's name of the processor that LOOPWRIGHT_CPU asks for; None: this one.

    LLVM takes a name it does not know for a processor without floating-point registers: calls of
    the C library would get their arguments in the wrong places.
    """
    name = options.current().cpu
    if name is None:
        return None
    from loopwright.machines.load import load_machine  # lazy: almost nobody asks for another

    machine = load_machine(name)
    if machine.isa != host().isa:
        raise UsageError(
            f"code for '{name}' cannot run here",
            found=f"{machine.isa}, this is {host().isa}",
            hint=f"LOOPWRIGHT_CPU names a machine of {host().isa}",
        )
    return machine.llvm_cpu


def _is_parallel(nest: LoopNest) -> bool:
    from loopwright.ir.loops import For, Mark  # lazy: for new kernels only
    from loopwright.ir.visit import statements  # lazy: likewise

    return any(isinstance(s, For) and s.mark is Mark.PARALLEL for s in statements(nest.body))


def _needs_memory(nest: LoopNest) -> bool:
    """Whether a call must bring more than arrays and scalars."""
    from loopwright.ir.loops import Alloc, Space  # lazy: for new kernels only
    from loopwright.ir.visit import statements  # lazy: likewise

    spaces = {s.buffer.space for s in statements(nest.body) if isinstance(s, Alloc)}
    spaces |= {buffer.space for buffer in nest.buffers}
    return bool(spaces & {Space.SCRATCH, Space.PRIVATE, Space.TABLE})


def recall(content: str) -> Any | None:
    """The JSON value that `remember` stored for `content` in this or an earlier process."""
    cache = disk_cache()
    entry = cache.get(_content_key(content)) if cache is not None else None
    return None if entry is None else entry.header


def remember(content: str, facts: dict[str, Any]) -> None:
    """Keep a JSON value on disk; `content` names everything it was made from."""
    cache = disk_cache()
    if cache is not None:
        cache.put(_content_key(content), Entry(facts, b""))


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
    entry = _stored(source, lambda: Entry({}, jit.compile_to_object(source)), "workers")
    return Pool(jit.load_object(entry.code, SYMBOLS))


def dispatcher() -> Dispatcher | None:
    """The native dispatcher of repeated calls; None where Python has another layout of objects."""
    global _dispatcher
    if _dispatcher is None and knows_layout():
        with _lock:
            if _dispatcher is None:
                _dispatcher = Dispatcher(_dispatch_code())
    return _dispatcher


def _dispatch_code() -> jit.LoadedObject:
    # lazy: where Python has another layout, never
    from loopwright.backends.llvm.llvm_dispatch import DISPATCH_SYMBOLS, emit_dispatch

    source = emit_dispatch()
    entry = _stored(source, lambda: Entry({}, jit.compile_to_object(source)), "dispatcher")
    return jit.load_for_ever(entry.code, DISPATCH_SYMBOLS)


def _content_key(content: str) -> str:
    """Hash of what a kernel is made from: content, compiler, LLVM, CPU and Python's objects."""
    cpu = _cpu() or jit.host_target()
    # Entry points know the layout of objects, which differs between builds of Python.
    python = sys.implementation.cache_tag or ""
    parts = (content, _compiler_identity(), jit.llvm_version(), cpu, python)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


_identity: str | None = None


def _compiler_identity() -> str:
    """Name, size and time of every file of this package: a changed compiler makes new keys."""
    global _identity
    if _identity is None:
        facts, folders = [], [os.path.dirname(os.path.abspath(__file__))]
        for folder in folders:  # which grows; os.walk takes twice as long
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.endswith(".py"):
                        found = entry.stat()
                        facts.append(f"{entry.path} {found.st_size} {found.st_mtime_ns}")
                    elif entry.name != "__pycache__" and entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        _identity = hashlib.sha256("\n".join(sorted(facts)).encode()).hexdigest()
    return _identity


def _after_fork() -> None:
    """A child has none of the parent's threads, and locks may have been held by them."""
    global _lock, _pool
    _lock = threading.RLock()
    _pool = None


os.register_at_fork(after_in_child=_after_fork)
