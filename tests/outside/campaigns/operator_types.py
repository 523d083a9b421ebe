"""Operators x types x boundary values under `jit`, beside plain Python with NumPy's scalars.

A case is a pair of types, of 14 dtypes and Python's four, and some forms: expressions of `x` and
`y`, assignments to names, updates of array elements. Each form has an array of results, and every
pair of values is one iteration, so that one function holds many operators. What Python raises and
what it computes is asked for every value by itself.

A form that is refused is left out. A difference counts only if no row of the table in
docs/python.md (`ROWS`) excuses it; what a row excuses is counted in `EXCUSED`.
"""

from __future__ import annotations

import ast
import linecache
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import count
from types import CodeType
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
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.evaluate import Given, compile_expr
from loopwright.ir.memory import Cells
from outside.campaigns.campaign import Campaign, Case, Difference, Random, chance

__all__ = ["EXCUSED", "FORMS", "KINDS", "ROWS", "Outcome", "Row", "campaign", "every_case", "run"]

PYTHON: dict[str, type] = {"pybool": bool, "pyint": int, "pyfloat": float, "pycomplex": complex}
KINDS = (*DTYPES, *PYTHON)
_TWO_53, _TWO_63 = 1 << 53, 1 << 63


# -- values ---------------------------------------------------------------------------------------


def boundary_values(kind: str) -> list[Any]:
    """Values at and around the ends of a type, as elements of an array or Python numbers."""
    if kind in ("bool", "pybool"):
        found: list[Any] = [False, True]
    elif kind == "pyint":
        found = [0, 1, -1, 3, 127, 128, 256, -129, 1 << 31, _TWO_53 + 1, _TWO_63 - 1, -_TWO_63]
    elif kind in ("pyfloat", "float64"):
        found = [0.0, -0.0, 1.0, -2.5, 300.0, 0.1, math.nan, math.inf, -math.inf, 5e-324, 1.7e308]
        found += [2.0**53, -(2.0**63), 2.0**63]
    elif kind in ("pycomplex", "complex64", "complex128"):
        found = [0j, complex(-0.0, 0.0), 1 + 0j, -2.5 + 3j, 1j]
    elif DTYPES[kind].is_float:
        info = np.finfo(kind)
        found = [0.0, -0.0, 1.0, -2.5, 0.1, math.nan, math.inf, -math.inf, 2049.0]
        found += [float(info.max), float(info.smallest_subnormal)]
    else:
        low, high = DTYPES[kind].least, DTYPES[kind].greatest
        found = sorted({low, 0, 1, 3, high // 2 + 1, high - 1, high})
        found += [-1, low + 1] if low else []
        found += [_TWO_53 + 1] if DTYPES[kind].bits == 64 else []
    return found if kind in PYTHON else list(np.array(found, kind))


# -- forms ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Form:
    """Statements that set `r`, the result, from `x` and `y`; `op` names what is computed."""

    op: str
    text: str
    into: str = ""  # dtype of the array of results; empty: the type that Python gives
    updates: bool = False  # r holds x before, in the dtype of x

    @property
    def names(self) -> set[str]:
        """The names that the statements use."""
        return {node.id for node in ast.walk(ast.parse(self.text)) if isinstance(node, ast.Name)}


def _forms() -> Iterator[Form]:
    for op in ("+", "-", "*", "/", "//", "%", "&", "|", "^", "**"):
        yield Form(op, f"r = x {op} y")
        yield Form(f"{op}=", f"r {op}= y", updates=True)
        yield Form(f"{op}= of a name", f"t = x\nt {op}= y\nr = t")
    for op in ("<", "<=", ">", ">=", "==", "!="):
        yield Form(op, f"r = x {op} y", "bool")
        yield Form(f"{op}, in a branch", f"if x {op} y:\n    r = 1\nelse:\n    r = 2", "int8")
    yield Form("<, chained", "r = x < y <= x", "bool")
    for op in ("min", "max"):
        for into in ("", "int64", "float64", "uint8", "float32"):
            yield Form(f"{op} into {into or 'its type'}", f"r = {op}(x, y)", into)
        yield Form(f"{op} with 0.5", f"r = {op}(x, 0.5)", "int64")
        yield Form(f"{op} of three", f"r = {op}(y, x, 3)", "float64")
        yield Form(f"{op} + y", f"r = {op}(x, y) + y", "float64")
        yield Form(f"{op}, updates", f"r = {op}(r, y)", updates=True)
        yield Form(f"np.{op}imum", f"r = np.{op}imum(x, y)")
    yield Form("conditional", "r = x if x != y else y")
    yield Form("conditional into int64", "r = x if x == x else y", "int64")
    yield Form("conditional into uint64", "r = y if x != x else y", "uint64")
    yield Form("conditional + y", "r = (x if y == y else y) + y", "float64")
    yield Form("np.where", "r = np.where(x == x, x, y)")
    yield Form("a name of two types", "t = x\nif x != y:\n    t = y\nr = t", "float64")
    yield Form("a name of two types into int64", "t = y\nif x == y:\n    t = x\nr = t", "int64")
    yield Form("a name and 0.5", "t = 0.5\nif x == x:\n    t = x\nr = t", "float64")
    yield Form("a name and 1", "t = 1\nif y == y:\n    t = y\nr = t", "float64")
    for op in ("+x", "-x", "~x", "abs(x)", "not x", "bool(x)", "int(x)", "float(x)", "complex(x)"):
        yield Form(op, f"r = {op}")
    for name in ("math.floor", "math.ceil", "math.trunc", "math.sqrt", "math.fabs"):
        yield Form(name, f"r = {name}(x)")
    for name in ("floor", "ceil", "trunc", "rint", "sqrt", "abs", "square", "conj", "real"):
        yield Form(f"np.{name}", f"r = np.{name}(x)")
    for name in ("exp", "log", "sin", "tanh", "log1p"):
        yield Form(f"np.{name}", f"r = np.{name}(x)")
    yield Form("math.exp", "r = math.exp(x)")
    yield Form("x ** 2", "r = x ** 2")
    yield Form("x ** 0.5", "r = x ** 0.5")
    for dtype in DTYPES:
        yield Form(f"np.{dtype}()", f"r = np.{dtype}(x)")
        yield Form(f"stored as {dtype}", "r = x", dtype)
    for number in ("-1", "300", "1.5", "2.0 ** 53"):
        yield Form(f"> {number}", f"r = x > {number}", "bool")
        yield Form(f"!= {number}", f"r = {number} != x", "bool")
        yield Form(f"max with {number}", f"r = max(x, {number})", "float64")


FORMS = tuple(_forms())


# -- Python's results -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What one form gives for one pair of values: by Python, and by us."""

    form: Form
    x: Any
    y: Any
    expected: Any  # a NumPy scalar of the array of results, or the exception that Python raises
    value: Any  # what Python computes, before it is stored
    found: Any = None

    def __str__(self) -> str:
        given = f"x = {self.x!r}, y = {self.y!r}"
        return f"{self.form.text!r} with {given}: {self.found!r}, Python: {self.expected!r}"


@cache
def _code(text: str) -> CodeType:
    return compile(text, "form", "exec")


def _value(form: Form, x: Any, y: Any) -> Any:
    """What Python computes for one pair of values, or the exception that it raises."""
    old = np.asarray(x, _own_type(x))[()] if form.updates else None
    names: dict[str, Any] = {"np": np, "math": math, "x": x, "y": y, "r": old}
    try:
        exec(_code(form.text), names)
    except (ArithmeticError, ValueError, TypeError) as error:
        return error
    return names["r"]


def _stored(value: Any, into: str) -> Any:
    """What is found in an array of a dtype that a value was stored to, or the exception."""
    if isinstance(value, Exception):
        return value
    kept = np.zeros(1, into)
    try:
        kept[0] = value
    except (ArithmeticError, ValueError, TypeError) as error:
        return error
    return kept[0]


def _result_type(form: Form, values: list[Any], left: str) -> str:
    """The dtype of a form's array of results: one that holds what Python computes."""
    if form.updates:
        return left if left in DTYPES else _own_type(PYTHON[left]())
    if form.into:
        return form.into
    found = {_own_type(value) for value in values if not isinstance(value, Exception)}
    return np.result_type(*found).name if found else "float64"


def _own_type(value: Any) -> str:
    """The dtype of a value; a Python integer is an int64."""
    match value:
        case np.generic() | np.ndarray():
            return value.dtype.name
        case bool():
            return "bool"
        case int():
            return "int64"
    return "complex128" if isinstance(value, complex) else "float64"


# -- the table of differences ---------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A row of the table in docs/python.md: what Python does that `jit` does not."""

    name: str
    holds: Callable[[Outcome], bool]
    example: tuple[str, str, str, Any, Any] | None  # a form, its types and values that differ


def _is_python_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, np.generic)


def _says(error: Any, *words: str) -> bool:
    return isinstance(error, Exception) and any(word in str(error) for word in words)


def _out_of_range(case: Outcome) -> bool:
    """An integer is stored to, or joined with, a type that does not hold it."""
    words = ("out of bounds for", "too large to convert to C")
    return _says(case.expected, *words) and not _float_to_integer(case)


def _beyond_64_bits(case: Outcome) -> bool:
    """Python's integers beyond int64, or beyond 2**53 where they are divided."""
    if _says(case.expected, "too large to convert to float"):
        return True
    numbers = [value for value in (case.x, case.y) if _is_python_int(value)]
    is_wide = any(abs(number) > _TWO_53 for number in numbers)
    if case.form.op.startswith(("/", "math.", "float")) and is_wide:
        return True
    value = case.value
    return bool(numbers) and is_wide and _is_python_int(value) and not -_TWO_63 <= value < _TWO_63


def _divided_by_zero(case: Outcome) -> bool:
    return isinstance(case.expected, ZeroDivisionError)


def _float_to_integer(case: Outcome) -> bool:
    """A float is converted to an integer type that does not hold it."""
    if _says(case.expected, "cannot convert float"):
        return True
    into = case.form.into or case.form.op.removeprefix("np.").removesuffix("()")
    into = "int64" if into in ("int(x)", "math.floor", "math.ceil", "math.trunc") else into
    if case.form.updates:
        into = _own_type(case.x)
    if into not in DTYPES or not DTYPES[into].is_integer:
        return False
    value = case.x if case.value is None or isinstance(case.value, np.integer) else case.value
    if not isinstance(value, float | np.floating):
        return False
    number = float(value)
    return not math.isfinite(number) or not (
        DTYPES[into].least <= math.trunc(number) <= DTYPES[into].greatest
    )


def _outside_domain(case: Outcome) -> bool:
    """A function or power outside its domain, or a result whose last bits are not NumPy's.

    Of complex numbers so are quotients, and what is infinite or NaN in them; zeros have any sign.
    """
    words = ("math domain", "math range", "nonnegative", "Numerical result", "exponentiation")
    is_real = not any(isinstance(value, complex) for value in (case.x, case.y))
    if _says(case.expected, *words) or (
        "**" in case.form.op and is_real and isinstance(case.value, complex)
    ):
        return True
    is_complex = any(isinstance(value, complex | np.complex64) for value in (case.x, case.y))
    known = ("exp", "log", "sin", "tanh", "log1p", *(("/", "/=", "abs") if is_complex else ()))
    word = case.form.op.removeprefix("np.").removeprefix("math.").partition(" ")[0]
    if isinstance(case.expected, Exception) or not (word in known or "**" in case.form.op):
        return False
    one, other = complex(case.found), complex(case.expected)
    if not all(map(np.isfinite, (one, other))):
        return is_complex
    eps = float(np.finfo(case.expected.dtype).eps) if case.expected.dtype.kind in "fc" else 0.0
    # An exponent multiplies the error of the logarithm.
    factor = (1 << 16) * max(1.0, abs(complex(case.y))) if is_complex else 8
    return abs(one - other) <= factor * eps * max(abs(other), 1e-30)


def _one_type(case: Outcome) -> bool:
    """A name of several types: Python's floats are rounded to float16 or float32."""
    if "t = " not in case.form.text:
        return False
    narrow = any(isinstance(value, np.float16 | np.float32) for value in (case.x, case.y))
    narrow |= any(isinstance(value, np.complex64) for value in (case.x, case.y))
    return narrow and any(isinstance(value, float | complex) for value in (case.x, case.y))


def _other_zero(case: Outcome) -> bool:
    """Both are zeros, of a reduction by min or max or of np.minimum or np.maximum."""
    is_open = "imum" in case.form.op or "updates" in case.form.op
    return is_open and not isinstance(case.expected, Exception) and case.expected == case.found == 0


def _outside(case: Outcome) -> bool:
    """A subscript that Python counts from the end, or refuses; no form has one."""
    return isinstance(case.expected, IndexError)


ROWS = (
    Row(
        "an integer beyond its type",
        _out_of_range,
        ("+", "uint8", "pyint", np.uint8(3), 256),
    ),
    Row(
        "Python's integers beyond 64 bits",
        _beyond_64_bits,
        ("min + y", "pyint", "pyint", _TWO_63 - 1, _TWO_63 - 1),
    ),
    Row(
        "Python's numbers divided by zero",
        _divided_by_zero,
        ("/", "pyfloat", "pyfloat", 1.0, 0.0),
    ),
    Row(
        "a float beyond an integer type",
        _float_to_integer,
        ("int(x)", "float64", "float64", np.float64(math.nan), np.float64(0.0)),
    ),
    Row(
        "functions outside their domain",
        _outside_domain,
        ("math.sqrt", "float32", "float32", np.float32(-2.5), np.float32(0.0)),
    ),
    Row(
        "a name has one type",
        _one_type,
        ("a name of two types", "pyfloat", "float32", 0.1, np.float32(0.1)),
    ),
    Row(
        "which of two zeros",
        _other_zero,
        ("min, updates", "float64", "float64", np.float64(0.0), np.float64(-0.0)),
    ),
    Row("subscripts outside the array", _outside, None),
)
EXCUSED: Counter[str] = Counter()  # row -> values that it has excused
COUNTED: Counter[str] = Counter()  # values compared, forms refused


# -- our results ----------------------------------------------------------------------------------


_files = count()


def _define(forms: list[int], left: str, right: str) -> Callable[..., Any]:
    """The function of some forms: a loop over pairs of values, a result array for each form."""
    sides = [name if kind in PYTHON else f"{name}[i]" for name, kind in (("x", left), ("y", right))]
    outs = [f"r{number}" for number in forms]
    lines = [f"def f(x, y, n, {', '.join(outs)}):", "    for i in range(n):"]
    for number in forms:
        for line in FORMS[number].text.splitlines():
            words = {"x": sides[0], "y": sides[1], "r": f"r{number}[i]", "t": f"t{number}"}
            lines.append("        " + _renamed(line, words))
    text = "\n".join(lines) + "\n"
    file = f"operator_types_{next(_files)}.py"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"np": np, "math": math}
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


def _accepted(
    case: Case, arguments: Callable[[list[int]], tuple[Any, ...]]
) -> tuple[list[int], Callable[..., Any], SourceTree] | None:
    """The forms of a case that are not refused, their function, and its meaning."""
    forms = list(case["forms"])
    while forms:
        function = _define(forms, case["left"], case["right"])
        try:
            tree = parse_function(function, argument_types(arguments(forms)))
        except lw.SourceError as error:
            lines = {fault.span.line for fault in error.diagnostics}
            at, kept = 3, []
            for number in forms:
                size = len(FORMS[number].text.splitlines())
                if not any(at <= line < at + size for line in lines):
                    kept.append(number)
                at += size
            COUNTED["forms refused"] += len(forms) - len(kept)
            if len(kept) == len(forms):
                raise
            forms = kept
            continue
        return forms, function, tree
    return None


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
        for i in range(args[2]):
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
    pairs = [(x, y) for x in xs for y in ys]
    with np.errstate(all="ignore"):
        values = {k: [_value(FORMS[k], x, y) for x, y in pairs] for k in case["forms"]}
        types = {k: _result_type(FORMS[k], values[k], left) for k in case["forms"]}
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
        return (*sides, len(given), *outs)

    # What Python has no meaning for is not compared: math.trunc of a NumPy integer.
    known = [k for k in case["forms"] if not all(isinstance(v, TypeError) for v in values[k])]
    accepted = _accepted({**case, "forms": known}, arguments)
    if accepted is None:
        return []
    forms, function, tree = accepted
    road = lw.jit(race=False)(function) if case["compiled"] else _interpreter(tree)
    wrong: list[Outcome] = []
    with np.errstate(all="ignore"):
        for given in calls:
            args = arguments(forms, given)
            road(*args)
            for form, out in zip(forms, args[3:], strict=True):
                for k, found in zip(given, out, strict=True):
                    expected = _stored(values[form][k], types[form])
                    if not _same(found, expected):
                        value = values[form][k]
                        wrong.append(Outcome(FORMS[form], *pairs[k], expected, value, found))
            COUNTED["values"] += len(given) * len(forms)
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


def excuse(outcome: Outcome) -> str:
    """The row that excuses an outcome; empty where none does."""
    return next((row.name for row in ROWS if row.holds(outcome)), "")


# -- the campaign ---------------------------------------------------------------------------------


def campaign() -> Campaign:
    return Campaign("operator_types", _drawn, _checked, _smaller, EXCUSED)


def every_case(compiled: bool = False) -> Iterator[Case]:
    """A case of all forms for every pair of types; those of one operand for pairs of one type."""
    for left in KINDS:
        for right in KINDS:
            forms = [k for k, form in enumerate(FORMS) if left == right or "y" in form.names]
            yield {"left": left, "right": right, "forms": forms, "compiled": compiled}


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
    for outcome in run(case):
        row = excuse(outcome)
        if not row:
            raise Difference(str(outcome))
        EXCUSED[row] += 1


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
