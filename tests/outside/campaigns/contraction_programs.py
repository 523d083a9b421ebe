"""Random programs made of contractions, against a C compiler: results are equal bit by bit.

The roads: `lw.jit` of the Python text, `lw.compile` of the C text, and the C that `loopwright cc`
makes of it, compiled by the system's compiler.

One to four products, each of what the one before has left: any number of batch loops, of free loops
of both factors and of summed loops; initial values (zero, a bias, what was there, that scaled);
epilogues (ReLU, scale, bias, residual); sums in an element or in a scalar, or
the least of the sums of two factors; triangles; nests that share their
outer loops or stand apart; shifted and strided subscripts, transposed operands; temporaries as
arguments or inside the function; sizes from 0 on, in arguments or in the text.

Factors of the first product have few bits, all later ones are powers of two: products are exact,
fused or not, and sums round, so that bits tell whether they were taken in the order of the source.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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

ROADS = ("c", "c", "cc", "jit")
DTYPES = ("float64", "float64", "float32", "int32", "int64")
SIZES = (1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 29, 31, 40, 67)
MOST_POINTS = 60_000  # of one product
LETTERS = "abcdefgh"
EXACT = 2**30  # sums of integers stay below

Nodes = list[Any]


@dataclass
class _Stage:
    """A product: the letters of its result and loops over all of them but those given."""

    out: list[str]
    nodes: Callable[[set[str]], Nodes]


def draw(random: Random) -> Case:
    sizes = {c: int(pick(random, *SIZES)) for c in LETTERS}
    case: Case = {
        "road": pick(random, *ROADS),
        "dtype": pick(random, *DTYPES),
        "literal": chance(random, 3),
        "threads": int(random.integers(1, 4)),
        "sizes": sizes,
        "arrays": {},
        "scalars": {"alpha": 2, "beta": 4},
        "hidden": [],
        "body": [],
        "seed": int(random.integers(1000)),
    }
    stages: list[_Stage] = []
    for number in range(int(pick(random, 1, 1, 2, 2, 3, 4))):
        stages.append(_stage(random, case, number, stages[-1].out if stages else None))
    if not case["literal"] and chance(random, 8):
        sizes[str(pick(random, *LETTERS))] = 0
    case["body"] = _joined(random, stages)
    if chance(random, 3):
        inner, outer = (str(x) for x in random.choice(list(LETTERS), 2, replace=False))
        # Of a temporary some elements may never be set.
        case |= {"body": _triangular(case["body"], inner, outer), "hidden": []}
    return case


def _triangular(body: Nodes, inner: str, outer: str) -> Nodes:
    """The body with loops over a letter that end at another's variable, where `_mended` agrees."""
    found = []
    for node in body:
        if node[0] == "for":
            _, letter, bound, inside = node
            bound = outer if letter == inner else bound
            node = ["for", letter, bound, _triangular(inside, inner, outer)]
        found.append(node)
    return found


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


def _stage(random: Random, case: Case, number: int, previous: list[str] | None) -> _Stage:
    """Add a product to a case."""
    arrays, sizes = case["arrays"], case["sizes"]
    letters = [str(c) for c in random.permutation(list(LETTERS))]
    if previous is None:
        counts = [int(random.integers(low, 3)) for low in (0, 0, 1, 1)]
        batch, rows, columns, summed = _dealt(letters, counts)
        read = _operand(random, case, "A0", [*batch, *rows, *summed])
    else:
        known = [str(c) for c in random.permutation(previous)]
        count = min(len(known), int(random.integers(1, 3)))
        summed, kept = known[:count], known[count:]
        batch, rows = _dealt(kept, [int(random.integers(0, len(kept) + 1)), len(kept)])
        columns = [c for c in letters if c not in known][: int(random.integers(1, 3))]
        read = ["load", f"C{number - 1}", list(previous)]
    every = [*batch, *rows, *columns, *summed]
    while prod(sizes[c] for c in every) > MOST_POINTS:
        largest = max(every, key=lambda c: sizes[c])
        sizes[largest] = max(1, sizes[largest] * 2 // 3)
    factor = _operand(random, case, f"B{number}", [*batch, *columns, *summed])
    out = [str(c) for c in random.permutation([*batch, *rows, *columns])]
    name = f"C{number}"
    arrays[name] = [[c, 0] for c in out]
    target = ["load", name, out]
    first, last = _initial(random, case, target), _epilogue(random, case, target)
    is_set = first is not None and "beta" not in str(first)
    if is_set and case["road"] != "jit" and chance(random, 3):
        case["hidden"].append(name)
    factors = [read, factor] if chance(random, 2) else [factor, read]
    product = ["*", *factors]
    if chance(random, 6):
        product = ["*", ["scalar", "alpha"], product]
    is_least = chance(random, 10)
    form = pick(random, "inside", "inside", "apart", "scalar")
    order = [str(c) for c in random.permutation(out)]
    inner = [str(c) for c in random.permutation(summed)]
    mixed = [str(c) for c in random.permutation([*out, *summed])]

    def nodes(around: set[str]) -> Nodes:
        own = [c for c in order if c not in around]
        update = ["set", target, ["+", target, product]]
        if is_least:
            update = ["set", target, ["min", target, ["+", *factors]]]
        if form == "scalar" and not is_least:
            total = ["local", "s"]
            start = ["set", total, first[2] if first else target]
            value = _put(last[2], target, total) if last else total
            steps = _loops(inner, [["set", total, ["+", total, product]]])
            return _loops(own, [start, *steps, ["set", target, value]])
        if form != "apart":
            whole = [first, *_loops(inner, [update]), last]
            return _loops(own, [node for node in whole if node])
        parts = [(own, first), ([c for c in mixed if c not in around], update), (own, last)]
        return [loop for loops, node in parts if node for loop in _loops(loops, [node])]

    return _Stage(out, nodes)


def _dealt(letters: list[str], counts: list[int]) -> list[list[str]]:
    """The letters one after the other, so many to each list."""
    found = []
    for count in counts:
        found.append(letters[:count])
        letters = letters[count:]
    return found


def _operand(random: Random, case: Case, name: str, letters: list[str]) -> list[Any]:
    """Declare an array over letters in any order; some of its subscripts are shifted or strided."""
    letters = [str(c) for c in random.permutation(letters)]
    shape, subscripts = [], []
    for c in letters:
        match pick(random, *["plain"] * 10, "shifted", "strided"):
            case "shifted":
                shape.append([c, 2])
                subscripts.append(f"{c}+{int(random.integers(1, 3))}")
            case "strided":
                shape.append([c, case["sizes"][c]])
                subscripts.append(f"2*{c}")
            case _:
                shape.append([c, 0])
                subscripts.append(c)
    case["arrays"][name] = shape
    return ["load", name, subscripts]


def _initial(random: Random, case: Case, target: list[Any]) -> list[Any] | None:
    match pick(random, "zero", "zero", "bias", "scaled", "none"):
        case "zero":
            return ["set", target, 0]
        case "bias":
            return ["set", target, _bias(random, case, target)]
        case "scaled":
            return ["set", target, ["*", ["scalar", "beta"], target]]
    return None


def _epilogue(random: Random, case: Case, target: list[Any]) -> list[Any] | None:
    match pick(random, "none", "none", "relu", "scale", "bias", "residual"):
        case "relu":
            return ["set", target, ["relu", target]]
        case "scale":
            return ["set", target, ["*", ["scalar", "alpha"], target]]
        case "bias":
            return ["set", target, ["+", target, _bias(random, case, target)]]
        case "residual":
            name = f"R{target[1]}"
            case["arrays"][name] = [[c, 0] for c in target[2]]
            return ["set", target, ["+", ["load", name, target[2]], target]]
    return None


def _bias(random: Random, case: Case, target: list[Any]) -> list[Any]:
    letter = str(pick(random, *target[2]))
    case["arrays"][f"bias_{letter}"] = [[letter, 0]]
    return ["load", f"bias_{letter}", [letter]]


def _put(tree: Any, old: list[Any], new: list[Any]) -> Any:
    """An expression with one part replaced."""
    if tree == old:
        return new
    return [_put(x, old, new) for x in tree] if isinstance(tree, list) else tree


def _loops(letters: list[str], body: Nodes) -> Nodes:
    for c in reversed(letters):
        body = [["for", c, None, body]]
    return body


def _joined(random: Random, stages: list[_Stage]) -> Nodes:
    """All products in a row; neighbours may share loops over letters that both results have."""
    body: Nodes = []
    while stages:
        group = [stages.pop(0)]
        shared = [c for c in group[0].out if chance(random, 2)]
        while stages and shared and (common := [c for c in shared if c in stages[0].out]):
            if not chance(random, 2):
                break
            shared = common
            group.append(stages.pop(0))
        if len(group) == 1:
            shared = []
        inside = [node for stage in group for node in stage.nodes(set(shared))]
        body += _loops(shared, inside)
    return body


def arguments(case: Case) -> dict[str, Any]:
    """The arguments of the function by name: sizes unless literal, scalars, arrays."""
    random = np.random.default_rng(case["seed"])
    kind = int if case["dtype"].startswith("int") else float
    found: dict[str, Any] = {}
    if not case["literal"]:
        found |= {f"n{c}": n for c, n in case["sizes"].items()}
    found |= {name: kind(value) for name, value in case["scalars"].items()}
    for name, dimensions in case["arrays"].items():
        if name in case["hidden"]:
            continue
        shape = [case["sizes"][c] + shift for c, shift in dimensions]
        if kind is int:
            found[name] = random.integers(-1, 2, shape).astype(case["dtype"])
            continue
        is_power = name.startswith("B") and name != "B0"
        bits = random.choice([-1, 1], shape) if is_power else random.integers(-7, 8, shape)
        found[name] = np.ldexp(bits.astype(case["dtype"]), random.integers(-9, 10, shape))
    return found


def check(case: Case) -> None:
    case = {**case, "body": _mended(case["body"], case["sizes"])}
    expected, found = arguments(case), arguments(case)
    _by_compiler(case, expected)
    arrays = [name for name in case["arrays"] if name not in case["hidden"]]
    if case["dtype"].startswith("int") and any(
        np.abs(expected[name]).max(initial=0) > EXACT for name in arrays
    ):
        raise Unjudged("numbers too large")
    usual = num_threads()
    lw.set_num_threads(case["threads"])
    try:
        ROAD[case["road"]](case, found)
    finally:
        lw.set_num_threads(usual)
    for name in arrays:
        if not np.array_equal(found[name], expected[name], equal_nan=True):
            text = python_text(case) if case["road"] == "jit" else c_text(case)
            raise Difference(f"{name} differs after {case['road']} of\n{text}")


def _by_compiler(case: Case, values: dict[str, Any]) -> None:
    """Run the C text as it is."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise Unjudged("no C compiler")
    with tempfile.TemporaryDirectory() as name:
        source, library = Path(name, "kernel.c"), Path(name, "kernel.so")
        source.write_text(c_text(case), encoding="utf-8")
        flags = ["-O1", "-w", "-shared", "-fPIC", "-std=gnu11"]
        subprocess.run([compiler, *flags, str(source), "-o", str(library)], check=True)
        loaded = ctypes.CDLL(str(library))
        loaded.kernel(*(as_c(x, case["dtype"]) for x in values.values()))


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
    """Fewer statements and loops; then fewer threads, plainer types and smaller sizes.

    Temporaries are arguments first: nothing else may take their initial values away.
    """
    if case["hidden"]:
        yield {**case, "hidden": []}
        return
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
    return Campaign("contraction_programs", draw, check, smaller)
