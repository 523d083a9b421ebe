"""Who compiles a kernel of the corpus: C compilers that are installed, Polly, and ourselves."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import loopwright as lw
from benchmarks.corpus_kernels import Kernel, bind, link

__all__ = ["Contestant", "Peer", "compile_ours", "installed_peers", "newest_clang"]

NATIVE = ("-march=native", "-mcpu=native")  # clang on ARM knew only the second for long
POLLY = ("-mllvm", "-polly")


@dataclass(frozen=True, slots=True)
class Contestant:
    """A compiled kernel, called with the values of its inputs; arrays change in place."""

    name: str
    call: Callable[..., Any]
    threads: int = 1  # peers have one whatever is set
    is_checked: bool = True  # else it computes something else, for comparison


@dataclass(frozen=True, slots=True)
class Peer:
    """A C compiler with its options."""

    name: str
    command: tuple[str, ...]

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
    probe = [*command, "-x", "c", "-c", "-", "-o", os.devnull]
    done = subprocess.run(probe, input="int x;\n", capture_output=True, text=True, check=False)
    return done.returncode == 0


def compile_ours(source: Path) -> Callable[..., Any]:
    """What we make of a file: called like the C function, arrays change in place.

    Sums may be regrouped, as declared; results are compared with those of the peers all the same.
    The one place that knows our interface; raises LoopwrightError when we refuse the file.
    """
    compiler = getattr(lw, "compile", None)
    if compiler is None:
        raise lw.UsageError("this version of loopwright has no lw.compile")
    compiled: Callable[..., Any] = compiler(str(source), reassoc=True)
    return compiled
