"""Python kernels for tests: functions from text, run by Python and by the interpreter."""

from __future__ import annotations

import copy
import itertools
import linecache
import math
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from loopwright.frontends.extract import extract
from loopwright.frontends.python import argument_types, parse_function
from loopwright.frontends.source_tree import ArrayParam, IntParam, SourceTree
from loopwright.ir.check import check_program
from loopwright.ir.interpret import evaluate, interpret_program
from loopwright.ir.program import Program, Role

Function = Callable[..., Any]
_count = itertools.count()


def define(text: str, file: str | None = None, **outer: object) -> Function:
    """The last function that `text` defines, with source that `inspect` finds.

    `np`, `math` and the names in `outer` are its globals.
    """
    text = textwrap.dedent(text).lstrip("\n")
    file = f"kernel{next(_count)}.py" if file is None else file
    # An entry without a time stamp is never checked against the disk.
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"np": np, "math": math, **outer}
    before = set(names)
    exec(compile(text, file, "exec"), names)
    return next(names[name] for name in reversed(names) if name not in before)


def compiled(function: Function, *args: object) -> tuple[SourceTree, Program]:
    """The tree and the (checked) program of a function for arguments of these types."""
    tree = parse_function(function, argument_types(args))
    program = extract(tree)
    check_program(program)
    return tree, program


def bind(tree: SourceTree, args: tuple[object, ...]) -> tuple[dict[str, Any], dict[str, int]]:
    """Arrays and parameters of a program by name, from the arguments of a call."""
    arrays: dict[str, Any] = {}
    params: dict[str, int] = {}
    for param, arg in zip(tree.params, args, strict=True):
        if isinstance(param, ArrayParam):
            assert isinstance(arg, np.ndarray)
            arrays[param.name] = arg
            extents = [extent.name for extent in param.shape]  # type: ignore[union-attr]
            params.update(zip(extents, arg.shape, strict=True))
        elif isinstance(param, IntParam):
            params[param.name] = int(arg)  # type: ignore[call-overload]
        else:
            arrays[param.name] = np.array(arg, param.dtype.name)
    return arrays, params


def interpreted(function: Function, *args: object) -> object:
    """Call a function by way of its Program, in place on `args`; gives what it returns."""
    tree, program = compiled(function, *args)
    arrays, params = bind(tree, args)
    for array in program.arrays:
        if array.role is Role.OUT:
            shape = [int(evaluate(extent, params)) for extent in array.shape]
            arrays[array.name] = np.zeros(shape, array.dtype.name)
    interpret_program(program, arrays, params)
    if tree.result is None:
        return None
    found = tuple(arrays[name] for name in tree.result.names)
    return found if tree.result.is_tuple else found[0]


def assert_same(function: Function, *args: object) -> None:
    """Compare a function run by Python with its Program run by the interpreter, bit by bit."""
    plain, ours = copy.deepcopy(args), copy.deepcopy(args)
    with np.errstate(all="ignore"):
        expected = function(*plain)
    result = interpreted(function, *ours)
    for position, (one, other) in enumerate(zip(plain, ours, strict=True)):
        np.testing.assert_array_equal(other, one, err_msg=f"argument {position}", strict=True)
    _assert_results(result, expected)


def _assert_results(result: object, expected: object) -> None:
    assert (result is None) == (expected is None)
    if isinstance(expected, tuple):
        assert isinstance(result, tuple)
        for one, other in zip(result, expected, strict=True):
            _assert_results(one, other)
    elif expected is not None:
        np.testing.assert_array_equal(result, expected)


def statement_text(program: Program) -> Mapping[str, str]:
    """Statement name -> its domain as isl prints it."""
    return {s.name: str(s.domain) for s in program.statements}
