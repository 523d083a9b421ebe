"""From LLVM IR to callable addresses, by llvmlite: optimise, emit objects, link, unload."""

from __future__ import annotations

import errno
import os
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import cache
from itertools import count
from typing import Any, TypeAlias

import llvmlite.binding as llvm

from loopwright.diagnostics import InternalError, RoomError
from loopwright.ir.module import CodeUnit
from loopwright.lazy_dataclass import dataclass
from loopwright.runtime.address import Address, hold_for_ever
from loopwright.runtime.code_memory import count_code, make_room
from loopwright.runtime.llvm_extremes import has_extremes, with_range_instructions
from loopwright.undisturbed import undisturbed

__all__ = [
    "LoadedObject",
    "assembly",
    "compile_as_written",
    "compile_to_object",
    "host_cpu_name",
    "host_target",
    "llvm_version",
    "load_for_ever",
    "load_object",
]

# The units of a module, or the text of one that is explicit.
LLVMCode: TypeAlias = str | Sequence[CodeUnit]

_TRIPLES = {"ppc64le": "powerpc64le-unknown-linux-gnu"}  # where LLVM has another name
_lock = threading.RLock()
# LLVM keeps some 10 KiB of every object that was ever linked until its engine goes. An engine
# therefore links so many and is followed by another; it goes with the last of its objects.
_MOST_LINKED = 64
_lljit: llvm.orcjit.LLJIT | None = None
_linked_now = 0  # objects that this engine has linked
_names = count()  # libraries of one engine must have different names
_is_initialised = False


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class LoadedObject:
    """Machine code in this process; the code stays as long as this object is referenced."""

    code: object  # keeps the code alive
    addresses: dict[str, int]
    header: Mapping[str, Any] = field(default_factory=dict)  # what its maker says of it

    def address(self, symbol: str) -> Address:
        return Address(self.addresses[symbol], self)


# Processors whose microcode lets gathers wait until they are safe (INTEL-SA-00828, 2023); virtual
# machines do not tell. Red and black points took 8 times as long by them (measured, Cascade Lake),
# where single loads take as long as gathers did before.
_SLOW_GATHERS = frozenset(
    {
        "skylake",
        "skylake-avx512",
        "cascadelake",
        "cooperlake",
        "icelake-client",
        "icelake-server",
        "tigerlake",
        "rocketlake",
    }
)


@cache
def host_cpu_name() -> str:
    return undisturbed(lambda: str(llvm.get_host_cpu_name()))


def host_target() -> str:
    """What object code for this host depends on: the processor's name and its extensions."""
    return f"{host_cpu_name()} {_host_features()}".rstrip()


@cache
def _host_features() -> str:
    """The extensions this process may use, as LLVM's switches; empty: those the name implies.

    A virtual machine may hide extensions that the model of its processor has, and code that uses
    them is illegal there: on x86 LLVM asks the processor about each. On aarch64 it under-reports.
    """

    def asked() -> str:
        if not llvm.get_default_triple().startswith("x86_64"):
            return ""
        return str(llvm.get_host_cpu_features().flatten())

    return ",".join(filter(None, (undisturbed(asked), _tuning(host_cpu_name()))))


def _tuning(cpu: str) -> str:
    """What code for a processor had better do without, as LLVM's switches."""
    return "+prefer-no-gather" if cpu in _SLOW_GATHERS else ""


def llvm_version() -> str:
    return ".".join(map(str, llvm.llvm_version_info))


def _machine_for(units: Sequence[CodeUnit], cpu: str | None, isa: str | None) -> llvm.TargetMachine:
    """The machine that emits `units`; where a function is optnone, at level 0.

    The attribute alone keeps passes from running, but not analyses of the code generator.
    """
    return _target_machine(cpu, isa, 0 if any(" optnone" in unit.text for unit in units) else 3)


def _target_machine(cpu: str | None, isa: str | None = None, effort: int = 3) -> llvm.TargetMachine:
    if isa is None:
        target = llvm.Target.from_default_triple()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        target = llvm.Target.from_triple(_TRIPLES.get(isa, f"{isa}-unknown-linux-gnu"))
    return target.create_target_machine(
        cpu=cpu or host_cpu_name(),
        features=_tuning(cpu) if cpu else _host_features(),
        opt=effort,
        reloc="pic",
        codemodel="small",
    )


def _parsed(unit: CodeUnit, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    """Parse and verify the functions of one unit.

    The wheel's LLVM aborts the process on broken IR, hence the verification before any pass.
    """
    try:
        module = llvm.parse_assembly(unit.text)
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        raise InternalError(f"emitted LLVM IR is not valid: {error}", unit.text) from error
    return module


def _optimised(unit: CodeUnit, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    """Parse and optimise the functions of one unit.

    Explicit code needs few passes: skipping the others is what makes such kernels compile in
    milliseconds (ADR 4).
    """
    module = _parsed(unit, machine)
    if unit.leave_to_llvm:
        tuning = llvm.create_pipeline_tuning_options(speed_level=3)
        tuning.loop_vectorization = tuning.slp_vectorization = True
        tuning.loop_interleaving = tuning.loop_unrolling = not unit.has_many_loops
        builder = llvm.create_pass_builder(machine, tuning)
        passes = builder.getModulePassManager()
        if "vector-function-abi-variant" in unit.text:
            # Functions of vectors have calls only now that there are vectors.
            passes.add_always_inliner_pass()
            passes.add_instruction_combine_pass()
            passes.add_simplify_cfg_pass()
    else:
        tuning = llvm.create_pipeline_tuning_options(speed_level=2)
        builder = llvm.create_pass_builder(machine, tuning)
        passes = llvm.create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        passes.add_instruction_combine_pass()
    _set_options([f"-slp-threshold={_least_saved(machine)}"])
    try:
        passes.run(module, builder)
    finally:
        _set_options(["-slp-threshold=0"])
    _dispose(passes)
    if unit.leave_to_llvm and has_extremes(unit.text) and _has_range(machine):
        exchanged = with_range_instructions(str(module))
        return _parsed(replace(unit, text=exchanged), machine)
    return module


def _least_saved(machine: llvm.TargetMachine) -> int:
    """Instructions that vectors of straight-line code must save to be taken, by LLVM's own count.

    The count knows nothing of chains: on x86-64 what moves numbers between lanes takes three cycles
    of each link, and what was stored in parts is not forwarded to a wider load. Vectors that save
    little lost there (recurrences 0.7, chains 0.6, assembled elements 0.5 of the time without).
    """
    return 12 if machine.triple.startswith("x86_64") else 0


def _has_range(machine: llvm.TargetMachine) -> bool:
    """Whether code is for this processor and it has VRANGE for vectors of every width."""
    features = _host_features().split(",")
    is_here = machine.triple.startswith("x86_64") and bool(features)
    return is_here and {"+avx512dq", "+avx512vl"} <= set(features)


def _dispose(passes: llvm.newpassmanagers.ModulePassManager) -> None:
    """Free a pass manager.

    llvmlite 0.50 never does: the empty method of its first base class hides the one that
    would. A manager of the whole pipeline holds 300 KiB.
    """
    if type(passes)._dispose is llvm.ffi.ObjectRef._dispose:
        llvm.newpassmanagers.NewPassManager._dispose(passes)
        passes.detach()
    passes.close()


def _linked(
    code: LLVMCode, cpu: str | None, isa: str | None = None
) -> tuple[llvm.TargetMachine, llvm.ModuleRef]:
    """The optimised module of all units, and the machine that emits it."""
    _initialise()
    units = [CodeUnit(code, leave_to_llvm=False)] if isinstance(code, str) else code
    machine = _machine_for(units, cpu, isa)
    module, *others = (_optimised(_with_host_features(unit, cpu), machine) for unit in units)
    for other in others:
        module.link_in(other)
    return machine, module


def _with_host_features(unit: CodeUnit, cpu: str | None) -> CodeUnit:
    """`unit` with the host's extensions added to those that functions name.

    For a function that names extensions, LLVM ignores those of its target machine.
    """
    features = _tuning(cpu) if cpu else _host_features()
    if not features:
        return unit
    begin = '"target-features"="'
    return replace(unit, text=unit.text.replace(begin, f"{begin}{features},"))


@contextmanager
def _code_generation(code: LLVMCode) -> Iterator[None]:
    """The code generator as it suits `code`; within the lock.

    The pass that chooses pointers for loops takes four fifths of the time of code generation where
    there are many of them; a few loops gain up to a third by it.
    """
    is_brief = not isinstance(code, str) and any(unit.has_many_loops for unit in code)
    _set_options([f"-disable-lsr={str(is_brief).lower()}"])
    try:
        yield
    finally:
        _set_options(["-disable-lsr=false"])


def compile_to_object(code: LLVMCode, cpu: str | None = None) -> bytes:
    """The bytes of a relocatable object for this host, or for the named CPU of its kind."""

    def work() -> bytes:
        with _lock:
            machine, module = _linked(code, cpu)
            with _code_generation(code):
                return bytes(machine.emit_object(module))

    return undisturbed(work)


# Code generation of LLVM's -O1: the same register allocator and scheduler as -O3 has, without the
# passes that look for more in loops, which code that is written out does not need.
_LOW_EFFORT = 1
_quick_machine: llvm.TargetMachine | None = None
# Passes of the code generator that take half of its time and give such code nothing: its pointers
# are advanced by constants already, operands are loaded just before they are used, blocks stand in
# the order of the loops, and nothing is computed twice. LLVM has switches for the whole process
# only; they are turned within the lock.
_NEEDLESS = (
    "disable-lsr",
    "disable-cgp",
    "disable-mergeicmps",
    "disable-machine-licm",
    "disable-machine-cse",
    "disable-machine-sink",
    "disable-peephole",
    "disable-copyprop",
    "disable-block-placement",
)
_SCHEDULERS = ("enable-misched", "enable-post-misched")
_BRIEF = (*(f"-{x}=true" for x in _NEEDLESS), *(f"-{x}=false" for x in _SCHEDULERS))
_USUAL = (*(f"-{x}=false" for x in _NEEDLESS), *(f"-{x}=true" for x in _SCHEDULERS))


def compile_as_written(text: str) -> bytes:
    """The object of explicit code for this host: no pass runs, and code generation is brief.

    For code that is run a few times, such as candidates of a search. Nothing is kept.
    """

    def work() -> bytes:
        global _quick_machine
        with _lock:
            _initialise()
            if _quick_machine is None:
                _quick_machine = _target_machine(None, effort=_LOW_EFFORT)
            unit = _with_host_features(CodeUnit(text, leave_to_llvm=False), None)
            module = _parsed(unit, _quick_machine)
            _set_options(_BRIEF)
            try:
                return bytes(_quick_machine.emit_object(module))
            finally:
                _set_options(_USUAL)

    return undisturbed(work)


def _set_options(options: Sequence[str]) -> None:
    for option in options:
        llvm.set_option("loopwright", option)


def assembly(code: LLVMCode, cpu: str | None = None, isa: str | None = None) -> str:
    """The assembly of the object that `compile_to_object` makes; or for another instruction set."""

    def work() -> str:
        with _lock:
            machine, module = _linked(code, cpu, isa)
            with _code_generation(code):
                return str(machine.emit_assembly(module))

    return undisturbed(work)


def load_object(
    code: bytes, symbols: tuple[str, ...], header: Mapping[str, Any] | None = None
) -> LoadedObject:
    """Link an object into the process; libc and libm are found in the process itself.

    Caches of code make room for it first.
    """
    make_room(len(code))
    return undisturbed(lambda: _loaded(code, symbols, header or {}))


def load_for_ever(code: bytes, symbols: tuple[str, ...]) -> LoadedObject:
    """The same for code that objects of Python refer to: it stays while the interpreter ends."""

    def work() -> LoadedObject:
        with _lock:
            loaded = _loaded(code, symbols)
            hold_for_ever(loaded)
            hold_for_ever(next(reversed(_trackers.values())))
            return loaded

    return undisturbed(work)


def _loaded(
    code: bytes, symbols: tuple[str, ...], header: Mapping[str, Any] | None = None
) -> LoadedObject:
    with _lock:
        _unload()
        engine = _engine()
        builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for symbol in symbols:
            builder = builder.export_symbol(symbol)
        try:
            tracker = builder.link(engine, f"loopwright{next(_names)}")
        except RuntimeError as error:
            if os.strerror(errno.ENOMEM) in str(error):
                raise RoomError("there is no memory left for compiled code") from error
            raise InternalError(f"compiled code cannot be linked: {error}") from error
        tracker.engine = engine  # which must not go before its objects
        code_of = _Code()
        _trackers[_Unused(code_of, _unused.append)] = tracker
        count_code(code_of, len(code))
        addresses = {symbol: int(tracker[symbol]) for symbol in symbols}
        return LoadedObject(code_of, addresses, header or {})


class _Code:
    """A token that is alive as long as code is in use."""

    __slots__ = ("__weakref__",)


# What LLVM linked is unloaded by whoever links next: the last reference to code may go anywhere,
# also where a handler of a signal raises. The callback of these references is a function of C,
# which nothing breaks off.
_Unused = weakref.ref[_Code]
_trackers: dict[weakref.ref[_Code], llvm.orcjit.ResourceTracker] = {}
_unused: list[weakref.ref[_Code]] = []


def _unload() -> None:
    """Unload the code that nobody uses any more."""
    while _unused:
        del _trackers[_unused.pop()]


def _before_fork() -> None:
    """Wait until no thread is inside LLVM: a child must not inherit it in the middle of a call.

    llvmlite guards every call with a lock of its own, also those of finalisers, which run outside
    `_lock`; a child that inherits that one taken would wait for ever. Always `_lock` first.
    """
    _lock.acquire()
    llvm.ffi.lib._lock.__enter__()


def _after_fork() -> None:
    llvm.ffi.lib._lock.__exit__(None, None, None)
    _lock.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


def _initialise() -> None:
    global _is_initialised
    if not _is_initialised:
        # Values carried from one iteration to the next become shuffles in vector loops, which cost
        # more than loading them again; where it pays, transform/register_promotion keeps elements.
        llvm.set_option("loopwright", "-enable-load-pre=false")
        if llvm.get_default_triple().startswith("x86_64"):
            # Minima that loops hand on would become branches, which data make unpredictable: a row
            # of edit distances took twice as long.
            llvm.set_option("loopwright", "-x86-cmov-converter=false")
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        _is_initialised = True


def _engine() -> llvm.orcjit.LLJIT:
    """The engine that links the next object."""
    global _lljit, _linked_now
    _initialise()
    if _lljit is None or _linked_now >= _MOST_LINKED:
        # JITLink keeps the sections of an object together. The older linker places each where
        # there is room, and ends the process when two lie too far apart for the small code model.
        _lljit = llvm.create_lljit_compiler(
            _target_machine(None), use_jit_link=True, suppress_errors=True
        )
        _linked_now = 0
    _linked_now += 1
    return _lljit
