"""The 48 contractions of the TCCG suite in double precision beside matrix products of equal size.

Also beside numpy.einsum and torch.einsum. The speeds that the seed of this work reports for other
systems are kept in data/tccg48.json; they were measured on another machine and are not compared.
"""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.contractions import Contraction, mean_and_worst, race_all
from benchmarks.measure import Bar, Outcome, Setting

__all__ = ["run", "suite"]

DATA = Path(__file__).parent / "data" / "tccg48.json"
QUICK_STEP = 8  # every eighth contraction


def suite() -> list[Contraction]:
    """The contractions as published."""
    rows = json.loads(DATA.read_text(encoding="utf-8"))["contractions"]
    return [Contraction(row["einsum"], row["dims"]) for row in rows]


def run(setting: Setting) -> Outcome:
    """Race the suite."""
    rows = race_all(suite()[:: QUICK_STEP if setting.quick else 1], setting)
    mean, worst = mean_and_worst(rows, "gemm")
    bars = (
        Bar("speed of an equal product, geometric mean", mean, 0.98),
        Bar("speed of an equal product, worst", worst, 0.85),
        Bar("speed of numpy.einsum, geometric mean", mean_and_worst(rows, "numpy.einsum")[0], 1.0),
        Bar("speed of torch.einsum, geometric mean", mean_and_worst(rows, "torch.einsum")[0], 1.0),
    )
    return Outcome(rows, bars)
