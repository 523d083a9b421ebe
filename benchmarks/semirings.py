"""Matrix products over other pairs of operators, beside the bound of each pair on this machine.

The bound is what the units can do at the clock measured in the same run (peak.py): two vector
instructions per pair of elements, or the machine's integer multiply-add (dot products of bytes
where it has them). The dissertation reached 76 to 92% of it in double and 62 to 95% in single
precision for n >= 1024; our bars are 85% for every pair of floats and bool and 80% for every
integer type of the ordinary product. Integers of min_plus and max_plus are shown without a bar:
their operands are of one sign, as distances are, so that sums saturate by one instruction on Arm;
x86 has it for 8 and 16 bits only (ADR 26).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import loopwright as lw
from benchmarks.measure import (
    Bar,
    Outcome,
    Setting,
    Table,
    Times,
    check_equal,
    geometric_mean,
    race,
    seconds_by_name,
)
from benchmarks.peak import clock, integer_operations, model_operations, pair_peak
from benchmarks.peers import numba_product
from loopwright.ir.dtypes import DTYPES
from loopwright.machines.host import host
from loopwright.semirings import SEMIRINGS

__all__ = ["run"]

PAIRS = ("min_plus", "max_plus", "max_times", "min_times", "min_max", "max_min")
WHOLE_PAIRS = ("min_plus", "max_plus")
WHOLE_TYPES = ("int32", "int8")
SIZES = (512, 1024, 2048)
QUICK_SIZES = (256,)
PAIR_BAR, INTEGER_BAR = 0.85, 0.80
MOST_FOR_NUMBA = 1024  # beyond, plain loops only cost time
CHECKED_ROWS = 4
# Operands, accum_dtype, and how they are called in the table; the first is what others are beside.
TYPES = (
    ("float32", None, "float32"),
    ("int32", None, "int32"),
    ("int16", "int32", "int16 to int32"),
    ("int8", "int32", "int8 to int32"),
    ("uint8", "int32", "uint8 to int32"),
    ("float16", None, "float16"),
    ("float16", "float16", "float16, summed so"),
)
_FUNCTIONS: dict[Any, np.ufunc] = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.logical_and,
    "or": np.logical_or,
}


def run(setting: Setting) -> Outcome:
    """Race the pairs, then the element types of the ordinary product."""
    pairs = _pairs(setting)
    types = _types(setting)
    bars = [
        Bar("share of the bound, worst pair", min(_barred_shares(pairs)), PAIR_BAR),
        Bar(
            "share of the bound, worst integer type",
            min(row["share"] for row in types if row["share"] is not None),
            INTEGER_BAR,
        ),
    ]
    if "fp16" in host().features:
        half, single = (
            next(row["gops"] for row in types if row["product"] == name)
            for name in ("float16, summed so", "float32")
        )
        bars.append(Bar("float16 beside float32", half / single, 1.0))
    return Outcome((*pairs, *types), tuple(bars))


def _pairs(setting: Setting) -> list[dict[str, Any]]:
    columns = (
        ("pair", "10s"),
        ("dtype", "8s"),
        ("n", "5d"),
        ("Gop/s", "8.2f"),
        ("bound", "8.2f"),
        ("share", "7.1%"),
        ("numba", "8.2f"),
        ("times numba", "8.2f"),
    )
    table = Table(columns)
    print(table.head())
    work = [(name, dtype) for name in PAIRS for dtype in ("float64", "float32")]
    rows = []
    whole = [(name, dtype) for name in WHOLE_PAIRS for dtype in WHOLE_TYPES]
    for name, dtype in [*work, ("or_and", "bool"), *whole]:
        for n in QUICK_SIZES if setting.quick else SIZES:
            row = _pair_row(name, dtype, n, setting)
            rows.append(row)
            shown = (row["gops"], row["bound"], row["share"], row["numba"], row["times_numba"])
            print(table.row(name, dtype, n, *shown), flush=True)
    shares = _barred_shares(rows)
    for words, value in (("mean", geometric_mean(shares)), ("worst", min(shares))):
        print(table.row(words, None, None, None, None, value, None, None))
    return rows


def _barred_shares(pairs: list[dict[str, Any]]) -> list[float]:
    """Shares of the rows that are held to the bar for pairs."""
    return [row["share"] for row in pairs if row["dtype"] not in WHOLE_TYPES]


def _pair_row(name: str, dtype: str, n: int, setting: Setting) -> dict[str, Any]:
    ring = SEMIRINGS[name]
    plus, times = str(ring.plus), str(ring.times)
    a, b = _operands(name, dtype, n, setting.seed)
    # As for the loops of numba: pages that are new to every call would be measured, too.
    out = lw.einsum("ik,kj->ij", a, b, semiring=name)
    _check_rows(out, plus, times, a, b)
    in_loop = "add_sat" if dtype in WHOLE_TYPES else times
    peak, cycles = pair_peak(plus, in_loop, dtype), clock()
    runs = {
        "loopwright": lambda: lw.einsum("ik,kj->ij", a, b, semiring=name, out=out),
        "registers": peak.run,
        "clock": cycles.run,
    }
    zero = ring.zero(DTYPES[dtype])
    if n <= MOST_FOR_NUMBA and (loops := numba_product(plus, times, a, b, zero, dtype)):
        _check_rows(loops(), plus, times, a, b)
        runs["numba"] = loops
    found = race(runs, setting, rounds=2 if n > 1024 else None)
    gops = 2e-9 * n**3 / found["loopwright"].best
    hertz = cycles.amount / found["clock"].best
    in_registers = peak.amount / found["registers"].best
    bound = 1e-9 * max(in_registers, hertz * model_operations(plus, in_loop, dtype))
    numba = _rate(found, "numba", n)
    return {
        "pair": name,
        "dtype": dtype,
        "n": n,
        "seconds": seconds_by_name(found),
        "gops": gops,
        "bound": bound,
        "gops_in_registers": 1e-9 * in_registers,
        "clock_hz": hertz,
        "share": gops / bound,
        "numba": numba,
        "times_numba": None if numba is None else gops / numba,
    }


def _types(setting: Setting) -> list[dict[str, Any]]:
    n = 256 if setting.quick else 1024
    columns = (
        ("sum of products", "20s"),
        ("n", "5d"),
        ("Gop/s", "8.2f"),
        ("bound", "8.2f"),
        ("share", "8.1%"),
        ("times float32", "8.2f"),
        ("numba", "8.2f"),
        ("times numba", "8.2f"),
    )
    table = Table(columns)
    print(table.head())
    rows: list[dict[str, Any]] = []
    for dtype, wide, words in TYPES:
        row = _type_row(dtype, wide, n, setting) | {"product": words}
        rows.append(row)
        beside = row["gops"] / rows[0]["gops"]
        shown = (row["gops"], row["bound"], row["share"], beside, row["numba"], row["times_numba"])
        print(table.row(words, n, *shown), flush=True)
    return rows


def _type_row(dtype: str, wide: str | None, n: int, setting: Setting) -> dict[str, Any]:
    # Zeros and ones: sums up to 2048 are exact in every type, float16 included.
    rng = np.random.default_rng(setting.seed)
    a, b = (rng.integers(0, 2, (n, n)).astype(dtype) for _ in range(2))
    result = lw.einsum("ik,kj->ij", a, b, accum_dtype=wide)
    _check_rows(result.astype(np.float64), "add", "mul", *(x.astype(np.float64) for x in (a, b)))
    out = result.copy()
    runs = {"loopwright": lambda: lw.einsum("ik,kj->ij", a, b, accum_dtype=wide, out=out)}
    # numba knows no float16 arithmetic on processors
    if dtype != "float16" and (loops := numba_product("add", "mul", a, b, 0, result.dtype)):
        check_equal(loops(), result)
        runs["numba"] = loops
    ticks = clock()
    found = race(runs | {"clock": ticks.run}, setting)
    gops, numba = 2e-9 * n**3 / found["loopwright"].best, _rate(found, "numba", n)
    hertz = ticks.amount / found["clock"].best
    bound = integer_operations(dtype) * hertz / 1e9 if np.dtype(dtype).kind in "iu" else None
    return {
        "dtype": dtype,
        "accum_dtype": wide,
        "bound": bound,
        "share": None if bound is None else gops / bound,
        "n": n,
        "seconds": seconds_by_name(found),
        "gops": gops,
        "numba": numba,
        "times_numba": None if numba is None else gops / numba,
    }


def _rate(found: dict[str, Times], name: str, n: int) -> float | None:
    return 2e-9 * n**3 / found[name].best if name in found else None


def _operands(name: str, dtype: str, n: int, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        first, second = (rng.random((n, n)) < 1.5 / np.sqrt(n) for _ in range(2))
    elif dtype in WHOLE_TYPES:
        # Sums of two stay inside every type: wrapping loops, which are the peers, agree.
        sign = 1 if name == "min_plus" else -1
        first, second = ((sign * rng.integers(0, 50, (n, n))).astype(dtype) for _ in range(2))
    else:
        first, second = (rng.uniform(0.1, 1.0, (n, n)).astype(dtype) for _ in range(2))
    return first, second


def _check_rows(result: Any, plus: str, times: str, a: Any, b: Any) -> None:
    """Compare some rows with NumPy: these products are exact, whatever the order of the sums."""
    for i in np.linspace(0, len(a) - 1, CHECKED_ROWS).astype(int):
        right = _FUNCTIONS[plus].reduce(_FUNCTIONS[times](a[i][:, None], b), axis=0)
        check_equal(result[i], right)
