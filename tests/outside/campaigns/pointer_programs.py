"""Random C regions over two to four pointers into one buffer, wherever these lead, beside gcc -O0.

A case has the pointers, each with its type, its form (`T *p`, or `T p[n][m]`) and whether the file
keeps it in a variable; nests of one or two loops, one statement each, perhaps swept several times;
and the seed of offsets and numbers. Where a case has `count`, the bound of its outer loops is a
variable of the file that lies in the buffer too. All subscripts stay inside the buffer.

What `loopwright cc` makes of the region has to leave the same bytes as the text that was written,
for pointers that overlap in any way and for those that do not.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np

from loopwright.calls.splice import optimise_region, spliced
from loopwright.frontends.c import read_c
from loopwright.machines.host import host
from loopwright.runtime.toolchain import build_library, find_compiler, load_library
from loopwright.targets import TARGETS
from outside.campaigns.campaign import Campaign, Case, Difference, Random, chance, pick

_NAMES = "pqrs"
_KINDS = (
    ("double",),
    ("double",),
    ("float",),
    ("int", "int", "unsigned"),
    ("short", "unsigned short"),
    ("int", "unsigned", "signed char", "char"),
)
_SIZES = ((0, 3), (1, 1), (2, 5), (5, 4), (9, 7))  # n and m
_CELLS, _FIRST, _FAR = 1024, 40, 200  # of the buffer, where pointers lead at first, how far off
_FLAGS = ("-ffp-contract=off", "-fwrapv", "-w")
_RUNS = 3  # of each pair of sizes


def campaign() -> Campaign:
    return Campaign("pointer_programs", _drawn, _checked, _smaller)


# -- drawing --------------------------------------------------------------------------------------


def _drawn(random: Random) -> Case:
    has_count = chance(random, 6)
    kinds = ("int", "unsigned") if has_count else pick(random, *_KINDS)
    pointers = [
        {
            "type": pick(random, *kinds),
            "form": pick(random, "*", "*", "[n][m]"),
            "kept": chance(random, 5),
        }
        for _ in range(int(random.integers(2, 5)))
    ]
    for pointer in pointers:
        pointer["form"] = "*" if pointer["kept"] else pointer["form"]
    return {
        "target": pick(random, "c", "c", "openmp"),
        "type": kinds[0],
        "count": has_count,
        "pointers": pointers,
        "sweeps": pick(random, 0, 0, 2, 3),
        "nests": [_nest(random, pointers) for _ in range(pick(random, 1, 1, 2, 3))],
        "seed": int(random.integers(1 << 30)),
    }


def _nest(random: Random, pointers: list[Any]) -> dict[str, Any]:
    depth = pick(random, 1, 1, 2)
    return {
        "depth": depth,
        "step": pick(random, 1, 1, 2),
        "target": _element(random, pointers, depth),
        "op": pick(random, "=", "=", "+="),
        "value": _value(random, pointers, depth, 0),
    }


def _element(random: Random, pointers: list[Any], depth: int) -> list[Any]:
    """A pointer and its subscripts."""
    at = int(random.integers(len(pointers)))
    move = pick(random, "", "", " - 1", " + 1")
    inner = "j" if depth == 2 else "0"
    if pointers[at]["form"] != "*":
        column = f"j{pick(random, '', '', ' - 1')}" if depth == 2 else "m - 1"
        return [at, f"i{move}", column]
    plain = (f"i{move}", f"{inner}{move if depth == 2 else ''}", "n - i", f"2*i{move}")
    rows = (f"i*m + {inner}", f"(i{move})*m + {inner}") if depth == 2 else (f"i{move}",)
    return [at, pick(random, *plain, *rows)]


def _value(random: Random, pointers: list[Any], depth: int, level: int) -> Any:
    kind = random.random()
    if level > 2 or kind < 0.35:
        return _element(random, pointers, depth)
    if kind < 0.5:
        return pick(random, "i", "3", "j" if depth == 2 else "1")
    parts = [_value(random, pointers, depth, level + 1) for _ in range(2)]
    return [pick(random, "+", "-"), *parts]


# -- text -----------------------------------------------------------------------------------------


def c_text(case: Case) -> str:
    """The function `f` over the buffer `cells`."""
    kept, parameters = [], ["int n", "int m"]
    for name, pointer in zip(_NAMES, case["pointers"], strict=False):
        form, kind = pointer["form"], pointer["type"]
        if pointer["kept"]:
            kept.append(f"{kind} *{name};")
        else:
            parameters.append(f"{kind} *{name}" if form == "*" else f"{kind} {name}{form}")
    lines = [f"{case['type']} cells[{_CELLS}];", *kept]
    if case["count"]:
        lines.append('extern int count __attribute__((alias("cells")));')
    lines += [f"void f({', '.join(parameters)})", "{", "#pragma scop"]
    lines += [f"for (int t = 0; t < {case['sweeps']}; t++) {{"] if case["sweeps"] else []
    for nest in case["nests"]:
        stop = "count" if case["count"] else "n"
        step = "i++" if nest["step"] == 1 else "i += 2"
        lines.append(f"for (int i = 1; i < {stop}; {step})")
        if nest["depth"] == 2:
            lines.append("for (int j = 1; j < m; j++)")
        lines.append(_statement(case, nest))
    lines += ["}"] if case["sweeps"] else []
    return "\n".join([*lines, "#pragma endscop", "}", ""])


def _statement(case: Case, nest: dict[str, Any]) -> str:
    """An assignment whose value stays small, that of floating numbers too."""
    target, value = _text(nest["target"]), _text(nest["value"])
    if case["type"] in ("double", "float"):
        return f"{target} {nest['op']} ({value}) * 0.25{'f' * (case['type'] == 'float')};"
    return f"{target} = ({f'{target} + ' * (nest['op'] == '+=')}{value}) & 7;"


def _text(expression: Any) -> str:
    match expression:
        case [int(at), *subscripts]:
            return _NAMES[at] + "".join(f"[{subscript}]" for subscript in subscripts)
        case [op, x, y]:
            return f"({_text(x)} {op} {_text(y)})"
    return str(expression)


# -- checking -------------------------------------------------------------------------------------


def _checked(case: Case) -> None:
    source = c_text(case)
    built = {"gcc": build_library(source, ("-O0", *_FLAGS))}
    file = read_c(source)
    target = case["target"]
    planner = TARGETS[target].planner
    made = optimise_region(file, file.regions[0], planner, host(), target=target, always=True)
    is_parallel = target == "openmp" and find_compiler().accepts("-fopenmp")
    flags = ("-O1", *(("-fopenmp",) if is_parallel else ()), *_FLAGS)
    built[target] = build_library(spliced(file, [made]).decode(), flags)
    libraries = {name: load_library(code) for name, code in built.items()}
    random = np.random.default_rng(case["seed"])
    for n, m in _SIZES:
        for _ in range(_RUNS):
            offsets = _offsets(random, case)
            first = random.integers(0, 7, _CELLS)
            if case["count"]:
                first[0] = n - 1
            results = {
                name: _run(library, case, first, offsets, n, m)
                for name, library in libraries.items()
            }
            for name, found in results.items():
                if found != results["gcc"]:
                    where = f"n = {n}, m = {m}, offsets {offsets}"
                    raise Difference(f"other bytes by {name} at {where}\n{source}")


def _offsets(random: Random, case: Case) -> list[int]:
    """Cells between the beginning of the buffer and what each pointer leads to."""
    spread = pick(random, 0, 3, 30)
    near = [_FIRST + int(random.integers(spread + 1)) for _ in case["pointers"]]
    if case["count"] and chance(random, 2):
        near[0] = 1  # the bound is its element before the first
    if spread:
        return near
    return [start + _FAR * at for at, start in enumerate(near)]


def _run(
    library: ctypes.CDLL, case: Case, first: np.ndarray, offsets: list[int], n: int, m: int
) -> bytes:
    """The bytes of the buffer when the function has run."""
    dtype = np.dtype({"double": "f8", "float": "f4", "int": "i4", "short": "i2"}[case["type"]])
    numbers = first.astype(dtype)
    place = ctypes.addressof(ctypes.c_char.in_dll(library, "cells"))
    ctypes.memmove(place, numbers.ctypes.data, numbers.nbytes)
    given = []
    for name, pointer, offset in zip(_NAMES, case["pointers"], offsets, strict=False):
        address = place + offset * dtype.itemsize
        if pointer["kept"]:
            ctypes.c_void_p.in_dll(library, name).value = address
        else:
            given.append(ctypes.c_void_p(address))
    library["f"](n, m, *given)
    return ctypes.string_at(place, numbers.nbytes)


def _smaller(case: Case) -> Iterator[Case]:
    nests = case["nests"]
    for at in range(len(nests)):
        if len(nests) > 1:
            yield {**case, "nests": nests[:at] + nests[at + 1 :]}
    if case["sweeps"]:
        yield {**case, "sweeps": 0}
    for at, nest in enumerate(nests):
        for value in _simpler(nest["value"]):
            yield {**case, "nests": [*nests[:at], {**nest, "value": value}, *nests[at + 1 :]]}


def _simpler(expression: Any) -> Iterator[Any]:
    match expression:
        case ["+" | "-", x, y]:
            yield x
            yield y
