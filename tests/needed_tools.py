"""Compilers that a machine may lack: what needs one is skipped, with its name as the reason."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from loopwright.compilers import compiler_path
from loopwright.diagnostics import ToolchainError

NO_COMPILER = "there is no C compiler"
TOOLS = {
    "cc": NO_COMPILER,
    "gcc": "there is no gcc",
    "g++": "there is no C++ compiler",
    "clang": "there is no clang",
    "nvcc": "there is no nvcc",
    "make": "there is no make",
}


def has_compiler() -> bool:
    """Whether there is the C compiler in the variable CC, else any of the usual ones."""
    named = os.environ.get("CC", "").split()
    return compiler_path(*named[:1]) is not None


needs_compiler = pytest.mark.skipif(not has_compiler(), reason=NO_COMPILER)
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason=TOOLS["nvcc"])


@contextmanager
def skipped_without_tools() -> Iterator[None]:
    """Skip the test that asks for a compiler where the whole system has none.

    On a system that has it, and in tests of what is said where there is none, nothing changes: they
    catch the error themselves.
    """
    try:
        yield
    except ToolchainError:
        if has_compiler():
            raise
        pytest.skip(NO_COMPILER)
    except (FileNotFoundError, PermissionError) as error:
        tool = str(error.filename) or "cc"  # `system_compiler() or ""` was to be run
        if tool not in TOOLS or shutil.which(tool) is not None:
            raise
        pytest.skip(TOOLS[tool])
