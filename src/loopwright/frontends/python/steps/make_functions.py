"""Functions of Python from syntax trees: parts of a user's function, in the user's file."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping
from dataclasses import replace
from types import CellType, CodeType, FunctionType

from loopwright.frontends.python.function_source import FunctionSource, with_source

__all__ = ["definition_of", "made_function"]


def definition_of(
    name: str, parameters: tuple[str, ...], body: list[ast.stmt], place: ast.stmt
) -> ast.FunctionDef:
    """The definition of a function with positional parameters, said to stand at `place`."""
    (new,) = ast.parse(f"def {name}({', '.join(parameters)}): pass").body
    assert isinstance(new, ast.FunctionDef)
    for node in ast.walk(new):
        if hasattr(node, "lineno"):
            ast.copy_location(node, place)
    new.body = body or [ast.copy_location(ast.Pass(), place)]
    return ast.fix_missing_locations(new)


def made_function(
    definition: ast.FunctionDef,
    function: FunctionType,
    source: FunctionSource,
    values: Mapping[str, object] | None = None,
) -> FunctionType:
    """A part of a function, as a function with the same outer names and some more with values."""
    values = values or {}
    outer = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells = outer | {name: CellType(value) for name, value in values.items()}
    around = definition_of("around", tuple(cells), [copy.deepcopy(definition)], definition)
    ast.increment_lineno(around, source.first - 1 - source.extra)
    module = compile(ast.Module([around], []), source.file, "exec", dont_inherit=True)
    code = _inner(_inner(module, "around"), definition.name)
    closure = tuple(cells[name] for name in code.co_freevars)
    found = FunctionType(code, function.__globals__, definition.name, None, closure)
    found.__qualname__ = f"{function.__qualname__}.{definition.name}"
    return with_source(found, replace(source, definition=definition))


def _inner(code: CodeType, name: str) -> CodeType:
    return next(x for x in code.co_consts if isinstance(x, CodeType) and x.co_name == name)
