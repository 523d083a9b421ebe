"""A random program as Python and as C: the same loops, statements and names in both.

A node is ["for", letter, letter or None, [nodes]], a loop from 0 to the size of its letter or
through the other letter's variable, or ["set", place, expression]. A place is ["load", array,
[subscripts]] or ["local", name]; an expression is a number, a place, ["scalar", name], ["+", x, y],
["*", x, y], ["min", x, y], or ["relu", x].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from outside.campaigns.campaign import Case

INDENT = "    "
C_TYPES = {"float64": "double", "float32": "float", "int32": "int", "int64": "long"}


def python_text(case: Case) -> str:
    """The function `kernel` in Python."""
    sizes = [] if case["literal"] else [f"n{c}" for c in case["sizes"]]
    names = [*sizes, *case["scalars"], *case["arrays"]]
    lines = [f"def kernel({', '.join(names)}):"]
    zero = "0" if case["dtype"].startswith("int") else "0.0"

    def place(node: list[Any]) -> str:
        return node[1] if node[0] == "local" else f"{node[1]}[{', '.join(node[2])}]"

    def choice(kind: str, x: str, y: str) -> str:
        return f"({x} if {x} > {zero} else {zero})" if kind == "relu" else f"min({x}, {y})"

    def visit(body: list[Any], depth: int) -> None:
        for node in body:
            if node[0] == "for":
                lines.append(f"{INDENT * depth}for {node[1]} in range({_end(case, node)}):")
                visit(node[3], depth + 1)
            else:
                value = _expression(node[2], place, choice, zero)
                lines.append(f"{INDENT * depth}{place(node[1])} = {value}")

    visit(case["body"], 1)
    return "\n".join(lines) + "\n"


def c_text(case: Case) -> str:
    """The function `kernel` in C, its body a region; `hidden` arrays are its own."""
    kind = C_TYPES[case["dtype"]]
    hidden = case.get("hidden", [])

    def extent(dimension: list[Any]) -> str:
        letter, shift = dimension
        if case["literal"]:
            return f"[{case['sizes'][letter] + shift}]"
        return f"[n{letter} + {shift}]" if shift else f"[n{letter}]"

    arguments = [] if case["literal"] else [f"long n{c}" for c in case["sizes"]]
    arguments += [f"{_scalar(kind)} {name}" for name in case["scalars"]]
    arguments += [
        f"{kind} {name}{''.join(map(extent, dimensions))}"
        for name, dimensions in case["arrays"].items()
        if name not in hidden
    ]
    lines = [f"void kernel({', '.join(arguments)})", "{", f"{INDENT}{kind} s;"]
    lines += [
        f"{INDENT}{kind} {name}{''.join(map(extent, case['arrays'][name]))};" for name in hidden
    ]
    lines.append("#pragma scop")

    def place(node: list[Any]) -> str:
        return node[1] if node[0] == "local" else node[1] + "".join(f"[{x}]" for x in node[2])

    def choice(kind: str, x: str, y: str) -> str:
        return f"({x} > 0 ? {x} : 0)" if kind == "relu" else f"({x} < {y} ? {x} : {y})"

    def visit(body: list[Any], depth: int) -> None:
        for node in body:
            if node[0] == "for":
                c = node[1]
                head = f"for (long {c} = 0; {c} < {_end(case, node)}; {c}++) {{"
                lines.append(INDENT * depth + head)
                visit(node[3], depth + 1)
                lines.append(INDENT * depth + "}")
            else:
                value = _expression(node[2], place, choice, "0")
                lines.append(f"{INDENT * depth}{place(node[1])} = {value};")

    visit(case["body"], 1)
    return "\n".join([*lines, "#pragma endscop", "}"]) + "\n"


def _scalar(kind: str) -> str:
    return "long" if kind in ("int", "long") else kind


def _end(case: Case, loop: list[Any]) -> str:
    """The end of a loop's range: its letter's size, or one after the other loop's variable."""
    _, letter, other, _ = loop
    if other is not None:
        return f"{other} + 1"
    return str(case["sizes"][letter]) if case["literal"] else f"n{letter}"


def _expression(
    node: Any,
    place: Callable[[list[Any]], str],
    choice: Callable[[str, str, str], str],
    zero: str,
) -> str:
    def visit(inner: Any) -> str:
        return _expression(inner, place, choice, zero)

    match node:
        case int():
            return zero if node == 0 else str(node)
        case ["scalar", name]:
            return str(name)
        case ["+" | "*" as sign, x, y]:
            return f"({visit(x)} {sign} {visit(y)})"
        case ["relu", x]:
            return choice("relu", visit(x), "")
        case ["min", x, y]:
            return choice("min", visit(x), visit(y))
    return place(node)
