"""Random einsums: one to five operands, every dtype, semiring and layout, out of every kind.

Most cases use a pattern of subscripts that was drawn before, with other sizes and strides: code is
compiled once and serves many layouts, so that a long run fills every cache of layouts many times.
Some cases are repeated later, in other memory. Numbers are small integers, so that floating sums
are exact in any order and results must be equal bit by bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod
from typing import Any

import numpy as np

import loopwright as lw
from einsum_oracle import OPERATORS, accumulator_of, oracle
from loopwright.ir.dtypes import DTYPES
from loopwright.semirings import SEMIRINGS
from outside.campaigns.campaign import Campaign, Case, Difference, Random, Unjudged, chance, pick

SIZES = (0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 64)
MOST_POINTS = (300, 3000, 3000, 60_000)
STEPS = (1, 1, 1, 1, 1, 2, 3, -1, -1, -2, 0)
OUTS = ("none", "none", "none", "C", "F", "gaps", "reversed", "operand", "operand reversed")
MOST_PATTERNS, MOST_CASES = 150, 4000
# Semirings whose integers saturate are given numbers that do not reach the ends of their type: what
# happens there is what tests of the semirings are about.
SUMS, PRODUCTS = ("min_plus", "max_plus"), ("min_times", "max_times")


class Einsums:
    """Draws cases; remembers patterns and cases to use them again."""

    def __init__(self) -> None:
        self.patterns: list[tuple[list[str], str, str, list[str]]] = []
        self.cases: list[Case] = []

    def draw(self, random: Random) -> Case:
        if self.cases and chance(random, 10):
            return dict(self.cases[int(random.integers(len(self.cases)))])
        if len(self.patterns) < 8 or chance(random, 12):
            self.patterns.append(_pattern(random))
            del self.patterns[:-MOST_PATTERNS]
        terms, out, semiring, dtypes = self.patterns[int(random.integers(len(self.patterns)))]
        sizes = _sizes(random, sorted(set("".join(terms))))
        case: Case = {
            "terms": terms,
            "out": out,
            "sizes": sizes,
            "semiring": semiring,
            "operands": [_operand(random, t, d) for t, d in zip(terms, dtypes, strict=True)],
            "threads": int(random.integers(1, 5)),
            "into": pick(random, *OUTS),
            "accumulate": chance(random, 3),
        }
        self.cases.append(case)
        del self.cases[:-MOST_CASES]
        return case


def _pattern(random: Random) -> tuple[list[str], str, str, list[str]]:
    count = pick(random, 1, 1, 2, 2, 2, 2, 3, 3, 4, 5)
    letters = "abcdef"[: int(random.integers(1, 7))]
    terms = []
    for _ in range(count):
        length = int(random.integers(0, 5))
        again = chance(random, 6)
        some = random.choice(list(letters), min(length, 99 if again else len(letters)), again)
        terms.append("".join(some))
    used = random.permutation(sorted(set("".join(terms))))
    out = "".join(used[: int(random.integers(0, len(used) + 1))])
    semiring = "plus_times" if chance(random, 2) else pick(random, *sorted(OPERATORS))
    known = [d for d in DTYPES if DTYPES[d].kind in SEMIRINGS[semiring].kinds]
    common = pick(random, *known)
    dtypes = [pick(random, *known) if chance(random, 8) else common for _ in terms]
    return terms, out, semiring, dtypes


def _sizes(random: Random, letters: list[str]) -> dict[str, int]:
    room = pick(random, *MOST_POINTS)
    sizes: dict[str, int] = {}
    for c in random.permutation(letters):
        sizes[str(c)] = int(pick(random, *(n for n in SIZES if n <= max(1, room))))
        room //= max(1, sizes[str(c)])
    return sizes


def _operand(random: Random, term: str, dtype: str) -> Case:
    """How an operand lies in memory: the order of its axes there, a step along each, a shift."""
    return {
        "dtype": dtype,
        "ones": sorted({c for c in term if chance(random, 12)}),  # axes that broadcast
        "order": [int(k) for k in random.permutation(len(term))],
        "steps": [int(pick(random, *STEPS)) for _ in term],
        "shift": int(pick(random, 0, 0, 0, 0, 0, 1, 8)),  # bytes from an aligned address
        "seed": int(random.integers(1000)),
    }


def array_of(case: Case, position: int) -> np.ndarray:
    """An operand of a case, in memory of its own."""
    term, operand = case["terms"][position], case["operands"][position]
    shape = [1 if c in operand["ones"] else case["sizes"][c] for c in term]
    steps, order = operand["steps"], operand["order"]
    dtype = np.dtype(operand["dtype"])
    stored = [max(1, n * abs(s)) if s else min(n, 1) for n, s in zip(shape, steps, strict=True)]
    extents = [stored[k] for k in order]
    memory = np.zeros(prod(extents) * dtype.itemsize + operand["shift"], np.uint8)
    view = np.frombuffer(memory.data, dtype, prod(extents), operand["shift"]).reshape(extents)
    view = view.transpose(np.argsort(order)) if term else view
    view[...] = numbers(np.random.default_rng(operand["seed"]), stored, dtype, case)
    for axis, (n, step) in enumerate(zip(shape, steps, strict=True)):
        if step:
            chosen = slice(None, None, step) if n else slice(0, 0)
            view = view[(slice(None),) * axis + (chosen,)]
    return np.broadcast_to(view, shape) if 0 in steps else view


def numbers(random: Random, shape: list[int], dtype: np.dtype, case: Case) -> np.ndarray:
    """Numbers whose sums of products are exact; integers of the whole type where sums wrap."""
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(bool)
    common = np.result_type(*(operand["dtype"] for operand in case["operands"]))
    if common.kind in "iu":
        limits = np.iinfo(dtype)
        low, high = int(limits.min), int(limits.max)
        if case["semiring"] in SUMS:
            low, high = low // 16, high // 16
        if case["semiring"] in PRODUCTS:
            high = int(np.iinfo(common).max ** (1 / len(case["terms"])) * 0.99)
            high = min(high, int(limits.max))
            low = -high if low else 0
        return random.integers(low, high, shape, dtype=dtype, endpoint=True)
    bound = _bound(case, common)
    least = 0 if dtype.kind == "u" else -bound
    found = random.integers(least, bound, shape, endpoint=True).astype(dtype)
    if dtype.kind == "c":
        found = found + 1j * random.integers(-bound, bound, shape, endpoint=True).astype(dtype)
    return np.asarray(found, dtype)


def _bound(case: Case, common: np.dtype) -> int:
    """The largest magnitude for which every sum of products is exact in the result's type."""
    points = prod(max(1, n) for n in case["sizes"].values())
    largest = 2 if common.kind == "c" else 1  # of a product of factors of magnitude 1, per factor
    for bound in (3, 2, 1):
        if points * (bound * largest) ** len(case["terms"]) < 2 ** np.finfo(common).nmant:
            return bound
    raise Unjudged("sums too large to be exact")


def target_of(case: Case, expected: np.ndarray, arrays: list[np.ndarray]) -> Any:
    """The array to pass as out, holding the first values of an accumulation; None for none."""
    into = case["into"]
    if into.startswith("operand"):
        like = [a for a in arrays if a.shape == expected.shape and a.dtype == expected.dtype]
        like = [a for a in like if a.flags.writeable and a.ndim]
        if not like:
            return None
        return like[0][::-1] if into.endswith("reversed") else like[0]
    if into == "none":
        return None
    first = np.random.default_rng(1).integers(0, 2, expected.shape).astype(expected.dtype)
    if into in "CF":
        return np.array(first, order=into)
    if not expected.ndim:
        return first
    step = 2 if into == "gaps" else -1
    memory = np.zeros([n * abs(step) for n in expected.shape], expected.dtype)
    view = memory[(slice(None, None, step),) * expected.ndim]
    view[...] = first
    return view


def check(case: Case) -> None:
    arrays = [array_of(case, k) for k in range(len(case["terms"]))]
    text = f"{','.join(case['terms'])}->{case['out']}"
    if np.result_type(*arrays).kind not in SEMIRINGS[case["semiring"]].kinds:
        raise Unjudged("dtypes whose common type the semiring does not take")
    expected = oracle(text, *arrays, semiring=case["semiring"])
    before = [a.copy() for a in arrays]
    out = target_of(case, expected, arrays)
    accumulates = out is not None and case["accumulate"]
    if accumulates:
        expected = _joined(case["semiring"], out.copy(), expected)
    keywords = {} if out is None else {"out": out, "accumulate": accumulates}
    found = lw.einsum(text, *arrays, semiring=case["semiring"], threads=case["threads"], **keywords)
    if out is not None and found is not out:
        raise Difference("the result is not out")
    _compare(np.asarray(found), expected)
    for k, (array, old) in enumerate(zip(arrays, before, strict=True)):
        overlaps = out is not None and case["into"].startswith("operand")
        if not overlaps and not np.array_equal(array, old):
            raise Difference(f"operand {k} has changed")


def _joined(semiring: str, old: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """What accumulating into `old` gives."""
    join = {"min": np.minimum, "max": np.maximum, "or": np.bitwise_or, "xor": np.bitwise_xor}
    wide = accumulator_of(expected.dtype)
    with np.errstate(all="ignore"):
        total = join.get(OPERATORS[semiring][0], np.add)(old.astype(wide), expected.astype(wide))
        return np.asarray(total).astype(expected.dtype)


def _compare(found: np.ndarray, expected: np.ndarray) -> None:
    if found.shape != expected.shape:
        raise Difference(f"shape {found.shape}, not {expected.shape}")
    if found.dtype != expected.dtype:
        raise Difference(f"dtype {found.dtype}, not {expected.dtype}")
    wrong = np.argwhere(np.atleast_1d(found != expected))
    if len(wrong):
        place = tuple(int(k) for k in wrong[0])
        values = np.atleast_1d(found)[place], np.atleast_1d(expected)[place]
        raise Difference(
            f"{len(wrong)} elements differ: the one at {place} is {values[0]}, not {values[1]}"
        )


def smaller(case: Case) -> Iterator[Case]:
    """Fewer operands, letters, threads and points; then plainer types, layouts and sizes."""
    change = partial(_changed, case)
    for k in range(len(case["terms"])) if len(case["terms"]) > 1 else ():
        terms = case["terms"][:k] + case["terms"][k + 1 :]
        left = set("".join(terms))
        yield change(
            terms=terms,
            operands=case["operands"][:k] + case["operands"][k + 1 :],
            out="".join(c for c in case["out"] if c in left),
            sizes={c: n for c, n in case["sizes"].items() if c in left},
        )
    for c in case["sizes"]:
        yield _without(case, c)
    if case["threads"] > 1:
        yield change(threads=1)
        yield change(threads=2)
    if case["into"] != "none":
        yield change(into="none", accumulate=False)
    if case["accumulate"]:
        yield change(accumulate=False)
    if case["semiring"] != "plus_times":
        yield change(semiring="plus_times")
    plain = {"shift": 0, "ones": [], "dtype": "float64"}
    for k, operand in enumerate(case["operands"]):
        term = case["terms"][k]
        ways = {**plain, "order": list(range(len(term))), "steps": [1] * len(term)}
        for field, value in ways.items():
            if operand[field] != value:
                others = case["operands"][:k], case["operands"][k + 1 :]
                yield change(operands=[*others[0], {**operand, field: value}, *others[1]])
    for c, n in case["sizes"].items():
        for fewer in (1, 2, n // 2, n - 1):
            if 0 < fewer < n:
                yield change(sizes={**case["sizes"], c: fewer})


def _changed(case: Case, **changes: Any) -> Case:
    return {**case, **changes}


def _without(case: Case, letter: str) -> Case:
    operands = []
    for term, operand in zip(case["terms"], case["operands"], strict=True):
        kept = [k for k, c in enumerate(term) if c != letter]
        order = [kept.index(k) for k in operand["order"] if k in kept]
        steps = [operand["steps"][k] for k in kept]
        ones = [c for c in operand["ones"] if c != letter]
        operands.append({**operand, "order": order, "steps": steps, "ones": ones})
    return _changed(
        case,
        terms=[t.replace(letter, "") for t in case["terms"]],
        out=case["out"].replace(letter, ""),
        sizes={c: n for c, n in case["sizes"].items() if c != letter},
        operands=operands,
    )


def campaign() -> Campaign:
    return Campaign("einsums", Einsums().draw, check, smaller)
