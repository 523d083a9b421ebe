"""Operators x types x boundary values in C regions, beside gcc -O0.

A case is a pair of arithmetic types and some forms: trees of operators over x and y, updates of r
that holds x before. Each form is a function of its own, with the pairs of values for which C
defines its result; those are found by `_value`, in exact integers. The results are gcc's.
"""

from __future__ import annotations

import ctypes
import math
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

import loopwright as lw
from loopwright.calls.splice import optimise_region, spliced
from loopwright.frontends.c import read_c
from loopwright.ir.interpret import interpret_program
from loopwright.ir.program import Program
from loopwright.machines.host import host
from loopwright.planner.planners import unchanged_planner
from loopwright.runtime.toolchain import build_library, load_library
from outside.campaigns.campaign import Campaign, Case, Difference, Random, accepted, chance

__all__ = ["C_FORMS", "C_TYPES", "campaign", "every_case"]

Tree: TypeAlias = Any  # "x", "y", a literal, or (operator, trees...); ("cast", type, tree)
Form: TypeAlias = tuple[str, str, Tree]  # "=", an operator before it, or "if"; type of r; value
Typed: TypeAlias = tuple[str, Any]  # a C type and a value: int, or float64 or float32 of NumPy

C_TYPES: dict[str, str] = {
    "_Bool": "bool",
    "char": "int8",
    "unsigned char": "uint8",
    "short": "int16",
    "unsigned short": "uint16",
    "int": "int32",
    "unsigned": "uint32",
    "long long": "int64",
    "unsigned long long": "uint64",
    "float": "float32",
    "double": "float64",
}
_FLOATS = ("float", "double")
_ORDER = ("int", "unsigned", "long long", "unsigned long long", "float", "double")
_LITERALS: dict[str, Typed] = {
    "1": ("int", 1),
    "-1": ("int", -1),
    "7": ("int", 7),
    "255": ("int", 255),
    "2u": ("unsigned", 2),
    "0xFFFFFFFF": ("unsigned", 0xFFFFFFFF),
    "2147483648": ("long long", 1 << 31),
    "'a'": ("int", 97),
    "0.5f": ("float", np.float32(0.5)),
    "3.0": ("double", np.float64(3.0)),
}
_ARITHMETIC, _BITS, _SHIFTS = ("+", "-", "*", "/", "%"), ("&", "|", "^"), ("<<", ">>")
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_BINARY = (*_ARITHMETIC, *_BITS, *_SHIFTS, *_COMPARISONS, "&&", "||")
_FLAGS = ("-ffp-contract=off", "-w")
COUNTED: Counter[str] = Counter()


class _Undefined(Exception):  # noqa: N818, what it is
    """C does not define this value."""


def _forms() -> Iterator[Form]:
    wide = ("long long", "double")
    for op in _BINARY:
        for into in wide if op in _ARITHMETIC else wide[:1]:
            yield "=", into, (op, "x", "y")
    for op in (*_ARITHMETIC, *_BITS, *_SHIFTS):
        yield op, "x", "y"
        yield op, "x", ("+", "y", "1")
    for op in ("<", ">"):
        yield "=", "long long", ("?", (op, "x", "y"), "x", "y")
        yield "=", "double", ("?", (op, "y", "x"), "y", "x")
        yield "=", "double", ("+", ("?", (op, "x", "y"), "x", "y"), "1")
        yield "if", "x", (op, "y", "r")
    yield "=", "long long", ("/", ("+", "x", "y"), "2u")
    yield "=", "long long", (">", ("-", "x", "y"), "-1")
    yield "=", "double", ("*", ("-", "x", "y"), ("-", "x", "y"))
    yield "=", "int", ("==", ("&", "x", "y"), "y")
    yield "=", "int", ("<", ("cast", "short", "x"), ("cast", "unsigned char", "y"))
    yield "=", "unsigned char", ("+", "x", "y")
    yield "=", "short", ("-", "x", "y")
    yield "=", "float", ("*", "x", "y")
    yield "=", "_Bool", ("-", "x", "y")
    for op in ("-", "~", "!", "+"):
        yield "=", "long long", (op, "x")
        yield "=", "double", (op, "x")
    for name in C_TYPES:
        yield "=", name, "x"
        yield "=", "double", ("cast", name, "x")
        yield "=", "long long", ("-", ("cast", name, "x"))
    for number in _LITERALS:
        for op in ("+", "-", "*", "/", "%", "<", ">=", "==", "&", "<<", ">>"):
            for tree in ((op, "x", number), (op, number, "x")):
                yield "=", "double", tree
        yield "+", "x", number
        yield "=", "int", ("?", ("<", "x", number), "x", number)


C_FORMS = tuple(_forms())


# -- C's meaning, as far as it says what is defined -----------------------------------------------


def _bits(kind: str) -> tuple[int, int]:
    """The least and greatest value of an integer type."""
    if kind == "_Bool":
        return 0, 1
    limits = np.iinfo(C_TYPES[kind])
    return int(limits.min), int(limits.max)


def _converted(value: Typed, kind: str) -> Typed:
    number = value[1]
    if kind in _FLOATS:
        return kind, np.dtype(C_TYPES[kind]).type(number)
    if kind == "_Bool":
        return kind, int(number != 0)
    low, high = _bits(kind)
    if value[0] in _FLOATS:
        if not math.isfinite(number) or not low <= math.trunc(float(number)) <= high:
            raise _Undefined
        return kind, math.trunc(float(number))
    return kind, (number - low) % (high - low + 1) + low


def _promoted(value: Typed) -> Typed:
    return value if value[0] in _ORDER else ("int", int(value[1]))


def _common(x: Typed, y: Typed) -> tuple[str, Any, Any]:
    kind = max((_promoted(v)[0] for v in (x, y)), key=_ORDER.index)
    return kind, _converted(x, kind)[1], _converted(y, kind)[1]


def _whole(kind: str, number: int) -> Typed:
    """An integer result: unsigned ones wrap, signed ones must fit."""
    low, high = _bits(kind)
    if low and not low <= number <= high:
        raise _Undefined
    return kind, number % (high + 1) if not low else number


def _value(tree: Tree, names: dict[str, Typed]) -> Typed:
    """The value of a tree; raises _Undefined where C leaves it open."""
    match tree:
        case str():
            return names[tree] if tree in names else _LITERALS[tree]
        case ("cast", kind, x):
            return _converted(_value(x, names), kind)
        case ("?", test, x, y):
            sides = _value(x, names), _value(y, names)
            kind = _common(*(_promoted(side) for side in sides))[0]
            return _converted(sides[0 if _value(test, names)[1] else 1], kind)
        case ("!", x):
            return "int", int(_value(x, names)[1] == 0)
        case (op, x):
            kind, number = _promoted(_value(x, names))
            if kind in _FLOATS:
                return kind, {"-": -number, "+": number}[op]
            return _whole(kind, {"-": -number, "+": number, "~": -1 - number}[op])
        case ("&&" | "||" as op, x, y):
            sides = [_value(side, names)[1] != 0 for side in (x, y)]
            return "int", int(all(sides) if op == "&&" else any(sides))
        case (op, x, y):
            return _operation(op, _value(x, names), _value(y, names))
    raise AssertionError(tree)


def _operation(op: str, x: Typed, y: Typed) -> Typed:
    if op in (*_SHIFTS, "%", *_BITS) and {x[0], y[0]} & {*_FLOATS}:
        raise KeyError(op)
    if op in _SHIFTS:
        (kind, number), (_, count) = _promoted(x), _promoted(y)
        low, high = _bits(kind)
        if not 0 <= count < (high - low).bit_length() or (op == "<<" and number < 0):
            raise _Undefined
        return _whole(kind, number << count if op == "<<" else number >> count)
    kind, a, b = _common(x, y)
    if op in _COMPARISONS:
        return "int", int(_COMPARISONS[op](a, b))
    if kind in _FLOATS:
        with np.errstate(all="ignore"):
            return kind, {"+": a + b, "-": a - b, "*": a * b, "/": a / b}[op]
    if op in ("/", "%"):
        if b == 0:
            raise _Undefined
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        _whole(kind, quotient)  # the least integer divided by -1 has no remainder either
        return _whole(kind, quotient if op == "/" else a - quotient * b)
    whole = {"+": a + b, "-": a - b, "*": a * b, "&": a & b, "|": a | b, "^": a ^ b}
    return _whole(kind, whole[op])


def _takes(form: Form, left: str, right: str) -> bool:
    """Whether C has the form for these types: floating numbers have no bits."""
    try:
        _result(form, (left, _one(left)), (right, _one(right)))
    except (KeyError, ValueError):
        return False
    except _Undefined:
        pass
    return True


def _one(kind: str) -> Any:
    return np.dtype(C_TYPES[kind]).type(1) if kind in _FLOATS else 1


def _result(form: Form, x: Typed, y: Typed) -> Typed:
    """What r is after a form."""
    how, into, tree = form
    kind = x[0] if into == "x" else into
    names = {"x": x, "y": y, "r": x}
    if how == "if":
        return _converted(y, kind) if _value(tree, names)[1] else x
    value = _value(tree, names)
    return _converted(value if how == "=" else _operation(how, x, value), kind)


def _values(kind: str) -> list[Any]:
    if kind in _FLOATS:
        dtype = np.dtype(C_TYPES[kind]).type
        some = [0.0, -0.0, 1.0, -2.5, 0.1, 300.0, 2.0**31, -(2.0**63), 2.0**53, math.nan, math.inf]
        return [dtype(one) for one in (*some, -math.inf, np.finfo(dtype).max, 1e-44)]
    low, high = _bits(kind)
    found = {low, low + 1, 0, 1, 3, 7, high // 2 + 1, high - 1, high, (1 << 53) + 1, -1, 31}
    return sorted(one for one in found if low <= one <= high)


# -- text -----------------------------------------------------------------------------------------


def _text(tree: Tree) -> str:
    match tree:
        case "x" | "y" | "r":
            return f"{tree}[i]"
        case str():
            return tree
        case ("cast", kind, x):
            return f"({kind}){_text(x)}"
        case ("?", test, x, y):
            return f"({_text(test)} ? {_text(x)} : {_text(y)})"
        case (op, x):
            return f"({op}{_text(x)})"
        case (op, x, y):
            return f"({_text(x)} {op} {_text(y)})"
    raise AssertionError(tree)


def c_text(case: Case) -> str:
    """A function of five lines for every form."""
    lines = []
    for number in case["forms"]:
        how, into, tree = C_FORMS[number]
        kind = case["left"] if into == "x" else into
        body = f"r[i] {'' if how == 'if' else how.removesuffix('=')}= {_text(tree)};"
        if how == "if":
            body = f"if ({_text(tree)}) r[i] = y[i];"
        head = f"void f{number}(int n, {case['left']} x[n], {case['right']} y[n], {kind} r[n]) {{"
        lines += [head, "#pragma scop", f"for (int i = 0; i < n; i++) {body}", "#pragma endscop"]
        lines += ["}"]
    return "\n".join([*lines, ""])


# -- checking -------------------------------------------------------------------------------------


def campaign() -> Campaign:
    return Campaign("c_types", _drawn, _checked, _smaller, COUNTED, every_case)


def every_case(compiled: bool = True) -> Iterator[Case]:
    """A case of all forms for every pair of types; those of x alone for every type."""
    both = [k for k, (how, _, tree) in enumerate(C_FORMS) if "y" in repr(tree)]
    one = [k for k, _ in enumerate(C_FORMS) if k not in both]
    for left in C_TYPES:
        yield {"left": left, "right": "int", "forms": one, "compiled": compiled}
    for left in C_TYPES:
        for right in C_TYPES:
            yield {"left": left, "right": right, "forms": both, "compiled": compiled}


def _drawn(random: Random) -> Case:
    left, right = (list(C_TYPES)[int(random.integers(len(C_TYPES)))] for _ in range(2))
    some = random.permutation(len(C_FORMS))[: int(random.integers(8, 40))]
    forms = sorted(map(int, some))
    return {"left": left, "right": right, "forms": forms, "compiled": chance(random, 4)}


def _checked(case: Case) -> None:
    left, right = case["left"], case["right"]
    usual = [k for k in case["forms"] if _takes(C_FORMS[k], left, right)]
    lines = [range(5 * at + 1, 5 * at + 6) for at in range(len(usual))]

    def read(some: list[int]) -> Sequence[Program]:
        return lw.parse_c(c_text({**case, "forms": some}))

    found = accepted(usual, lines, read, COUNTED)
    if found is None:
        return
    forms, programs = found
    case = {**case, "forms": forms}
    given = {k: _defined(C_FORMS[k], left, right) for k in forms}
    expected = _compiled(c_text(case), "-O0", given)
    results = {"interpreter": {}}
    for number, program in zip(forms, programs, strict=True):
        x, y, r = (side.copy() for side in given[number])
        arrays = {"x": x, "y": y, "r": r}
        used = {array.name for array in program.arrays}
        sizes = {"n": len(x)} if "n" in program.params else {}
        interpret_program(program, {name: arrays[name] for name in used}, sizes)
        results["interpreter"][number] = r
    if case["compiled"]:
        results["text"] = _compiled(_rewritten(c_text(case)), "-O1", given)
    wrong = []
    for name, all_found in results.items():
        for number, one in all_found.items():
            wrong += _differences(number, name, given[number], one, expected[number])
    COUNTED["counted: pairs of types with a form"] += 1
    COUNTED["counted: forms taken"] += len(forms)
    COUNTED["counted: values compared"] += len(results) * sum(len(x) for x, *_ in given.values())
    if wrong:
        raise Difference(f"{left} and {right}:\n" + "\n".join(wrong))


def _defined(form: Form, left: str, right: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The pairs of values for which a form is defined, and what r is before."""
    pairs = []
    with np.errstate(all="ignore"):
        for x in _values(left):
            for y in _values(right) if "y" in repr(form[2]) else [1]:
                try:
                    _result(form, (left, x), (right, y))
                except _Undefined:
                    COUNTED["counted: values that C leaves open"] += 1
                    continue
                pairs.append((x, y))
    xs = np.array([x for x, _ in pairs], C_TYPES[left])
    ys = np.array([y for _, y in pairs], C_TYPES[right])
    into = left if form[1] == "x" else form[1]
    rs = xs.copy() if form[1] == "x" else np.zeros(len(xs), C_TYPES[into])
    return xs, ys, rs


def _rewritten(source: str) -> str:
    """The text with every region written anew, in its order."""
    file = read_c(source)
    made = [
        optimise_region(file, region, unchanged_planner, host(), target="c", always=True)
        for region in file.regions
    ]
    return spliced(file, made).decode()


def _compiled(source: str, level: str, given: dict[int, Any]) -> dict[int, np.ndarray]:
    """Results of the functions of a text as the compiler makes them."""
    library = load_library(build_library(source, (level, *_FLAGS)))
    found = {}
    for number, sides in given.items():
        arrays = [side.copy() for side in sides]
        places = (ctypes.c_void_p(side.ctypes.data) for side in arrays)
        library[f"f{number}"](len(arrays[0]), *places)
        found[number] = arrays[2]
    return found


def _differences(
    number: int, name: str, given: Any, found: np.ndarray, expected: np.ndarray
) -> Iterator[str]:
    """The first value that differs: NaN is any NaN, zeros have signs."""
    xs, ys, _ = given
    same = (found == expected) | ((found != found) & (expected != expected))
    if found.dtype.kind == "f":
        same &= (np.signbit(found) == np.signbit(expected)) | (found != found)
    for at in np.flatnonzero(~same)[:1]:
        text = c_text({"left": "X", "right": "Y", "forms": [number]}).splitlines()[2]
        yield f"{text!r} by {name} with {xs[at]!r}, {ys[at]!r}: {found[at]!r}, not {expected[at]!r}"


def _smaller(case: Case) -> Iterator[Case]:
    forms = case["forms"]
    if len(forms) > 1:
        half = len(forms) // 2
        yield {**case, "forms": forms[:half]}
        yield {**case, "forms": forms[half:]}
    if case["compiled"]:
        yield {**case, "compiled": False}
