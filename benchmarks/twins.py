"""Formats that a user declares beside those of the table that say the same under other names.

A descriptor decides how a format is converted, validated and multiplied, not its name: a twin may
take no longer than what it is the twin of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.measure import (
    Bar,
    Outcome,
    Setting,
    Table,
    check_equal,
    geometric_mean,
    race,
    seconds_by_name,
)
from loopwright.sparse.convert_tensor import convert_tensor
from loopwright.sparse.executors.sparse_einsum import spmv
from loopwright.sparse.format import Format
from loopwright.sparse.formats import find
from loopwright.sparse.synthesis.renaming import rename_format
from loopwright.sparse.tensor import SparseTensor, sparse_tensor

__all__ = ["run"]

FORMATS = (
    "coo", "scoo", "mcoo2", "csr", "csr_unsorted", "csc", "dia", "ell(column)", "ell(row)",
    "bcsr(3,3)", "dcsr", "lil", "csf", "hicoo(128)", "alto", "sell(32,128)",
)  # fmt: skip
QUICK = ("coo", "csr", "csc", "sell(32,128)")
ROWS, QUICK_ROWS = 100_000, 10_000
OFFSETS = (-300, -1, 0, 1, 300)
COLUMNS = (
    ("format", "14s"),
    ("task", "10s"),
    ("entries", "9d"),
    ("ns/entry", "9.2f"),
    ("twin", "9.2f"),
    ("twin over built-in", "9.3f"),
)

Call = Callable[[], Any]


def run(setting: Setting) -> Outcome:
    """Race each format against its twin: to and from csr and coo, and times a vector."""
    table = Table(COLUMNS)
    print(table.head())
    rows: list[dict[str, Any]] = []
    for name in QUICK if setting.quick else FORMATS:
        for row in _rows(name, setting):
            rows.append(row)
            numbers = (row["ns"], row["twin_ns"], row["ratio"])
            print(table.row(name, row["task"], row["entries"], *numbers), flush=True)
    found = [row["ratio"] for row in rows]
    bars = (
        Bar(
            "time of a twin over that of its format, geometric mean",
            geometric_mean(found),
            1.05,
            True,
        ),
        Bar("time of a twin over that of its format, worst", max(found), 1.25, True),
    )
    return Outcome(tuple(rows), bars)


def _twin(format: Format) -> Format:
    """The format with another name for everything that has one."""
    made = rename_format(format, "my_", ("down", "across"), ("HEIGHT", "WIDTH"))
    return replace(made, name="mine")


def _matrix(setting: Setting) -> SparseTensor:
    """A band of diagonals, in order."""
    size = QUICK_ROWS if setting.quick else ROWS
    row = np.repeat(np.arange(size), len(OFFSETS))
    col = row + np.tile(OFFSETS, size)
    inside = (col >= 0) & (col < size)
    arrays = {"row": row[inside].astype(np.int32), "col": col[inside].astype(np.int32)}
    values = np.random.default_rng(setting.seed).random(int(inside.sum()))
    return sparse_tensor("coo", (size, size), arrays, values)


def _rows(name: str, setting: Setting) -> Iterator[dict[str, Any]]:
    matrix = _matrix(setting)
    plain = {"coo": matrix, "csr": convert_tensor(matrix, find("csr"))}
    own = find(name)
    mine = _twin(own)
    for other, given in plain.items():
        if name != other:
            # No conversion is asked of a tensor that has the format already.
            yield _row(f"{other} ->", matrix, setting, _into(given, own), _into(given, mine))
    source = plain["csr" if name == "coo" else "coo"]
    stored = convert_tensor(source, own), convert_tensor(source, mine)
    for other in plain:
        if name != other:
            runs = [_into(tensor, find(other)) for tensor in stored]
            yield _row(f"-> {other}", matrix, setting, *runs)
    x = np.random.default_rng(setting.seed).random(matrix.shape[1])
    yield _row("spmv", matrix, setting, *(_times(tensor, x) for tensor in stored))


def _into(tensor: SparseTensor, target: Format) -> Call:
    return lambda: convert_tensor(tensor, target, threads=1)


def _times(tensor: SparseTensor, x: Any) -> Call:
    return lambda: spmv(tensor, x, threads=1)


def _row(
    task: str, matrix: SparseTensor, setting: Setting, own: Call, mine: Call
) -> dict[str, Any]:
    for one, other in zip(_arrays(own()), _arrays(mine()), strict=True):
        check_equal(other, one)
    times = race({"built-in": own, "twin": mine}, setting)
    best, twin = times["built-in"].best, times["twin"].best
    count = len(matrix.values)
    return {
        "task": task,
        "entries": count,
        "seconds": seconds_by_name(times),
        "ns": 1e9 * best / count,
        "twin_ns": 1e9 * twin / count,
        "ratio": twin / best,
    }


def _arrays(result: Any) -> tuple[Any, ...]:
    """Everything that a result holds, in the order of its descriptor."""
    if not isinstance(result, SparseTensor):
        return (result,)
    return (*(result.arrays[index.name] for index in result.format.indices), result.values)
