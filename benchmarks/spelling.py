"""How a contraction is spelled: names of indices, order of operands, transposed storage.

None of them may change the time of a contraction by more than 10%.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import loopwright as lw
from benchmarks.contractions import Contraction
from benchmarks.measure import Bar, Outcome, Setting, Table, check_close, race, seconds_by_name

__all__ = ["run"]

CONTRACTIONS = (
    Contraction("ik,kj->ij", {"i": 512, "k": 512, "j": 512}),
    Contraction("efbad,cf->abcde", {"e": 8, "f": 256, "b": 8, "a": 8, "d": 8, "c": 64}),
    Contraction("aebf,dfce->abcd", dict.fromkeys("abcdef", 20)),
    Contraction("dega,gfbc->abcdef", {"g": 256} | dict.fromkeys("abcdef", 8)),
)
RENAMINGS = 3
KINDS = ("renamed", "swapped", "viewed", "stored")
COLUMNS = (
    ("contraction", "24s"),
    ("GFlop/s", "8.2f"),
    *((f"{kind}, slowest/fastest", "8.3f") for kind in KINDS),
)

Call = Callable[[], Any]


def run(setting: Setting) -> Outcome:
    """Race the spellings of each contraction."""
    print(f"seed {setting.seed}")
    table = Table(COLUMNS)
    print(table.head())
    rng = np.random.default_rng(setting.seed)
    rows: list[dict[str, Any]] = []
    for contraction in CONTRACTIONS[: 2 if setting.quick else None]:
        rows.append(_row(contraction, rng, setting))
        spread = [rows[-1]["spread"][kind] for kind in KINDS]
        print(table.row(contraction.subscripts, rows[-1]["gflops"], *spread), flush=True)
    bars = tuple(
        Bar(f"slowest over fastest, {kind}", max(row["spread"][kind] for row in rows), 1.10, True)
        for kind in KINDS
    )
    return Outcome(tuple(rows), bars)


def _row(contraction: Contraction, rng: np.random.Generator, setting: Setting) -> dict[str, Any]:
    a, b = contraction.operands(rng)
    text = contraction.subscripts
    runs: dict[str, Call] = {"as written": partial(lw.einsum, text, a, b)}
    runs |= _spellings(contraction, a, b, rng)
    reference = np.einsum(text, a, b, optimize=True)
    m, n, k = contraction.sizes
    for call in runs.values():
        check_close(call(), reference, k)
    times = race(runs, setting)
    spread = {}
    for kind in KINDS:
        names = ["as written", *(name for name in runs if name.startswith(kind))]
        seconds = [times[name].best for name in names]
        spread[kind] = max(seconds) / min(seconds)
    return {
        "einsum": text,
        "dims": contraction.dims,
        "seconds": seconds_by_name(times),
        "gflops": 2e-9 * m * n * k / times["as written"].best,
        "spread": spread,
    }


def _spellings(
    contraction: Contraction, a: Any, b: Any, rng: np.random.Generator
) -> dict[str, Call]:
    """Other ways to ask for the same elements.

    renamed: other letters; swapped: operands the other way round; viewed: the same memory with its
    axes in another order; stored: the operands laid out in memory the other way round.
    """
    left, right, out = contraction.terms
    calls: dict[str, Call] = {}
    for number in range(RENAMINGS):
        letters = rng.permutation(list(string.ascii_letters))
        names = str.maketrans(dict(zip(sorted(contraction.dims), map(str, letters), strict=False)))
        text = contraction.subscripts.translate(names)
        calls[f"renamed {number}"] = partial(lw.einsum, text, a, b)
    calls["swapped"] = partial(lw.einsum, f"{right},{left}->{out}", b, a)
    first, second = rng.permutation(len(left)), rng.permutation(len(right))
    moved = ("".join(t[i] for i in order) for t, order in ((left, first), (right, second)))
    text = f"{','.join(moved)}->{out}"
    calls["viewed"] = partial(lw.einsum, text, a.transpose(first), b.transpose(second))
    column_a, column_b = np.asfortranarray(a), np.asfortranarray(b)
    calls["stored left"] = partial(lw.einsum, contraction.subscripts, column_a, b)
    calls["stored right"] = partial(lw.einsum, contraction.subscripts, a, column_b)
    calls["stored both"] = partial(lw.einsum, contraction.subscripts, column_a, column_b)
    return calls
