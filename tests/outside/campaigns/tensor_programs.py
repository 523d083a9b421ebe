"""Random programs that look like tensor programs, as Python and as C, on three roads.

One to three contractions in a row, each of three to six loops: batch loops, an initial value, an
epilogue (bias, scale, ReLU), offsets, triangles, sums kept in a scalar, nests in any order, sizes
as arguments or as numbers in the text. The meaning is that of the Python text, run by Python.
Numbers are small integers, so that sums are exact in any order.

The roads: `lw.jit` of the Python text, `lw.compile` of the C text, and the C that `loopwright cc`
makes of it, compiled by the system's compiler.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

import loopwright as lw
from frontends.kernels import define
from loopwright.cli import main
from loopwright.runtime.thread_pool import num_threads
from outside.campaigns.campaign import Campaign, Case, Difference, Random, Unjudged, chance, pick
from outside.campaigns.program_text import c_text, python_text

ROADS = ("jit", "jit", "c", "c", "cc")
DTYPES = ("float64", "float64", "float64", "float32", "int32", "int64")
SIZES = (1, 2, 3, 3, 4, 5, 6, 7, 9, 17)
MOST_POINTS = 4000  # of one contraction: Python runs it too
EXACT = 2.0**20  # results below are sums of exact numbers, whatever their order
LETTERS = "bijklm"


def draw(random: Random) -> Case:
    sizes = {c: int(pick(random, *SIZES)) for c in LETTERS}
    case: Case = {
        "road": pick(random, *ROADS),
        "dtype": pick(random, *DTYPES),
        "literal": chance(random, 3),
        "threads": int(random.integers(1, 4)),
        "sizes": sizes,
        "arrays": {},
        "scalars": {"alpha": 2, "beta": 3},
        "body": [],
        "seed": int(random.integers(1000)),
    }
    previous = None
    for stage in range(int(pick(random, 1, 1, 2, 2, 3))):
        previous = _stage(random, case, stage, previous)
    return case


def _stage(random: Random, case: Case, stage: int, previous: list[str] | None) -> list[str]:
    """Add a contraction; return the letters of its result."""
    sizes, arrays = case["sizes"], case["arrays"]
    letters = [str(c) for c in random.permutation(list(LETTERS))]
    if previous is None:
        count = int(random.integers(2, 4))
        out, summed = letters[:count], letters[count : count + int(random.integers(1, 3))]
        left = [*[c for c in out if chance(random, 2)], *summed]
    else:
        left = list(previous)
        summed = [c for c in left if chance(random, 2)][:2]
        more = [c for c in letters if c not in left][: int(random.integers(1, 3))]
        out = [c for c in left if c not in summed] + more
    while prod(sizes[c] for c in [*out, *summed]) > MOST_POINTS:
        largest = max([*out, *summed], key=lambda c: sizes[c])
        sizes[largest] = max(1, sizes[largest] // 2)
    shared = [c for c in out if c in left and chance(random, 3)]  # batch loops
    right = [*shared, *[c for c in out if c not in left], *summed]
    right = [str(c) for c in random.permutation(right)]
    out = [str(c) for c in random.permutation(out)]
    triangle = _triangle(random, sizes, [*out, *summed])
    name, first, second = f"C{stage}", f"A{stage}", f"B{stage}"
    if previous is None:
        left = [str(c) for c in random.permutation(left)]
        read = _operand(random, arrays, first, left)
    else:
        read = ["load", f"C{stage - 1}", list(previous)]
    factor = _operand(random, arrays, second, right) if right else ["scalar", "alpha"]
    arrays[name] = [[c, 0] for c in out]
    target = ["load", name, out]
    case["body"] += _nests(random, case, target, summed, read, factor, triangle)
    return out


def _operand(random: Random, arrays: dict[str, Any], name: str, letters: list[str]) -> list[Any]:
    """Declare an array over letters, read at places that may be shifted by one."""
    shifts = [int(chance(random, 8)) for _ in letters]
    arrays[name] = [[c, shift] for c, shift in zip(letters, shifts, strict=True)]
    subscripts = [f"{c}+1" if shift else c for c, shift in zip(letters, shifts, strict=True)]
    return ["load", name, subscripts]


def _triangle(random: Random, sizes: dict[str, int], letters: list[str]) -> dict[str, str]:
    """Perhaps one loop that ends at another's variable: letter -> the other letter."""
    if len(letters) < 2 or not chance(random, 4):
        return {}
    inner, outer = random.choice(letters, 2, replace=False)
    sizes[str(inner)] = max(sizes[str(inner)], sizes[str(outer)])
    if prod(sizes[c] for c in letters) > 4 * MOST_POINTS:
        sizes[str(inner)] = sizes[str(outer)] = 3
    return {str(inner): str(outer)}


def _nests(
    random: Random,
    case: Case,
    target: list[Any],
    summed: list[str],
    read: list[Any],
    factor: list[Any],
    triangle: dict[str, str],
) -> list[Any]:
    """The loops of one contraction, with its initial value and epilogue where they may stand."""
    out = target[2]
    first = _initial(random, case, target)
    last = _epilogue(random, case, target)
    product = ["*", read, factor]
    if chance(random, 6):
        product = ["*", ["scalar", "alpha"], product]
    is_least = chance(random, 10)
    if is_least:
        update = ["set", target, ["min", target, ["+", read, factor]]]
    else:
        update = ["set", target, ["+", target, product]]
    place = pick(random, "inside", "inside", "apart", "scalar")
    if place == "scalar" and not is_least:
        total = ["local", "s"]
        inner = _loops(summed, [["set", total, ["+", total, product]]], triangle, random)
        start = ["set", total, first[2] if first else 0]
        value = total if not last else _put(last[2], target, total)
        return _loops(out, [start, *inner, ["set", target, value]], triangle, random)
    if place != "apart":
        inner = _loops(summed, [update], triangle, random)
        whole = [*([first] if first else []), *inner, *([last] if last else [])]
        return _loops(out, whole, triangle, random)
    # The first and last values may cover more than the triangle that is summed up.
    found = _loops(out, [first], {}, random) if first else []
    found += _loops([*out, *summed], [update], triangle, random)
    return found + (_loops(out, [last], {}, random) if last else [])


def _initial(random: Random, case: Case, target: list[Any]) -> list[Any] | None:
    match pick(random, "zero", "zero", "bias", "scaled", "none"):
        case "zero":
            return ["set", target, 0]
        case "bias":
            return ["set", target, _bias(case, target)]
        case "scaled":
            return ["set", target, ["*", ["scalar", "beta"], target]]
    return None


def _epilogue(random: Random, case: Case, target: list[Any]) -> list[Any] | None:
    match pick(random, "none", "none", "relu", "scale", "bias", "all"):
        case "relu":
            return ["set", target, ["relu", target]]
        case "scale":
            return ["set", target, ["*", ["scalar", "alpha"], target]]
        case "bias":
            return ["set", target, ["+", target, _bias(case, target)]]
        case "all":
            scaled = ["*", ["scalar", "alpha"], target]
            shifted = ["set", target, ["+", scaled, _bias(case, target)]]
            return [*shifted[:2], ["relu", shifted[2]]] if target[2] else shifted
    return None


def _bias(case: Case, target: list[Any]) -> list[Any]:
    letter = target[2][-1]
    case["arrays"][f"bias_{letter}"] = [[letter, 0]]
    return ["load", f"bias_{letter}", [letter]]


def _put(tree: Any, old: list[Any], new: list[Any]) -> Any:
    """An expression with one part replaced."""
    if tree == old:
        return new
    return [_put(x, old, new) for x in tree] if isinstance(tree, list) else tree


def _loops(letters: list[str], body: list[Any], triangle: dict[str, str], random: Random) -> list:
    """The body under loops over letters, in any order in which bounds are known."""
    order = [str(c) for c in random.permutation(letters)] if letters else []
    for inner, outer in triangle.items():
        if inner in order and outer in order and order.index(inner) < order.index(outer):
            a, b = order.index(inner), order.index(outer)
            order[a], order[b] = order[b], order[a]
    for c in reversed(order):
        body = [["for", c, triangle.get(c), body]]
    return body


def _mended(
    body: list[Any], sizes: dict[str, int], known: frozenset[str] = frozenset()
) -> list[Any]:
    """The body with triangles only where the other loop is around, and no longer than its own."""
    found = []
    for node in body:
        if node[0] != "for":
            found.append(node)
            continue
        _, letter, bound, inner = node
        kept = bound if bound in known and sizes[bound] <= sizes[letter] else None
        found.append(["for", letter, kept, _mended(inner, sizes, known | {letter})])
    return found


def arguments(case: Case) -> dict[str, Any]:
    """The arguments of the function by name: sizes unless literal, scalars, arrays."""
    random = np.random.default_rng(case["seed"])
    kind = int if case["dtype"].startswith("int") else float
    found: dict[str, Any] = {}
    if not case["literal"]:
        found |= {f"n{c}": n for c, n in case["sizes"].items()}
    found |= {name: kind(value) for name, value in case["scalars"].items()}
    for name, dimensions in case["arrays"].items():
        shape = [case["sizes"][c] + shift for c, shift in dimensions]
        found[name] = random.integers(-1, 3, shape).astype(case["dtype"])
    return found


def check(case: Case) -> None:
    case = {**case, "body": _mended(case["body"], case["sizes"])}
    expected, found = arguments(case), arguments(case)
    with np.errstate(all="ignore"):
        define(python_text(case))(*expected.values())
    arrays = list(case["arrays"])
    if any(np.abs(expected[name]).max(initial=0) > EXACT for name in arrays):
        raise Unjudged("numbers too large to be exact")
    usual = num_threads()
    lw.set_num_threads(case["threads"])
    try:
        ROAD[case["road"]](case, found)
    finally:
        lw.set_num_threads(usual)
    for name in arrays:
        if not np.array_equal(found[name], expected[name]):
            text = python_text(case) if case["road"] == "jit" else c_text(case)
            raise Difference(f"{name} differs after {case['road']} of\n{text}")


def _by_jit(case: Case, values: dict[str, Any]) -> None:
    lw.jit(define(python_text(case)))(*values.values())


def _by_compile(case: Case, values: dict[str, Any]) -> None:
    lw.compile(c_text(case))(*values.values())


def _by_cc(case: Case, values: dict[str, Any]) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise Unjudged("no C compiler")
    with tempfile.TemporaryDirectory() as name:
        source, output, library = (Path(name, x) for x in ("kernel.c", "kernel.opt.c", "kernel.so"))
        source.write_text(c_text(case), encoding="utf-8")
        told = io.StringIO()
        with contextlib.redirect_stderr(told), contextlib.redirect_stdout(told):
            status = main(["cc", str(source), "-o", str(output)])
        if status != 0:
            raise lw.UsageError(told.getvalue().strip().splitlines()[0])
        flags = ["-O1", "-shared", "-fPIC", "-fopenmp", "-std=gnu11"]
        subprocess.run([compiler, *flags, str(output), "-o", str(library)], check=True)
        loaded = ctypes.CDLL(str(library))
        if hasattr(loaded, "omp_set_num_threads"):  # a region may have been left as it is
            loaded.omp_set_num_threads(case["threads"])
        loaded.kernel(*(as_c(value, case["dtype"]) for value in values.values()))


def as_c(value: Any, dtype: str) -> Any:
    """An argument as ctypes passes it to the C text."""
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    if isinstance(value, float):
        return ctypes.c_float(value) if dtype == "float32" else ctypes.c_double(value)
    return ctypes.c_int64(value)


ROAD = {"jit": _by_jit, "c": _by_compile, "cc": _by_cc}


def smaller(case: Case) -> Iterator[Case]:
    """Fewer statements and loops; then fewer threads, plainer types and smaller sizes."""
    for body in _fewer(case["body"]):
        if body:
            yield _used({**case, "body": body})
    for field, plain in (("threads", 1), ("literal", False), ("dtype", "float64")):
        if case[field] != plain:
            yield {**case, field: plain}
    for c, n in case["sizes"].items():
        for less in (1, 2, n // 2, n - 1):
            if 0 < less < n:
                yield {**case, "sizes": {**case["sizes"], c: less}}


def _fewer(body: list[Any]) -> Iterator[list[Any]]:
    """The body without one of its nodes, or with one that is simpler."""
    for k, node in enumerate(body):
        yield [*body[:k], *body[k + 1 :]]
        if node[0] == "for":
            if node[2] is not None:
                yield [*body[:k], ["for", node[1], None, node[3]], *body[k + 1 :]]
            for inner in _fewer(node[3]):
                if inner:
                    yield [*body[:k], [*node[:3], inner], *body[k + 1 :]]
        elif isinstance(node[2], list) and node[2][0] in ("relu", "+", "*", "min"):
            for part in node[2][1:]:
                yield [*body[:k], [*node[:2], part], *body[k + 1 :]]


def _used(case: Case) -> Case:
    """The case without arrays and scalars that nothing mentions."""
    text = python_text(
        {**case, "arrays": {}, "scalars": {}, "body": _mended(case["body"], case["sizes"])}
    )
    arrays = {name: shape for name, shape in case["arrays"].items() if f"{name}[" in text}
    scalars = {name: value for name, value in case["scalars"].items() if name in text}
    letters = {c for shape in arrays.values() for c, _ in shape} | set(_letters(case["body"]))
    sizes = {c: n for c, n in case["sizes"].items() if c in letters}
    return {**case, "arrays": arrays, "scalars": scalars, "sizes": sizes}


def _letters(body: list[Any]) -> Iterator[str]:
    for node in body:
        if node[0] == "for":
            yield node[1]
            yield from _letters(node[3])


def campaign() -> Campaign:
    return Campaign("tensor_programs", draw, check, smaller)
