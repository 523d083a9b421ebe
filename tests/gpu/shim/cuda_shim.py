"""Runs CUDA C++ on the host, for tests: see cuda_shim.h for how strict it is.

    module = ShimModule(text)
    module.launch("add", (4, 1, 1), (256, 1, 1), [a, b, c, n])
    run_program(program, text, {"A": a, "B": b, "C": c}, {"n": n}, seed=3)

Arrays are NumPy's; a kernel gets the address of the element whose subscripts are all zero.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from loopwright.backends.c_text.c_dialect import CUDA
from loopwright.ir.device import DeviceProgram, is_by_value, value_bits
from loopwright.ir.loops import Buffer
from loopwright.runtime.host_steps import compile_host, needs_of

__all__ = ["ShimError", "ShimModule", "has_compiler", "program_source", "run_program"]

FOLDER = Path(__file__).parent
CAPACITY = 228 * 1024  # the most dynamic shared memory that a block of any device has
MOST_GRID = (2**31 - 1, 65535, 65535)
SECONDS = 600.0
_KERNEL = re.compile(r"__global__\s+void\s+(?:__\w+__\s*\([^)]*\)\s*)?(\w+)\s*\(")
_DYNAMIC = re.compile(
    r"extern\s+__shared__\s+(?P<align>__align__\s*\([^)]*\)\s*)?(?P<type>[\w\s:]+?)\s*(?P<name>\w+)\s*\[\s*\]"
)
_FLAGS = ("-std=c++17", "-O1", "-w", "-ffp-contract=off", "-U_FORTIFY_SOURCE")
_PATHS = (f"-I{FOLDER}", f"-I{FOLDER / 'include'}")
_SHARED = ("-shared", "-fPIC")
_SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g1")


class ShimError(AssertionError):
    """A text that does not compile, or a launch that does what no kernel may."""


def has_compiler() -> bool:
    """Whether a C++ compiler is here that the shim can use."""
    try:
        return subprocess.run([_compiler(), "--version"], capture_output=True).returncode == 0
    except OSError:
        return False


def _compiler() -> str:
    return os.environ.get("CXX", "g++")


class ShimModule:
    """The kernels of one text of CUDA C++.

    With `sanitize` a launch runs in a process of its own, under the address sanitiser and that of
    undefined behaviour: each array then lies alone in memory, without a byte more.
    """

    def __init__(
        self, text: str, *, index: str = "int", sanitize: bool = False, flags: Sequence[str] = ()
    ) -> None:
        for known in (CUDA.prelude_half, CUDA.prelude_async):  # the shim has what they declare
            text = text.replace(known, "")
        self.text = text
        self.kernels = tuple(_KERNEL.findall(text))
        self.has_dynamic_memory = _DYNAMIC.search(text) is not None
        self._target = _built(text, self.kernels, index, sanitize, tuple(flags))
        self._sanitize = sanitize
        self._library = None if sanitize else ctypes.CDLL(self._target)

    def launch(
        self,
        name: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[Any],
        shared_bytes: int = 0,
        seed: int = 0,
    ) -> None:
        """Run a kernel on arrays and integers. Raises ShimError for what no kernel may do."""
        if name not in self.kernels:
            raise ShimError(f"no kernel '{name}' in this text; it has {', '.join(self.kernels)}")
        dynamic = shared_bytes if self.has_dynamic_memory else 0
        run = self._launch_apart if self._sanitize else self._launch_here
        fault = run(name, grid, block, arguments, dynamic, seed)
        if fault:
            raise ShimError(f"kernel '{name}', {fault}")

    def _launch_here(
        self,
        name: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[Any],
        dynamic: int,
        seed: int,
    ) -> str:
        # Every argument has 16 bytes, the most that one passes by value.
        data = np.zeros((max(1, len(arguments)), 2), np.uint64)
        for at, a in enumerate(arguments):
            if isinstance(a, bytes):
                data[at] = np.frombuffer(a, np.uint64)
            else:
                whole = a.ctypes.data if isinstance(a, np.ndarray) else int(a)
                data[at, 0] = whole % (1 << 64)
        first = data.ctypes.data
        places = (ctypes.c_void_p * len(data))(*(first + 16 * i for i in range(len(data))))
        function = self._library[f"lw_run_{name}"]
        function.restype = ctypes.c_char_p
        axes = ctypes.c_uint * 3
        fault = function(
            places, axes(*grid), axes(*block), ctypes.c_size_t(dynamic), ctypes.c_uint64(seed)
        )
        return "" if fault is None else fault.decode()

    def _launch_apart(
        self,
        name: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[Any],
        dynamic: int,
        seed: int,
    ) -> str:
        parts = [_numbers(*grid, *block, dynamic, seed, len(arguments))]
        memory = [_memory(a) if isinstance(a, np.ndarray) else None for a in arguments]
        for argument, found in zip(arguments, memory, strict=True):
            if found is None:
                parts.append(_numbers(-1, int(argument)))
            else:
                data, offset = found
                parts.append(_numbers(len(data), offset) + data.tobytes())
        with tempfile.TemporaryDirectory(prefix="loopwright-shim-") as folder:
            source, result = Path(folder) / "in", Path(folder) / "out"
            source.write_bytes(b"".join(parts))
            options = {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=0"}
            done = subprocess.run(
                [self._target, name, str(source), str(result)],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=SECONDS,
                env={**os.environ, **options},
                check=False,
            )
            if done.returncode != 0:
                return _fault(done.stderr) or f"ended with status {done.returncode}"
            rest = np.frombuffer(result.read_bytes(), dtype=np.uint8)
        for found in memory:
            if found is not None:
                data, _ = found
                if data.flags.writeable:
                    data[:] = rest[: len(data)]
                rest = rest[len(data) :]
        return ""


def run_program(
    program: DeviceProgram,
    text: str,
    arrays: Mapping[str, np.ndarray],
    scalars: Mapping[str, int],
    *,
    seed: int = 0,
    index: str = "int",
    sanitize: bool = False,
) -> int:
    """Run a whole device program on arrays; the number of launches that did something.

    Memory that lives between launches starts as NaNs.
    """
    module = ShimModule(text, index=index, sanitize=sanitize)
    count = 0

    def launcher(kernel: Any) -> Any:
        def launch(_: object, x: int, y: int, z: int, *values: Any) -> None:
            nonlocal count
            module.launch(
                kernel.name, (x, y, z), kernel.block, values, kernel.shared_bytes, seed + count
            )
            count += 1

        return launch

    host = compile_host(program)
    given = [scalars[name] for name in program.scalars]
    needs = needs_of(program, host, given, MOST_GRID)
    if needs.fault is not None:
        raise ShimError("kernel '{}' has a grid of {}".format(*needs.fault))
    bound = host(
        [launcher(kernel) for kernel in program.kernels],
        lambda _, size: np.full(size, 0xFF, dtype=np.uint8),
        lambda *_: None,
    )
    bound(None, *(_argument(buffer, arrays[buffer.name]) for buffer in program.buffers), *given)
    return count


def _argument(buffer: Buffer, array: np.ndarray) -> Any:
    return value_bits(array[()], buffer.dtype) if is_by_value(buffer) else array


def _numbers(*values: int) -> bytes:
    return np.array(values, dtype=np.int64).tobytes()


def _memory(array: np.ndarray) -> tuple[np.ndarray, int]:
    """The bytes from the lowest element of an array to its highest, and where [0, 0, ...] lies."""
    if array.size == 0:
        return np.empty(0, dtype=np.uint8), 0
    low, high = np.lib.array_utils.byte_bounds(array)
    view = (ctypes.c_uint8 * (high - low)).from_address(low)
    data = np.frombuffer(view, dtype=np.uint8)
    data.flags.writeable = array.flags.writeable
    return data, array.ctypes.data - low


def _fault(stderr: str) -> str:
    """What a sanitiser or the shim says, without stacks and shadow bytes."""
    lines = [line for line in stderr.splitlines() if line.strip() and not line.startswith("====")]
    told = [line for line in lines if "runtime error" in line or "ERROR:" in line]
    places = [line.strip() for line in lines if "kernel.cu:" in line]
    return "; ".join(dict.fromkeys((told or lines)[:1] + places[:1]))


@functools.cache
def _everything() -> str:
    """A folder for what is built; it goes with the process."""
    folder = tempfile.mkdtemp(prefix="loopwright-shim-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@functools.lru_cache(maxsize=256)
def _built(
    text: str, kernels: tuple[str, ...], index: str, sanitize: bool, flags: tuple[str, ...]
) -> str:
    """A library of the text, or a program where sanitisers are asked for: its path."""
    folder = Path(tempfile.mkdtemp(dir=_everything()))
    source = folder / "kernel.cpp"
    target = str(folder / ("kernel" if sanitize else "kernel.so"))
    source.write_text(_source(text, kernels), encoding="utf-8")
    kind = (*_SANITIZERS, "-DLW_PROGRAM") if sanitize else _SHARED
    words = [f"-DLW_INDEX={index}", *_FLAGS, *kind, *flags, *_PATHS]
    if not flags:
        words.insert(0, f"-I{_precompiled(index, kind)}")
    words = [_compiler(), *words, "-o", target, str(source)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode != 0:
        raise ShimError(f"the text does not compile:\n{done.stderr[:4000]}")
    return target


@functools.cache
def _precompiled(index: str, kind: tuple[str, ...]) -> Path:
    """A folder with the shim's header, precompiled: half of the time that a small text takes.

    Compilers that cannot take it, and all that fails here, leave the header as it is.
    """
    folder = Path(tempfile.mkdtemp(dir=_everything()))
    words = [_compiler(), f"-DLW_INDEX={index}", *_FLAGS, *kind, *_PATHS, "-x", "c++-header"]
    words += ["-o", str(folder / "cuda_shim.h.gch"), str(FOLDER / "cuda_shim.h")]
    subprocess.run(words, capture_output=True, timeout=SECONDS, check=False)
    return folder


def program_source(text: str) -> str:
    """A whole file of CUDA C++, kernels and host code, as C++ for a program with the shim."""
    return _source(text, ())


def _source(text: str, kernels: tuple[str, ...]) -> str:
    dynamic = {m["name"]: " ".join(m["type"].split()) for m in _DYNAMIC.finditer(text)}
    if len(dynamic) > 1:
        raise ShimError(f"dynamic shared memory has several names: {', '.join(dynamic)}")
    # Static arrays have their section; one that is extern is defined below, beyond every kernel.
    plain = _DYNAMIC.sub("", text)  # declared once, before all namespaces
    lines = ['#include "cuda_shim.h"']
    for name, kind in dynamic.items():
        lines.append(f"extern {kind} {name}[];")
    lines += ['#line 1 "kernel.cu"', plain, '#line 1 "entries"', '#include "shim_entries.h"']
    for name, kind in dynamic.items():
        size = f"{CAPACITY} / sizeof({kind})"
        lines.append(f"alignas(1024) {kind} {name}[{size}];")
        start = f"reinterpret_cast<char *>({name})"
        lines.append(
            "static const bool lw_has_dynamic = "
            f"(lw_shim::dynamic_memory = {start}, lw_shim::dynamic_capacity = {CAPACITY}, true);"
        )
    lines += [f"LW_ENTRY({name})" for name in kernels]
    mains = " ".join(f"LW_MAIN({name})" for name in kernels)
    if kernels:
        lines += [
            "#ifdef LW_PROGRAM",
            f"int main(int, char **argv) {{ {mains} return 5; }}",
            "#endif",
        ]
    return "\n".join(lines) + "\n"
