"""The text of a Python function and its syntax tree."""

from __future__ import annotations

import ast
import inspect
from types import CodeType, FunctionType

from loopwright.diagnostics import Diagnostic, SourceError, Span, UsageError, column_of_byte
from loopwright.frontends.python.fingerprint import SOURCE_KEPT
from loopwright.lazy_dataclass import dataclass
from loopwright.python_text import parse_module

__all__ = ["FunctionSource", "read_source", "with_source"]


@dataclass(frozen=True, slots=True)
class FunctionSource:
    """A function definition and its location in a file."""

    file: str
    lines: tuple[str, ...]  # the function's lines, decorators first
    first: int  # number of lines[0] in the file
    extra: int  # lines put before the text for parsing
    definition: ast.FunctionDef

    def span(self, node: ast.stmt | ast.expr | ast.arg | ast.keyword) -> Span:
        """The span of a node of `definition` in the file."""
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


def read_source(function: object) -> FunctionSource:
    """The source of a plain Python function."""
    if not isinstance(function, FunctionType):
        raise UsageError(
            "only a Python function can be compiled",
            found=f"an object of type '{type(function).__module__}.{type(function).__qualname__}'",
            hint="decorate a function defined with def",
        )
    kept = vars(function).get(SOURCE_KEPT)
    if isinstance(kept, FunctionSource):
        return kept
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
                hint="define the function in a file, or type it in IPython or a notebook, which"
                " keep what is typed; exec and, before 3.13, Python's own prompt do not",
            )
        ) from None
    text = "".join(lines)
    # A function inside a class or function is indented: parsed under an `if`, its columns stay
    # those of the file. Dedenting would shift them, and break on strings of several lines.
    extra = 1 if lines[0][:1].isspace() else 0
    plain = tuple(line.rstrip("\r\n") for line in lines)
    here = Span(code.co_filename, first, 1, first, len(plain[0]) + 1, plain[0])
    node = _find_definition("if True:\n" * extra + text, code)
    if not isinstance(node, ast.FunctionDef):
        raise SourceError(_no_function(here, code.co_name, node))
    return FunctionSource(code.co_filename, plain, first, extra, node)


def with_source(function: FunctionType, source: FunctionSource) -> FunctionType:
    """The function, which has been made from `source`."""
    setattr(function, SOURCE_KEPT, source)
    return function


def _find_definition(text: str, code: CodeType) -> ast.AST | None:
    """The definition in `text` with the name and parameter count of `code`, or None."""
    try:
        tree = parse_module(text)
    except SyntaxError:  # the lines of a lambda may be part of a statement
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == code.co_name:
            counts = len(node.args.posonlyargs) + len(node.args.args), len(node.args.kwonlyargs)
            return node if counts == (code.co_argcount, code.co_kwonlyargcount) else None
    return None


def _no_function(span: Span, name: str, node: ast.AST | None) -> Diagnostic:
    """The error for source in which no function definition was found."""
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
