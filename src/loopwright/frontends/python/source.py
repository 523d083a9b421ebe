"""The text of a Python function, its syntax tree, and the values of the outer names it uses."""

from __future__ import annotations

import ast
import builtins
import inspect
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType

from loopwright.diagnostics import Diagnostic, SourceError, Span, UsageError, column_of_byte

__all__ = ["MISSING", "Captures", "Source", "is_unchanged", "read_source"]


class _Missing:
    """The type of MISSING."""


MISSING = _Missing()  # what a name stands for that is not defined


@dataclass(frozen=True, slots=True)
class Source:
    """A function definition and where it stands."""

    file: str
    lines: tuple[str, ...]  # the function's lines, decorators first
    first: int  # number of lines[0] in the file
    extra: int  # lines put before the text for parsing
    definition: ast.FunctionDef

    def span(self, node: ast.stmt | ast.expr | ast.arg | ast.keyword) -> Span:
        """The place of a node of `definition` in the file."""
        at, last = node.lineno - self.extra, node.end_lineno or node.lineno
        text, end_text = self.lines[at - 1], self.lines[last - self.extra - 1]
        return Span(
            self.file,
            self.first + at - 1,
            column_of_byte(text, node.col_offset),
            self.first + last - self.extra - 1,
            column_of_byte(end_text, node.end_col_offset or 0),
            text,
        )


def read_source(function: object) -> Source:
    """Return the source of a plain Python function."""
    if not isinstance(function, FunctionType):
        raise UsageError(
            "only a Python function can be compiled",
            found=f"an object of type '{type(function).__module__}.{type(function).__qualname__}'",
            hint="decorate a function defined with def",
        )
    code = function.__code__
    here = Span(code.co_filename, code.co_firstlineno, 1, code.co_firstlineno, 2)
    try:
        lines, first = inspect.getsourcelines(code)
    except OSError:
        raise SourceError(
            Diagnostic(
                here,
                f"the source of '{code.co_name}' is not available",
                "LW120",
                hint="define the function in a file; text given to exec or typed at the"
                " interpreter's prompt is not kept",
            )
        ) from None
    text = "".join(lines)
    # A function inside a class or function is indented: parsed under an `if`, its columns stay
    # those of the file. Dedenting would shift them, and break on strings of several lines.
    extra = 1 if lines[0][:1].isspace() else 0
    plain = tuple(line.rstrip("\r\n") for line in lines)
    here = Span(code.co_filename, first, 1, first, len(plain[0]) + 1, plain[0])
    node = _definition("if True:\n" * extra + text, code)
    if not isinstance(node, ast.FunctionDef):
        raise SourceError(_no_function(here, code.co_name, node))
    return Source(code.co_filename, plain, first, extra, node)


def _definition(text: str, code: CodeType) -> ast.AST | None:
    """Return the definition in `text` that `code` was compiled from, as far as can be seen."""
    try:
        tree = ast.parse(text)
    except SyntaxError:  # a lambda in the middle of an expression gives half a statement
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == code.co_name:
            counts = len(node.args.posonlyargs) + len(node.args.args), len(node.args.kwonlyargs)
            return node if counts == (code.co_argcount, code.co_kwonlyargcount) else None
    return None


def _no_function(span: Span, name: str, node: ast.AST | None) -> Diagnostic:
    """Return the refusal of what stands where a function definition should."""
    hint = "define the function with def"
    if name == "<lambda>":
        return Diagnostic(span, "a lambda cannot be compiled", "LW127", hint=hint)
    if node is not None:
        return Diagnostic(span, "an asynchronous function cannot be compiled", "LW127", hint=hint)
    return Diagnostic(
        span,
        f"the source of '{name}' is not where Python says it is",
        "LW120",
        hint="reload the module if its file has changed since it was imported",
    )


class Captures:
    """The names a function takes from outside, with the values they had when first asked for."""

    def __init__(self, function: FunctionType) -> None:
        self._function = function
        self._found: dict[str, object] = {}

    def resolve(self, dotted: str) -> object:
        """Return the value of an outer name such as `n` or `np.pi`, or MISSING, and note it."""
        value = _lookup(self._function, dotted)
        if not isinstance(value, ModuleType | _Missing):
            self._found[dotted] = value
        return value

    def items(self) -> tuple[tuple[str, object], ...]:
        """Every name asked for that stands for a value."""
        return tuple(self._found.items())


def is_unchanged(function: FunctionType, captured: tuple[tuple[str, object], ...]) -> bool:
    """Whether the outer names of a parsed function still have the values it was parsed with."""
    return all(_same(_lookup(function, name), value) for name, value in captured)


def _same(new: object, old: object) -> bool:
    if new is old:
        return True
    # 1, 1.0 and True are equal but make different programs; repr tells 0.0 from -0.0, and nans.
    return type(new) is type(old) and repr(new) == repr(old)


def _lookup(function: FunctionType, dotted: str) -> object:
    """Return what a dotted name stands for; attributes are followed in modules and classes."""
    name, *attributes = dotted.split(".")
    value = _variable(function, name)
    for attribute in attributes:
        if not isinstance(value, ModuleType | type):
            return MISSING
        value = getattr(value, attribute, MISSING)
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
