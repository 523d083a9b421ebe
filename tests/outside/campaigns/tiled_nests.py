"""Random C nests under `--tile`: what is tiled gives the results of gcc -O0, to the bit.

A nest has two to four loops, some of them triangles, one or two statements inside, perhaps one
between the loops, and perhaps a second nest behind it. Statements read neighbours of what they
write, another array, or add up along a loop that no subscript follows. Unsigned numbers wrap, so
that any order of sums gives the same bits.

A refusal is right if it says which dependence tiles would turn round, or that there are no two
loops directly inside each other: both are counted.
"""

from __future__ import annotations

import ctypes
import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

import loopwright as lw
from loopwright.calls.splice import optimise_region, spliced
from loopwright.frontends.c import read_c
from loopwright.machines.host import host
from loopwright.planner.planners import tile_planner
from loopwright.runtime.toolchain import build_library, load_library
from outside.campaigns.campaign import Campaign, Case, Difference, Random, chance, pick

__all__ = ["c_text", "campaign"]

SIDE = 12  # of every array; loops run from 2 to SIDE - 2
LETTERS = "ijkl"


def campaign() -> Campaign:
    counts: Counter[str] = Counter()
    return Campaign("tiled_nests", _drawn, lambda case: _checked(case, counts), _smaller, counts)


def _drawn(random: Random) -> Case:
    depth = int(pick(random, 2, 2, 3, 3, 4))
    nests = [_nest(random, depth)]
    if chance(random, 4):
        nests.append(_nest(random, int(random.integers(1, 4))))
    sizes = [int(pick(random, 1, 2, 3, 4, 5, 8, 16)) for _ in range(int(random.integers(1, 5)))]
    return {"nests": nests, "sizes": sizes, "seed": int(random.integers(1000))}


def _nest(random: Random, depth: int) -> dict[str, Any]:
    loops = []
    for at in range(depth):
        outer = int(random.integers(at)) if at and chance(random, 4) else None
        loops.append({"outer": outer, "is_down": chance(random, 12)})
    inner = [_statement(random, depth) for _ in range(int(pick(random, 1, 1, 2)))]
    between = None
    if depth > 1 and chance(random, 4):
        at = int(random.integers(1, depth))
        between = [at, _statement(random, at)]
    return {"loops": loops, "inner": inner, "between": between}


def _statement(random: Random, depth: int) -> list[Any]:
    """The array that is written, its subscripts, and terms: arrays at subscripts."""
    target = pick(random, "A", "B", "C")
    at = _subscripts(random, depth, far=False)
    terms: list[Any] = []
    for _ in range(int(random.integers(1, 4))):
        array = pick(random, "A", "B", "C")
        subscripts = _subscripts(random, depth, far=True)
        if array == target and not chance(random, 3):  # a neighbour of what is written
            shifts = [int(pick(random, -1, -1, 0, 0, 1)) for _ in at]
            subscripts = [[loop, shift] for (loop, _), shift in zip(at, shifts, strict=True)]
        terms.append([array, subscripts])
    return [target, at, terms, chance(random, 3)]


def _subscripts(random: Random, depth: int, *, far: bool) -> list[list[int]]:
    loops = [int(x) for x in random.permutation(depth)[:2]]
    loops += [loops[0]] * (2 - len(loops))
    return [
        [loop, int(random.integers(-2, 3)) if far and chance(random, 3) else 0] for loop in loops
    ]


def c_text(case: Case) -> str:
    """A function with a region of all nests."""
    lines = [
        f"void f(unsigned A[{SIDE}][{SIDE}], unsigned B[{SIDE}][{SIDE}], "
        f"unsigned C[{SIDE}][{SIDE}]) {{",
        "#pragma scop",
    ]
    for nest in case["nests"]:
        lines += _lines(nest)
    return "\n".join([*lines, "#pragma endscop", "}", ""])


def _lines(nest: dict[str, Any]) -> list[str]:
    found, depth = [], len(nest["loops"])
    for at, loop in enumerate(nest["loops"]):
        name, first, end = LETTERS[at], "2", str(SIDE - 2)
        if loop["outer"] is not None:
            end = f"{LETTERS[loop['outer']]} + 1"
        if loop["is_down"]:
            head = f"for (int {name} = {end} - 1; {name} >= {first}; {name}--)"
        else:
            head = f"for (int {name} = {first}; {name} < {end}; {name}++)"
        found.append("  " * at + head + " {")
        if nest["between"] is not None and nest["between"][0] == at + 1:
            found.append("  " * (at + 1) + _text(nest["between"][1]))
    found += ["  " * depth + _text(statement) for statement in nest["inner"]]
    return [*found, *("  " * at + "}" for at in reversed(range(depth)))]


def _text(statement: list[Any]) -> str:
    target, at, terms, is_sum = statement
    value = " + ".join(f"{k + 2}u * {_element(*term)}" for k, term in enumerate(terms))
    return f"{_element(target, at)} {'+=' if is_sum else '='} {value};"


def _element(array: str, subscripts: list[list[int]]) -> str:
    def text(loop: int, shift: int) -> str:
        return LETTERS[loop] + (f" {'-' if shift < 0 else '+'} {abs(shift)}" if shift else "")

    return array + "".join(f"[{text(*x)}]" for x in subscripts)


def _checked(case: Case, counts: Counter[str]) -> None:
    source = c_text(case)
    planner = tile_planner(case["sizes"])
    try:
        file = read_c(source)
        made = [
            optimise_region(file, region, planner, host(), target="c", assume_disjoint=True)
            for region in file.regions
        ]
    except lw.UsageError as error:
        counts[f"counted: refused: {_reason(error)}"] += 1
        raise
    counts["counted: taken"] += 1
    text = spliced(file, made).decode()
    expected, found = (_run(x, case["seed"]) for x in (source, text))
    if found != expected:
        raise Difference(f"--tile {case['sizes']} of\n{source}\ngives\n{text}")


def _reason(error: lw.UsageError) -> str:
    text = str(error)
    for known in ("would reverse", "no two loops stand directly inside each other"):
        if known in text:
            return known
    return text


def _run(text: str, seed: int) -> bytes:
    random = np.random.default_rng(seed)
    arrays = [random.integers(0, 1 << 32, (SIDE, SIDE)).astype(np.uint32) for _ in range(3)]
    library = load_library(build_library(text, ("-O0", "-std=gnu11")))
    library["f"](*(ctypes.c_void_p(x.ctypes.data) for x in arrays))
    return b"".join(x.tobytes() for x in arrays)


def _smaller(case: Case) -> Iterator[Case]:
    for at in range(len(case["nests"]) if len(case["nests"]) > 1 else 0):
        yield {**case, "nests": case["nests"][:at] + case["nests"][at + 1 :]}
    for at, nest in enumerate(case["nests"]):
        others = [{**nest, "between": None}] if nest["between"] else []
        for k, (target, place, terms, is_sum) in enumerate(nest["inner"]):
            rest = nest["inner"][:k] + nest["inner"][k + 1 :]
            others += [{**nest, "inner": rest}] if rest else []
            for fewer in itertools.combinations(terms, len(terms) - 1):
                if fewer:
                    statement = [target, place, list(fewer), is_sum]
                    others.append({**nest, "inner": [*rest[:k], statement, *rest[k:]]})
        for other in others:
            yield {**case, "nests": [*case["nests"][:at], other, *case["nests"][at + 1 :]]}
    for at in range(len(case["sizes"]) if len(case["sizes"]) > 1 else 0):
        yield {**case, "sizes": case["sizes"][:at] + case["sizes"][at + 1 :]}
