"""Operators x types x boundary values under `jit`, beside plain Python with NumPy's scalars.

A case is a pair of types, of 14 dtypes and Python's four, and some forms: expressions of `x` and
`y`, assignments to names, updates of array elements. Each form has an array of results, and every
pair of values is one iteration, so that one function holds many operators. What Python raises and
what it computes is asked for every value by itself.

A form that is refused is left out. A difference counts only if no row of the table in
docs/python.md (`ROWS`) excuses it. `COUNTED` has the values compared, what a row excuses, and forms
refused by reason.
"""

from __future__ import annotations

import linecache
import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np

import loopwright as lw
from loopwright.frontends.python import argument_types, parse_function
from loopwright.frontends.source_tree import (
    ArrayParam,
    Assign,
    ForLoop,
    IfElse,
    IntParam,
    Node,
    SourceTree,
)
from loopwright.ir.evaluate import Given, compile_expr
from loopwright.ir.memory import Cells
from outside.campaigns.campaign import Campaign, Case, Difference, Random, accepted, chance
from outside.campaigns.operator_forms import (
    CAPTURED,
    FORMS,
    KINDS,
    PYTHON,
    TABLE,
    Outcome,
    boundary_values,
    result_type,
    stored,
    value_of,
)
from outside.campaigns.python_differences import excuse

__all__ = ["COUNTED", "campaign", "every_case", "run"]

COUNTED: Counter[str] = Counter()
_files = count()


def _define(forms: list[int], left: str, right: str) -> Callable[..., Any]:
    """The function of some forms: a loop over pairs of values, a result array for each form."""
    sides = [name if kind in PYTHON else f"{name}[i]" for name, kind in (("x", left), ("y", right))]
    outs = [f"r{number}" for number in forms]
    lines = [f"def f(x, y, z, n, {', '.join(outs)}):", "    for i in range(n):"]
    for number in forms:
        for line in FORMS[number].text.splitlines():
            words = {"x": sides[0], "y": sides[1], "r": f"r{number}[i]", "t": f"t{number}"}
            lines.append("        " + _renamed(line, words))
    text = "\n".join(lines) + "\n"
    file = f"operator_types_{next(_files)}.py"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"np": np, "math": math, **CAPTURED}
    exec(compile(text, file, "exec"), names)
    function: Callable[..., Any] = names["f"]
    return function


def _renamed(line: str, words: dict[str, str]) -> str:
    """A line with other names; names are words of one letter here."""
    found, at = "", 0
    while at < len(line):
        start = at
        while at < len(line) and (line[at].isalnum() or line[at] in "._"):
            at += 1
        word = line[start:at]
        found += words.get(word, word)
        if at < len(line):
            found += line[at]
            at += 1
    return found


def _interpreter(tree: SourceTree) -> Callable[..., None]:
    """A function that evaluates the statements that the front end reads, one after the other."""
    (loop,) = tree.body
    assert isinstance(loop, ForLoop)
    steps = [_step(node) for node in loop.body]
    scalars = {local.name: np.zeros((), local.dtype.name) for local in tree.locals}

    def call(*args: Any) -> None:
        variables: dict[str, Any] = {}
        cells = {name: Cells(name, data) for name, data in scalars.items()}
        for param, arg in zip(tree.params, args, strict=True):
            if isinstance(param, IntParam):
                variables[param.name] = np.int64(arg)
            elif isinstance(param, ArrayParam):
                cells[param.name] = Cells(param.name, arg)
            else:
                cells[param.name] = Cells(param.name, np.array(arg, param.dtype.name))
        frame = Given(variables, cells)
        for i in range(args[3]):
            variables[loop.var] = np.int64(i)
            for step in steps:
                step(frame)

    return call


def _step(node: Node) -> Callable[[Given], None]:
    """A statement as a function of what it sees."""
    match node:
        case Assign(target=target, value=value):
            compute, index = compile_expr(value), [compile_expr(entry) for entry in target.index]

            def assign(frame: Given) -> None:
                place = tuple(int(entry(frame)) for entry in index)
                frame.cells[target.array].data[place] = compute(frame)

            return assign
        case IfElse(cond=cond, body=body, orelse=orelse):
            test = compile_expr(cond)
            sides = [[_step(one) for one in part] for part in (orelse, body)]

            def branch(frame: Given) -> None:
                for step in sides[bool(test(frame))]:
                    step(frame)

            return branch
    raise AssertionError(node)


def run(case: Case) -> list[Outcome]:
    """Every outcome of a case that is not as Python has it, excused or not."""
    left, right = case["left"], case["right"]
    xs, ys = boundary_values(left), boundary_values(right)
    if not any("y" in FORMS[k].names for k in case["forms"]):
        ys = ys[:1]
    pairs = [(x, y) for x in xs for y in ys]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)  # jit refuses such forms
        values = {k: [value_of(FORMS[k], x, y) for x, y in pairs] for k in case["forms"]}
        types = {k: result_type(FORMS[k], values[k], left) for k in case["forms"]}
    number = list(range(len(pairs)))  # of pairs in one call
    calls = [number]
    if left in PYTHON and right in PYTHON:
        calls = [[k] for k in number]
    elif left in PYTHON:
        calls = [number[k : k + len(ys)] for k in number[:: len(ys)]]
    elif right in PYTHON:
        calls = [number[k :: len(ys)] for k in range(len(ys))]

    def arguments(forms: list[int], given: list[int] = calls[0]) -> tuple[Any, ...]:
        sides = []
        for at, kind in enumerate((left, right)):
            side = [pairs[k][at] for k in given]
            sides.append(side[0] if kind in PYTHON else np.array(side, kind))
        outs = []
        for form in forms:
            out = np.zeros(len(given), types[form])
            if FORMS[form].updates:
                out[:] = [pairs[k][0] for k in given]
            outs.append(out)
        return (*sides, TABLE, len(given), *outs)

    # What Python has no meaning for is not compared: math.trunc of a NumPy integer.
    known = [k for k in case["forms"] if not all(isinstance(v, TypeError) for v in values[k])]

    def read(forms: list[int]) -> tuple[Callable[..., Any], SourceTree]:
        function = _define(forms, left, right)
        return function, parse_function(function, argument_types(arguments(forms)))

    lines = [range(3, 3 + len(FORMS[k].text.splitlines())) for k in known]
    found = accepted(known, lines, read, COUNTED)
    if found is None:
        return []
    forms, (function, tree) = found
    call = lw.jit(race=False)(function) if case["compiled"] else _interpreter(tree)
    wrong: list[Outcome] = []
    with np.errstate(all="ignore"):
        wanted = {k: [stored(value, types[k]) for value in values[k]] for k in forms}
        for given in calls:
            args = arguments(forms, given)
            call(*args)
            for form, out in zip(forms, args[4:], strict=True):
                for k, element in zip(given, out, strict=True):
                    expected = wanted[form][k]
                    if not _same(element, expected):
                        value = values[form][k]
                        wrong.append(Outcome(FORMS[form], *pairs[k], expected, value, element))
            COUNTED["counted: values compared"] += len(given) * len(forms)
    COUNTED["counted: pairs of types with a form"] += 1
    COUNTED["counted: forms taken"] += len(forms)
    return wrong


def _same(found: Any, expected: Any) -> bool:
    """Whether two scalars of one dtype are equal: zeros with their signs, NaN with NaN."""
    if isinstance(expected, Exception):
        return False
    if expected.dtype.kind in "fc":
        parts = [(found.real, expected.real), (found.imag, expected.imag)]
        return all(
            (a != a and b != b) or (a == b and np.signbit(a) == np.signbit(b)) for a, b in parts
        )
    return bool(found == expected)


# -- the campaign ---------------------------------------------------------------------------------


def campaign() -> Campaign:
    return Campaign("operator_types", _drawn, _checked, _smaller, COUNTED, every_case)


def every_case(compiled: bool = False) -> Iterator[Case]:
    """A case of all forms for every pair of types; those of one operand for every type."""
    both = [k for k, form in enumerate(FORMS) if "y" in form.names]
    one = [k for k, _ in enumerate(FORMS) if k not in both]
    for left in KINDS:
        yield {"left": left, "right": left, "forms": one, "compiled": compiled}
    for left in KINDS:
        for right in KINDS:
            yield {"left": left, "right": right, "forms": both, "compiled": compiled}


def _drawn(random: Random) -> Case:
    left, right = (KINDS[int(random.integers(len(KINDS)))] for _ in range(2))
    some = random.permutation(len(FORMS))[: int(random.integers(4, 24))]
    return {
        "left": left,
        "right": right,
        "forms": sorted(map(int, some)),
        "compiled": chance(random, 3),
    }


def _checked(case: Case) -> None:
    wrong: dict[str, Outcome] = {}  # form -> the first value that is wrong
    for outcome in run(case):
        row = excuse(outcome)
        if row:
            COUNTED[f"excused: {row}"] += 1
        else:
            wrong.setdefault(outcome.form.op, outcome)
    if wrong:
        raise Difference("\n".join(map(str, wrong.values())))


def _smaller(case: Case) -> Iterator[Case]:
    forms = case["forms"]
    if len(forms) > 1:
        half = len(forms) // 2
        yield {**case, "forms": forms[:half]}
        yield {**case, "forms": forms[half:]}
        for number in forms:
            yield {**case, "forms": [number]}
    if case["compiled"]:
        yield {**case, "compiled": False}
