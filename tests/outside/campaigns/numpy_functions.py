"""Random NumPy functions under `jit`, beside NumPy.

A case has arrays in memory of their own (`bases`), the arguments as views of these, which may
overlap, and the lines of a function. Compared are what is returned or raised, with types, dtypes,
shapes, strides and shared memory, and all memory afterwards: bit by bit, but for functions that
round, which are drawn as the last step only.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import loopwright as lw
from frontends.kernels import define
from numpy_programs.outcomes import (
    Outcome,
    called,
    difference,
    excused,
    layout_difference,
    runs_in_python,
    with_python_numbers,
)
from outside.campaigns.campaign import (
    REFUSALS,
    Campaign,
    Case,
    Difference,
    Random,
    Unjudged,
    chance,
    pick,
)
from outside.campaigns.numpy_function_text import DTYPES, draw_lines

__all__ = ["campaign", "function_text"]

ULPS = 4.0  # of functions that round
_EXTENTS = (0, 1, 2, 3, 7)
_NUMBERS = ("2", "-1", "0.5", "3", "np.float32(1.5)", "np.int64(2)", "np.float64(-0.5)", "7")
_VIEWS = ("{}[1:]", "{}[:-1]", "{}[::-1]", "{}.T", "{}[::2]", "{}[...]")


def campaign() -> Campaign:
    counts: Counter[str] = Counter()
    return Campaign(
        "numpy_functions", _drawn, lambda case: _checked(case, counts), _smaller, counts
    )


# -- drawing --------------------------------------------------------------------------------------


def _drawn(random: Random) -> Case:
    extents = [int(pick(random, *_EXTENTS)) for _ in range(2)]
    if not chance(random, 4):
        extents = [max(extent, 2) for extent in extents]
    count = int(random.integers(1, 4))
    bases = [_base(random, extents) for _ in range(count)]
    args = [f"b{k}" for k in range(count)]
    if chance(random, 4):
        shared = pick(random, *args)
        args += [pick(random, shared, *_VIEWS).format(shared)]
        first = args.index(shared)
        args[first] = pick(random, shared, *_VIEWS).format(shared)
    if chance(random, 2):
        args += [pick(random, *_NUMBERS)]
    if chance(random, 4):
        values = [int(random.integers(-2, 3)) for _ in range(3)]
        bases += [{"dtype": "int64", "shape": [3], "values": values}]
        args += [f"b{len(bases) - 1}"]
    case: Case = {"bases": bases, "args": args, "lines": [], "rounds": chance(random, 8)}

    def make() -> dict[str, Any]:
        return dict(zip(_names(case), _arguments(case)[1], strict=True))

    try:
        make()
    except IndexError:  # a view of an array of rank 0
        case["args"] = args = [arg if arg[0] != "b" else arg[:2] for arg in args]
    return {**case, "lines": draw_lines(random, make, rounds=case["rounds"])}


def _base(random: Random, extents: list[int]) -> dict[str, Any]:
    dtype = pick(random, *DTYPES, "float64", "float64", "int64", "float32")
    rank = 0 if chance(random, 20) else pick(random, 1, 1, 1, 2, 2, 2, 3)
    shape = [int(pick(random, *extents, *extents, 1)) for _ in range(rank)]
    ends = chance(random, 3)  # whether ends of the type and what is not finite occur
    values = [_value(random, dtype, ends=ends) for _ in range(int(np.prod(shape)))]
    return {"dtype": dtype, "shape": shape, "values": values}


def _value(random: Random, dtype: str, *, ends: bool) -> Any:
    kind = np.dtype(dtype).kind
    if kind == "b":
        return bool(random.integers(2))
    if kind in "iu":
        info = np.iinfo(dtype)
        if ends and chance(random, 4):
            return int(pick(random, info.min, info.max))
        return int(random.integers(0 if kind == "u" else -5, 9))
    if kind == "c":
        part = f"float{4 * np.dtype(dtype).itemsize}"
        return [_value(random, part, ends=ends) for _ in range(2)]
    if ends and chance(random, 4):
        largest = repr(float(np.finfo(dtype).max))
        return pick(random, "nan", "inf", "-inf", "-0.0", largest)
    return repr(float(random.integers(-8, 9)) / 2)


# -- running --------------------------------------------------------------------------------------


def _names(case: Case) -> list[str]:
    return [f"{'abcdefg'[k]}" for k in range(len(case["args"]))]


def function_text(case: Case) -> str:
    """The function `f` of a case."""
    head = f"def f({', '.join(_names(case))}):"
    return "\n".join([head, *(f"    {line}" for line in case["lines"]), ""])


def _arguments(case: Case) -> tuple[list[np.ndarray], list[Any]]:
    """New memory, and the arguments: views of it and numbers."""
    memory = []
    for base in case["bases"]:
        values = base["values"]
        if np.dtype(base["dtype"]).kind == "c":
            values = [complex(float(real), float(imag)) for real, imag in values]
        elif np.dtype(base["dtype"]).kind == "f":
            values = [float(value) for value in values]
        memory.append(np.array(values, base["dtype"]).reshape(base["shape"]))
    space = {"np": np, **{f"b{k}": array for k, array in enumerate(memory)}}
    return memory, [eval(text, dict(space)) for text in case["args"]]


def _checked(case: Case, counts: Counter[str]) -> None:
    function = define(function_text(case))
    memory, arguments = _arguments(case)
    right = called(function, arguments)
    right = replace(right, arguments=(*arguments, *memory))  # also what no argument shows
    if right.casts:
        raise Unjudged("a number is cast to an integer type that does not hold it")
    compiled = lw.jit(function)
    for call in ("first", "second"):
        ours, given = _arguments(case)
        outcome: list[Outcome] = []

        def run(given: list[Any] = given, outcome: list[Outcome] = outcome) -> None:
            outcome.append(called(compiled, given, passing=REFUSALS))

        if runs_in_python(function.__code__, run):
            counts[f"counted: {call} call left to Python"] += 1
        result = with_python_numbers(outcome[0].result, right.result)
        found = replace(outcome[0], result=result, arguments=(*given, *ours))
        excuse = excused(function_text(case), found, right)
        if excuse:
            counts[f"excused: {excuse}"] += 1
            return
        wrong = difference(found, right, ULPS if _may_round(case) else 0.0)
        wrong = wrong or layout_difference(found, right)
        if str(found.error) != str(right.error):
            counts[f"counted: other words of {type(right.error).__name__}"] += 1
        if wrong:
            raise Difference(f"{call} call: {wrong}\n{function_text(case)}")


def _may_round(case: Case) -> bool:
    """Whether last bits may not be NumPy's: functions that round, and those of complex numbers."""
    is_complex = any(base["dtype"].startswith("complex") for base in case["bases"])
    return case["rounds"] or is_complex or "1j" in function_text(case)


# -- shrinking ------------------------------------------------------------------------------------


def _smaller(case: Case) -> Iterator[Case]:
    """Simpler cases: fewer statements, expressions cut to a part, smaller arrays and values."""
    for lines in _shorter(case["lines"]):
        yield {**case, "lines": lines}
    for k, base in enumerate(case["bases"]):
        for simpler in _smaller_bases(base):
            yield {**case, "bases": [*case["bases"][:k], simpler, *case["bases"][k + 1 :]]}
    for k, arg in enumerate(case["args"]):
        if arg.startswith("b") and len(arg) > 2:
            yield {**case, "args": [*case["args"][:k], arg[:2], *case["args"][k + 1 :]]}
    if case["rounds"]:
        yield {**case, "rounds": False}


def _smaller_bases(base: dict[str, Any]) -> Iterator[dict[str, Any]]:
    shape, kind = base["shape"], np.dtype(base["dtype"]).kind
    numbers = np.arange(len(base["values"])).reshape(shape)
    for axis, extent in enumerate(shape):
        for smaller in (1, extent - 1):
            if 0 < smaller < extent:
                kept = np.take(numbers, range(smaller), axis)
                values = [base["values"][k] for k in kept.ravel()]
                yield {**base, "shape": list(kept.shape), "values": values}
    plain = {"b": False, "f": "1.0", "c": ["1.0", "0.0"]}.get(kind, 1)
    if any(value != plain for value in base["values"]):
        yield {**base, "values": [plain] * len(base["values"])}
        for k, value in enumerate(base["values"][:8]):
            if value != plain:
                yield {**base, "values": [*base["values"][:k], plain, *base["values"][k + 1 :]]}


def _shorter(lines: list[str]) -> Iterator[list[str]]:
    text = "\n".join(lines)
    for number in range(sum(isinstance(x, ast.stmt) for x in ast.walk(ast.parse(text)))):
        for keeps_body in (False, True):
            tree = ast.parse(text)
            if _Cut(number, keeps_body=keeps_body).apply(tree):
                yield ast.unparse(tree).splitlines()
    places = sum(isinstance(x, ast.expr) for x in ast.walk(ast.parse(text)))
    for number in range(places):
        for child in range(3):
            tree = _Replace(number, child).visit(ast.parse(text))
            shorter = ast.unparse(tree)
            if len(shorter) < len(text):
                yield shorter.splitlines()


class _Cut:
    """Removes a statement, or puts what stands inside it in its place."""

    def __init__(self, number: int, *, keeps_body: bool) -> None:
        self.left = number
        self.keeps_body = keeps_body

    def apply(self, tree: ast.Module) -> bool:
        """Change a tree; False where that leaves it as it is or without a meaning."""
        return self._in_list(tree.body)

    def _in_list(self, body: list[ast.stmt]) -> bool:
        for k, statement in enumerate(body):
            if self.left == 0:
                inside = list(getattr(statement, "body", []))
                if self.keeps_body != bool(inside) and self.keeps_body:
                    return False
                body[k : k + 1] = inside if self.keeps_body else []
                return bool(body)
            self.left -= 1
            for name in ("body", "orelse"):
                inner = getattr(statement, name, [])
                if inner and self._in_list(inner):
                    return True
                if self.left < 0:
                    return False
        return False


class _Replace(ast.NodeTransformer):
    """Puts a part of an expression in its place."""

    def __init__(self, number: int, child: int) -> None:
        self.left = number
        self.child = child

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr):
            if self.left == 0:
                self.left -= 1
                parts = [x for x in ast.iter_child_nodes(node) if isinstance(x, ast.expr)]
                return parts[self.child] if self.child < len(parts) else node
            self.left -= 1
        return self.generic_visit(node)
