"""Python text of users, parsed without the warnings of Python's own compiler."""

from __future__ import annotations

import ast
import threading
import warnings

__all__ = ["parse_expression", "parse_module"]

_lock = threading.Lock()  # filters of warnings belong to the process


def parse_expression(text: str) -> ast.expr:
    """The expression that a text is; raises what `ast.parse` raises.

    Warnings such as "invalid decimal literal" name no place in the user's text; what is wrong with
    an expression is said by those who read it.
    """
    with _lock, warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        return ast.parse(text, mode="eval").body


def parse_module(text: str) -> ast.Module:
    """The statements of a text that Python has compiled before, with its warnings."""
    with _lock, warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        return ast.parse(text)
