"""CUDA C++ to machine code, by NVRTC: no device is needed, and the disk cache keeps the result."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Sequence
from typing import Any

from loopwright.diagnostics import ToolchainError, UsageError
from loopwright.log import log
from loopwright.runtime.disk_cache import Entry, disk_cache

__all__ = ["compile_cuda", "nvrtc_version"]

_INSTALL = "pip install 'loopwright[cuda]'"
_ARCH = re.compile(r"(sm|compute)_\d{2,3}[af]?")
_KERNEL = re.compile(r"__global__\s+void\s+(?:__\w+__\s*\([^)]*\)\s*)?(\w+)")
_PLACE = re.compile(r"\((\d+)\): (?:catastrophic )?error")
_lock = threading.Lock()  # NVRTC compiles one text at a time


def compile_cuda(text: str, arch: str, options: Sequence[str] = (), name: str = "kernels") -> bytes:
    """The cubin of a text for `arch` such as "sm_90", or its PTX for one such as "compute_90".

    Raises ToolchainError that names the kernel and the line where NVRTC refuses the text.
    """
    if not _ARCH.fullmatch(arch):
        raise UsageError("no CUDA architecture", found=repr(arch), hint="such as sm_90")
    nvrtc = _nvrtc()
    version = nvrtc_version()
    words = (f"--gpu-architecture={arch}", "--std=c++17", *_includes(text), *options)
    parts = ("cuda", text, *words, *map(str, version))
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    cache = disk_cache()
    entry = cache.get(key) if cache is not None else None
    found = "off" if cache is None else "miss" if entry is None else "hit"
    log("cache", lambda: f"{found}, CUDA of {name} for {arch}, {key[:16]}")
    if entry is not None:
        return entry.code
    with _lock:
        code = _compiled(nvrtc, text, words, f"{name}.cu", is_ptx=arch.startswith("compute"))
    if cache is not None:
        cache.put(key, Entry({"kind": "cuda", "arch": arch}, code))
    return code


def nvrtc_version() -> tuple[int, int]:
    """The version of NVRTC. Raises UsageError where it is not installed."""
    nvrtc = _nvrtc()
    try:
        status, major, minor = nvrtc.nvrtcVersion()
    except (OSError, RuntimeError) as error:  # of the loader of libnvrtc
        raise UsageError(
            "CUDA needs NVRTC, its compiler", found=str(error).splitlines()[0], hint=_INSTALL
        ) from error
    assert status == 0
    return major, minor


def _nvrtc() -> Any:
    try:
        from cuda.bindings import nvrtc  # lazy: optional, and only new kernels need it
    except ImportError as error:
        raise UsageError(
            "CUDA needs the package cuda-bindings", found=str(error), hint=_INSTALL
        ) from error
    return nvrtc


def _includes(text: str) -> tuple[str, ...]:
    """Where the headers of CUDA lie, for a text that includes some of them."""
    if "#include" not in text:
        return ()
    from cuda import pathfinder  # lazy: comes with cuda-bindings

    folder = pathfinder.find_nvidia_header_directory("cudart")
    if folder is None:
        raise UsageError(
            "CUDA's headers are not installed",
            hint=f"{_INSTALL}, or set CUDA_HOME",
        )
    return (f"--include-path={folder}",)


def _compiled(nvrtc: Any, text: str, words: tuple[str, ...], name: str, *, is_ptx: bool) -> bytes:
    def call(function: str, *arguments: Any) -> Any:
        status, *results = getattr(nvrtc, function)(*arguments)
        if status != 0:
            fault = nvrtc.nvrtcGetErrorString(status)[1].decode()
            raise ToolchainError(("nvrtc", *words, name), fault, f"failed in {function}")
        return results[0] if results else None

    program = call("nvrtcCreateProgram", text.encode(), name.encode(), 0, [], [])
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(words), [w.encode() for w in words])
        if status != 0:
            size = call("nvrtcGetProgramLogSize", program)
            buffer = bytearray(size)
            call("nvrtcGetProgramLog", program, buffer)
            told = bytes(buffer).split(b"\0")[0].decode(errors="replace")
            raise ToolchainError(("nvrtc", *words, name), told, _place(text, told))
        kind = "PTX" if is_ptx else "CUBIN"
        code = bytearray(call(f"nvrtcGet{kind}Size", program))
        call(f"nvrtcGet{kind}", program, code)
        return bytes(code)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _place(text: str, told: str) -> str:
    """Where the first error of a log lies: the line, and the kernel that it belongs to."""
    found = _PLACE.search(told)
    if found is None:
        return "failed"
    line = int(found[1])
    above = "\n".join(text.splitlines()[:line])
    kernels = _KERNEL.findall(above)
    inside = f" of kernel '{kernels[-1]}'" if kernels else ""
    return f"failed at line {line}{inside}"
