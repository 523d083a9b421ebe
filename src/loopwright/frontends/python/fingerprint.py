"""What a compiled Python function depends on: its text and the values of its outer names.

Reading a function (finding its lines, parsing them, typing its body) takes longer than everything
else that a call of a cached one needs in a new process. What reading depends on is cheap to
collect: the lines of the definition, the name and number of arguments, the values of outer names.
"""

from __future__ import annotations

import builtins
import copy
import sys
from collections.abc import Iterable
from types import FunctionType, ModuleType
from typing import Literal, NamedTuple

import numpy as np

from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import DTYPES, DType, dtype_of

__all__ = [
    "MISSING",
    "SOURCE_KEPT",
    "ArgType",
    "Captures",
    "ForeignArgument",
    "NewCapture",
    "argument_types",
    "definition_text",
    "is_unchanged",
    "lookup",
    "value_texts",
]

_NUMBERS = (bool, int, float, complex)
SOURCE_KEPT = "__loopwright_source__"  # attribute of functions that are made, with their source
# Modules whose functions and classes are the same objects in every process, by name.
_KNOWN_MODULES = frozenset({"builtins", "math", "numpy"})


class NewCapture(Exception):  # noqa: N818, the function has to be read again
    """A function reads an array from outside, which calls pass as one more argument."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class _Missing:
    """The type of MISSING."""


MISSING = _Missing()  # the value of an undefined name


class Captures:
    """The outer names that a function reads, with the values they had when first looked up."""

    def __init__(self, function: FunctionType) -> None:
        self._function = function
        self._found: dict[str, object] = {}

    def resolve(self, dotted: str) -> object:
        """The value of an outer name such as `n` or `np.pi`, or MISSING; values are recorded."""
        value = lookup(self._function, dotted)
        if isinstance(value, list):
            value = copy.deepcopy(value)  # which the caller may change
        if not isinstance(value, ModuleType | _Missing):
            self._found[dotted] = value
        return value

    def items(self) -> tuple[tuple[str, object], ...]:
        """The outer names looked up so far that have a value, with it."""
        return tuple(self._found.items())


def is_unchanged(function: FunctionType, captured: tuple[tuple[str, object], ...]) -> bool:
    """Whether the outer names of a parsed function still have the values it was parsed with."""
    return all(_same(lookup(function, name), value) for name, value in captured)


def _same(new: object, old: object) -> bool:
    if isinstance(old, ArgType):  # an array: its contents are looked at in every call
        return type(new) is np.ndarray and argument_types((new,)) == (old,)
    if new is old:
        return True
    # 1, 1.0 and True are equal but make different programs; repr tells 0.0 from -0.0, and nans.
    return type(new) is type(old) and repr(new) == repr(old)


def lookup(function: FunctionType, dotted: str) -> object:
    """The value of a dotted name; attributes are followed in modules and classes only.

    Behind a function stands an outer name of that function: `helper.n` is the `n` of `helper`.
    """
    name, *attributes = dotted.split(".")
    value = _variable(function, name)
    for attribute in attributes:
        helper = getattr(value, "py_func", value)
        if isinstance(helper, FunctionType):
            value = _variable(helper, attribute)
        elif isinstance(value, ModuleType | type):
            value = getattr(value, attribute, MISSING)
        else:
            return MISSING
    return value


def _variable(function: FunctionType, name: str) -> object:
    code = function.__code__
    if name in code.co_freevars and function.__closure__ is not None:
        cell = function.__closure__[code.co_freevars.index(name)]
        try:
            return cell.cell_contents
        except ValueError:  # the enclosing function has not assigned it yet
            return MISSING
    if name in function.__globals__:
        return function.__globals__[name]
    return getattr(builtins, name, MISSING)


# -- as text --------------------------------------------------------------------------------


def definition_text(function: FunctionType) -> str | None:
    """All of a function's source that reading it depends on; None when that cannot be told.

    The text comes from the file as it is now, as `read_source` would find it. It runs from the
    first decorator to the last line that is indented deeper.
    """
    if hasattr(function, SOURCE_KEPT):  # made of parts of what stands in the file
        return None
    code = function.__code__
    lines = _file_lines(code.co_filename)
    first = code.co_firstlineno - 1
    last = max((end for _, end, _, _ in code.co_positions() if end), default=0)
    if lines is None or not 0 <= first < last <= len(lines):
        return None
    margin = _indent(lines[first])
    while last < len(lines) and (not lines[last].strip() or _indent(lines[last]) > margin):
        last += 1
    # A bracket that closes here was opened in the definition: the text is not that of the code.
    if last < len(lines) and lines[last].lstrip()[:1] in (b")", b"]", b"}"):
        return None
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    encoding = [line for line in lines[:2] if b"coding" in line]
    text = b"".join(lines[first:last]).rstrip()
    return repr((code.co_name, counts, encoding, text))


def _file_lines(file: str) -> list[bytes] | None:
    """The lines of a source file; None when the source is not a file."""
    # Code compiled from text may keep it in linecache, under any file name, without a date.
    cached = getattr(sys.modules.get("linecache"), "cache", {}).get(file, ())
    if len(cached) > 1 and cached[1] is None:
        return None
    try:
        with open(file, "rb") as source:
            return source.read().splitlines(keepends=True)
    except (OSError, ValueError):
        return None


def _indent(line: bytes) -> int:
    return len(line) - len(line.lstrip())


def value_texts(function: FunctionType, names: Iterable[str]) -> str | None:
    """The current values of outer names as text; None when text would not tell values apart."""
    texts = [_value_text(lookup(function, name)) for name in names]
    return None if None in texts else repr(texts)


def _value_text(value: object) -> str | None:
    if type(value) in _NUMBERS:
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, np.generic) and type(value).__module__ == "numpy":
        return f"{value.dtype.name} {value.tobytes().hex()}"
    # NumPy's ufuncs have a name and no module.
    module = "numpy" if isinstance(value, np.ufunc) else getattr(value, "__module__", None)
    name = getattr(value, "__name__", None)
    if isinstance(module, str) and isinstance(name, str) and module in _KNOWN_MODULES:
        return f"{module}.{name}" if getattr(sys.modules[module], name, None) is value else None
    helper = getattr(value, "py_func", value)
    return _helper_text(helper) if isinstance(helper, FunctionType) else None


def _helper_text(helper: FunctionType) -> str | None:
    """The definition of a helper and its defaults; the names it reads count by themselves."""
    named = helper.__kwdefaults__ or {}
    defaults = [*(helper.__defaults__ or ()), *named.values()]
    texts = [definition_text(helper), *map(_value_text, defaults)]
    return None if None in texts else repr((texts, list(named)))


# -- argument types of a call, as far as compilation depends on them ------------------------------


# A tuple and not a dataclass: hashed on every call, in C.
class ForeignArgument(UsageError):  # noqa: N818, names what was found
    """An argument is neither an array of NumPy nor a number."""


class ArgType(NamedTuple):
    """The type of one argument."""

    kind: Literal["array", "scalar", "python"]  # NumPy array, NumPy scalar, Python number
    dtype: str  # a name of ir/dtypes; Python numbers are bool, int64, float64, complex128
    rank: int = 0

    @property
    def element(self) -> DType:
        return DTYPES[self.dtype]

    @classmethod
    def array(cls, dtype: object, rank: int) -> ArgType:
        """The type of an array of the given element type (any spelling NumPy takes) and rank."""
        return cls("array", dtype_of(dtype).name, rank)


_PYTHON: dict[type, ArgType] = {
    bool: ArgType("python", "bool"),
    int: ArgType("python", "int64"),
    float: ArgType("python", "float64"),
    complex: ArgType("python", "complex128"),
}
# (dtype, rank) -> type; dtypes of arrays are few, so this stays small.
_ARRAYS: dict[tuple[np.dtype[np.generic], int], ArgType] = {}


def argument_types(args: Iterable[object]) -> tuple[ArgType, ...]:
    """The types of the arguments of one call, in order; about half a microsecond each."""
    types: list[ArgType] = []
    for arg in args:
        if type(arg) is np.ndarray:
            found = _ARRAYS.get((arg.dtype, arg.ndim))
        else:
            found = _PYTHON.get(type(arg))
        types.append(_type_of(arg, len(types)) if found is None else found)
    return tuple(types)


def _type_of(arg: object, position: int) -> ArgType:
    """The type of an argument that is not in the tables above."""
    if type(arg) is np.ndarray or isinstance(arg, np.memmap):
        found = ArgType.array(arg.dtype, arg.ndim)
        _ARRAYS[arg.dtype, arg.ndim] = found
        return found
    if isinstance(arg, np.generic):
        return ArgType("scalar", dtype_of(arg.dtype).name)
    raise ForeignArgument(
        f"argument {position + 1} has a type that cannot be compiled",
        found=f"an object of type '{type(arg).__module__}.{type(arg).__qualname__}'",
        hint="pass NumPy arrays (np.asarray makes one) and numbers",
    )
