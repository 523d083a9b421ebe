"""Who compiles a kernel of the corpus: C compilers that are installed, Polly, and ourselves."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import loopwright as lw
from benchmarks.corpus_kernels import Inputs, Kernel, bind, link, rewrite
from loopwright.runtime.toolchain import find_compiler, tuning_flags

__all__ = [
    "Contestant",
    "Peer",
    "blas_product",
    "blas_rate",
    "compile_ours",
    "compile_text",
    "compile_written",
    "installed_peers",
    "newest_clang",
]

NATIVE = ("-march=native", "-mcpu=native")  # clang on ARM knew only the second for long
POLLY = ("-mllvm", "-polly")
BLAS = "numpy"
GEMM = 1000  # extent of the product that tells NumPy's rate


@dataclass(frozen=True, slots=True)
class Contestant:
    """A compiled kernel, called with the values of its inputs; arrays change in place."""

    name: str
    call: Callable[..., Any]
    threads: int = 1  # peers have one whatever is set
    set_threads: Callable[[int], Any] = lw.set_num_threads
    is_checked: bool = True  # else it computes something else, for comparison


@dataclass(frozen=True, slots=True)
class Peer:
    """A C compiler with its options."""

    name: str
    command: tuple[str, ...]

    def with_flags(self, *flags: str) -> Peer:
        """The same compiler with more options."""
        return Peer(self.name, (*self.command, *flags))

    def compile(self, source: Path, kernel: Kernel) -> Contestant:
        """The kernel as this compiler makes it."""
        return Contestant(self.name, bind(link(self.command, [source]), kernel))


@cache
def installed_peers() -> tuple[Peer, ...]:
    """gcc and the newest clang at -O3 for this processor, and that clang with Polly."""
    found = []
    gcc = shutil.which("gcc")
    if gcc is not None and (plain := _optimising(gcc)):
        found.append(Peer("gcc", plain))
    clang = newest_clang(_commands())
    if clang is not None and (plain := _optimising(clang)):
        found.append(Peer("clang", plain))
        if _takes((*plain, *POLLY)):
            found.append(Peer("polly", (*plain, *POLLY)))
    return tuple(found)


def newest_clang(commands: Sequence[str]) -> str | None:
    """The clang-N of greatest N among paths of commands, else clang itself; None without any."""
    versions = {
        int(match[1]): path
        for path in commands
        if (match := re.fullmatch(r"clang-(\d+)", os.path.basename(path)))
    }
    if versions:
        return versions[max(versions)]
    return next((path for path in commands if os.path.basename(path) == "clang"), None)


def _commands() -> list[str]:
    """Every clang on the path."""
    folders = os.environ.get("PATH", "").split(os.pathsep)
    return [str(file) for folder in folders if folder for file in Path(folder).glob("clang*")]


def _optimising(compiler: str) -> tuple[str, ...] | None:
    """The compiler with -O3 for this processor; None when it does not work."""
    commands = ((compiler, "-O3", native) for native in NATIVE)
    return next((command for command in commands if _takes(command)), None)


def _takes(command: Sequence[str]) -> bool:
    """Whether a compiler works with these options."""
    # Not -o /dev/null: compilers remove what they fail to write, and root may remove that.
    probe = [*command, "-x", "c", "-fsyntax-only", "-"]
    done = subprocess.run(probe, input="int x;\n", capture_output=True, text=True, check=False)
    return done.returncode == 0


def compile_ours(source: Path, *, reassoc: bool) -> Callable[..., Any]:
    """What we make of a file: called like the C function, arrays change in place.

    With `reassoc` sums may be regrouped; results are compared with those of the peers all the same.
    The one place that knows our interface; raises LoopwrightError when we refuse the file.
    """
    compiler = getattr(lw, "compile", None)
    if compiler is None:
        raise lw.UsageError("this version of loopwright has no lw.compile")
    compiled: Callable[..., Any] = compiler(str(source), reassoc=reassoc)
    return compiled


def compile_text(
    source: Path, kernel: Kernel, *, target: str = "openmp", reassoc: bool
) -> tuple[Callable[..., Any], Callable[[int], Any]]:
    """The text of `loopwright cc` for a target as the system's compiler makes it.

    And what sets its threads. The flags are those that tuning measures such texts with.
    """
    text = rewrite(source, target=target, reassoc=reassoc)
    # Who lets us regroup sums lets the compiler of the text do it too, as the peers may.
    return compile_written(text, kernel, ("-ffast-math",) if reassoc else ())


def compile_written(
    text: Path, kernel: Kernel, extra: tuple[str, ...] = ()
) -> tuple[Callable[..., Any], Callable[[int], Any]]:
    """A file that `loopwright cc` has written, and what sets its threads."""
    compiler = find_compiler()
    flags = tuning_flags(compiler, openmp=True)
    library = link((*compiler.command, *flags, *extra), [text])
    # A text without parallel loops has no need of OpenMP's library, and may come without it.
    told = getattr(library, "omp_set_num_threads", None)

    def set_threads(count: int) -> None:
        if told is not None:
            told(count)

    return bind(library, kernel), set_threads


def blas_product(inputs: Inputs) -> Contestant:
    """NumPy's product of square matrices of the kernel's element type, whatever the inputs are."""
    dtype = next(x.dtype for x in inputs.values() if isinstance(x, np.ndarray))
    a, b = (np.ones((GEMM, GEMM), dtype) for _ in range(2))
    return Contestant(BLAS, lambda *_: np.dot(a, b), is_checked=False)


def blas_rate(best: Mapping[str, float]) -> float | None:
    """GFlop/s of `blas_product`, from the seconds of all contestants; None where it was none."""
    return 2e-9 * GEMM**3 / best[BLAS] if BLAS in best else None
