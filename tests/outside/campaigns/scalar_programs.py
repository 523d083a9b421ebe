"""Random C regions with integer scalars that set, step and choose each other, beside the compiler.

A node is ["set", place, operator, expression], ["for", iterator, start, stop, [nodes]] or
["if", condition, [nodes], [nodes]]. A place is the name of a scalar or ["y", iterator]; an
expression is a number, a name, ["x", iterator], [operator, x, y] or ["?", condition, x, y]; a
condition is [comparison, x, y]. Integers wrap, so that every result is defined.

What a front end knows of a scalar at some point of a region is where such programs go wrong: all of
them are interpreted, some are compiled.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import loopwright as lw
from loopwright.ir.interpret import interpret_program
from loopwright.runtime.toolchain import build_library, load_library
from outside.campaigns.campaign import Campaign, Case, Difference, Random, chance, pick

_SCALARS, _ITERATORS = ("a", "b", "c"), "ijk"
_SIZES = (0, 1, 4, 9)
_FLAGS = ("-O1", "-fwrapv", "-w")


def campaign() -> Campaign:
    return Campaign("scalar_programs", _drawn, _checked, _smaller)


# -- drawing --------------------------------------------------------------------------------------


def _drawn(random: Random) -> Case:
    names = list(_SCALARS[: int(random.integers(2, 4))])
    return {
        "first": {name: pick(random, 0, 1, 2, -3, "n", "m") for name in names},
        "body": [_node(random, names, "") for _ in range(int(random.integers(2, 5)))],
        "compiled": chance(random, 8),
    }


def _node(random: Random, names: list[str], around: str) -> list[Any]:
    kind = random.random()
    if kind < 0.5:
        name, how = pick(random, *names), random.random()
        if how < 0.15:
            return ["set", name, pick(random, "+=", "-="), pick(random, *names)]
        if how < 0.3:
            return ["set", name, pick(random, "+=", "-="), _expression(random, names, around, 2)]
        if how < 0.45:
            return ["set", name, pick(random, "+=", "-="), 1]
        return ["set", name, "=", _expression(random, names, around, 0)]
    if kind < 0.68 and around:
        value = _expression(random, names, around, 0)
        return ["set", ["y", pick(random, *around)], pick(random, "=", "+="), value]
    if kind < 0.82 and len(around) < 2:
        iterator = _ITERATORS[len(around)]
        start = pick(random, "0", "0", "1", around[-1] if around else "2")
        body = [_node(random, names, around + iterator) for _ in range(int(random.integers(1, 4)))]
        return ["for", iterator, start, pick(random, "n", "n", "3", "n - 1"), body]
    parts = [_expression(random, names, around, 2) for _ in range(2)]
    body = [_node(random, names, around) for _ in range(int(random.integers(1, 3)))]
    other = [_node(random, names, around)] if chance(random, 3) else []
    return ["if", [pick(random, "<", ">", "==", "!="), *parts], body, other]


def _expression(random: Random, names: list[str], around: str, depth: int) -> Any:
    kind = random.random()
    if depth > 2 or kind < 0.25:
        return pick(random, *names)
    if kind < 0.4:
        return pick(random, 0, 1, 2, 3, 5, -1)
    if kind < 0.62 and around:
        iterator = pick(random, *around)
        return iterator if kind < 0.5 else ["x", iterator]

    def part() -> Any:
        return _expression(random, names, around, depth + 1)

    if kind < 0.7:
        return ["?", [pick(random, "<", ">", "==", "<=", "!="), part(), part()], part(), part()]
    return [pick(random, "+", "-", "+", "-", "*", "&", "^"), part(), part()]


# -- text -----------------------------------------------------------------------------------------


def c_text(case: Case) -> str:
    """The function `f`; z takes what the scalars are at the end."""
    lines = [f"int {name} = {first};" for name, first in case["first"].items()]
    lines += [line for node in case["body"] for line in _lines(node)]
    lines += [f"z[{number}] = {name};" for number, name in enumerate(case["first"])]
    head = "void f(int n, int m, int x[n + 3], int y[n + 3], int z[3])"
    return "\n".join([f"{head} {{", "#pragma scop", *lines, "#pragma endscop", "}", ""])


def _lines(node: list[Any]) -> list[str]:
    match node:
        case ["set", place, op, value]:
            return [f"{_text(place)} {op} {_text(value)};"]
        case ["for", iterator, start, stop, body]:
            head = f"for (int {iterator} = {start}; {iterator} < {stop}; {iterator}++) {{"
            return [head, *(line for inner in body for line in _lines(inner)), "}"]
        case ["if", cond, body, other]:
            first = [line for inner in body for line in _lines(inner)]
            second = [line for inner in other for line in _lines(inner)]
            return [
                f"if ({_text(cond)}) {{",
                *first,
                *(["} else {", *second] if second else []),
                "}",
            ]
    raise AssertionError(node)


def _text(expression: Any) -> str:
    match expression:
        case ["x" | "y" as array, iterator]:
            return f"{array}[{iterator}]"
        case ["?", cond, x, y]:
            return f"({_text(cond)} ? {_text(x)} : {_text(y)})"
        case [op, x, y]:
            return f"({_text(x)} {op} {_text(y)})"
    return str(expression)


# -- checking -------------------------------------------------------------------------------------


def _checked(case: Case) -> None:
    source = c_text(case)
    (program,) = lw.parse_c(source)

    def interpreted(n: int, m: int, *arrays: np.ndarray) -> None:
        used = {array.name for array in program.arrays}
        given = {name: one for name, one in zip("xyz", arrays, strict=True) if name in used}
        sizes = {name: value for name, value in (("n", n), ("m", m)) if name in program.params}
        interpret_program(program, given, sizes)

    roads: dict[str, Callable[..., object]] = {"interpreter": interpreted}
    if case["compiled"]:
        roads |= {"host": lw.compile(source, race=False), "c": lw.compile(source, target="c")}
    expected = load_library(build_library(source, _FLAGS))["f"]
    for n in _SIZES:
        made = np.random.default_rng(n)
        x, y = (made.integers(-4, 9, n + 3).astype(np.int32) for _ in range(2))
        wanted = y.copy(), np.zeros(3, np.int32)
        expected(n, 5, *(ctypes.c_void_p(array.ctypes.data) for array in (x, *wanted)))
        for road, function in roads.items():
            found = y.copy(), np.zeros(3, np.int32)
            function(n, 5, x, *found)
            for name, one, right in zip("yz", found, wanted, strict=True):
                if not np.array_equal(one, right):
                    raise Difference(f"{name} by {road} at n = {n}: {one}, not {right}")


def _smaller(case: Case) -> Iterator[Case]:
    for body in _shorter(case["body"]):
        yield {**case, "body": body}
    if case["compiled"]:
        yield {**case, "compiled": False}
    for name, first in case["first"].items():
        if first != 0:
            yield {**case, "first": {**case["first"], name: 0}}


def _shorter(nodes: list[Any]) -> Iterator[list[Any]]:
    for at, node in enumerate(nodes):
        before, behind = nodes[:at], nodes[at + 1 :]
        yield [*before, *behind]
        match node:
            case ["set", place, op, value]:
                changed = [["set", place, op, simpler] for simpler in _simpler(value)]
            case ["for", *head, body]:
                changed = [["for", *head, inner] for inner in _shorter(body)]
            case ["if", cond, body, other]:
                yield [*before, *body, *behind]
                changed = [["if", cond, inner, other] for inner in _shorter(body)]
                changed += [["if", cond, body, inner] for inner in _shorter(other)]
        for one in changed:
            yield [*before, one, *behind]


def _simpler(expression: Any) -> Iterator[Any]:
    match expression:
        case ["?", _, x, y] | ["+" | "-" | "*" | "&" | "^", x, y]:
            yield x
            yield y
        case ["x", _]:
            yield 1
