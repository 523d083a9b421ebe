"""From LLVM IR to callable addresses: the only place of the runtime that talks to llvmlite."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass

import llvmlite.binding as llvm

from loopwright.diagnostics import InternalError

__all__ = [
    "LoadedObject",
    "assembly",
    "compile_to_object",
    "host_cpu_name",
    "llvm_version",
    "load_object",
]

_lock = threading.RLock()
_lljit: llvm.orcjit.LLJIT | None = None
_libraries = 0


@dataclass(frozen=True, slots=True)
class LoadedObject:
    """Machine code in this process; the code stays as long as this object is referenced."""

    tracker: object  # keeps the code alive
    addresses: dict[str, int]

    def address(self, symbol: str) -> int:
        return self.addresses[symbol]


def host_cpu_name() -> str:
    return str(llvm.get_host_cpu_name())


def llvm_version() -> str:
    return ".".join(map(str, llvm.llvm_version_info))


def _target_machine(cpu: str | None) -> llvm.TargetMachine:
    # The CPU *name* carries the features: get_host_cpu_features() under-reports on aarch64.
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=cpu or host_cpu_name(), opt=3, reloc="pic", codemodel="small"
    )


def _optimised(text: str, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    """Parse, verify and clean up. The vector code is explicit, so few passes are needed.

    The wheel's LLVM aborts the process on broken IR, hence the verification before any pass.
    """
    try:
        module = llvm.parse_assembly(text)
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        raise InternalError(f"emitted LLVM IR is not valid: {error}", text) from error
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.run(module, builder)
    return module


def compile_to_object(text: str, cpu: str | None = None) -> bytes:
    """LLVM IR to the bytes of a relocatable object for this host (or the named CPU of its kind)."""
    with _lock:
        _initialise()
        machine = _target_machine(cpu)
        return bytes(machine.emit_object(_optimised(text, machine)))


def assembly(text: str, cpu: str | None = None) -> str:
    """The assembly LLVM selects for `text`."""
    with _lock:
        _initialise()
        machine = _target_machine(cpu)
        return str(machine.emit_assembly(_optimised(text, machine)))


def load_object(code: bytes, symbols: tuple[str, ...]) -> LoadedObject:
    """Link an object into the process; libc and libm are found in the process itself."""
    global _libraries
    with _lock:
        jit = _initialise()
        _libraries += 1
        builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for symbol in symbols:
            builder = builder.export_symbol(symbol)
        try:
            tracker = builder.link(jit, f"loopwright{_libraries}")
        except RuntimeError as error:
            raise InternalError(f"compiled code cannot be linked: {error}") from error
        return LoadedObject(tracker, {symbol: int(tracker[symbol]) for symbol in symbols})


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


def _initialise() -> llvm.orcjit.LLJIT:
    global _lljit
    if _lljit is None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        _lljit = llvm.create_lljit_compiler(
            _target_machine(None), use_jit_link=False, suppress_errors=True
        )
    return _lljit
