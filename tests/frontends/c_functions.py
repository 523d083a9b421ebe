"""Small C functions, run by the system's compiler and by the interpreter of programs."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from loopwright.frontends.c import CRegion, VariableKind
from loopwright.frontends.extract import extract
from loopwright.frontends.source_tree import ArrayParam, IntParam, ScalarParam
from loopwright.ir.check import check_program
from loopwright.ir.interpret import interpret_program
from needed_tools import needs_compiler as needs_compiler

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")

Values = Mapping[str, Any]  # arguments of a function by name: numbers and arrays


def functions_with_regions(text: str) -> list[str]:
    """The functions of C text that have a region, in order, found without reading the loops.

    To collect tests needs their names only, in every worker. Functions begin a line.
    """
    found: dict[str, None] = {}
    name = ""
    for line in text.splitlines():
        if (begin := re.match(r"[A-Za-z_][\w *]*?\b(\w+)\(", line)) is not None:
            name = begin[1]
        if re.match(r"\s*#pragma scop\b", line) is not None:
            found[name] = None
    return list(found)


def build(folder: Path, text: str) -> ctypes.CDLL:
    """Compile C text as it stands, nothing optimised, nothing contracted."""
    assert COMPILER is not None
    source, library = folder / "functions.c", folder / "functions.so"
    source.write_text(text, encoding="utf-8")
    flags = ["-std=gnu11", "-O0", "-ffp-contract=off", "-w", "-shared", "-fPIC", "-fwrapv"]
    command = [COMPILER, *flags, str(source), "-o", str(library), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(library))


def run_compiled(library: ctypes.CDLL, name: str, values: Values) -> None:
    """Call a function of a library; arrays change in place."""
    args: list[Any] = []
    for value in values.values():
        if isinstance(value, np.ndarray):
            args.append(ctypes.c_void_p(value.ctypes.data))
        elif isinstance(value, float):
            args.append(ctypes.c_double(value))
        elif isinstance(value, np.float32):
            args.append(ctypes.c_float(float(value)))
        else:
            args.append(ctypes.c_long(value))
    getattr(library, name)(*args)


def run_region(region: CRegion, values: Values) -> dict[str, Any]:
    """Interpret a region; arrays change in place, scalars it writes come back by name."""
    program = extract(region.tree)
    check_program(program)
    arrays: dict[str, Any] = {}
    params: dict[str, int] = {}
    written: dict[str, Any] = {}
    for param in region.tree.params:
        variable = region.variable(param.name)
        match param:
            case IntParam(name=name):
                params[name] = int(values[variable.name])
            case ScalarParam(name=name, dtype=dtype):
                arrays[name] = np.array(values[variable.name], dtype.name)
            case ArrayParam(name=name, dtype=dtype, shape=()):
                arrays[name] = np.array(values.get(variable.name, 0), dtype.name)
                written[variable.name] = arrays[name]
            case ArrayParam(name=name):
                assert variable.kind is VariableKind.ARRAY
                arrays[name] = values[variable.name]
    for size in region.tree.sizes:
        params[size] = values[size.removesuffix("_0")].shape[0]
    interpret_program(program, arrays, params)
    return written


def copies(values: Values) -> dict[str, Any]:
    return {name: v.copy() if isinstance(v, np.ndarray) else v for name, v in values.items()}


def assert_same(compiled: Values, interpreted: Values, *, largest_term: float = 0.0) -> None:
    """Compare arrays: exactly, or to the last places where they hold floating numbers.

    Functions of the C library and NumPy's may differ in the last places. Where terms cancel, these
    are places of the terms, larger than those of the result: `largest_term` bounds the terms.
    """
    for name, right in compiled.items():
        if not isinstance(right, np.ndarray):
            continue
        found = interpreted[name]
        assert found.dtype == right.dtype
        if right.dtype.kind == "f":
            eps = 8 * float(np.finfo(right.dtype).eps)
            np.testing.assert_allclose(found, right, eps, eps * largest_term, err_msg=name)
        else:
            np.testing.assert_array_equal(found, right, err_msg=name)
