"""The race over the wide corpus: who is raced, rows kept and continued, bars that failures break.

Nothing here depends on how long anything takes.
"""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from benchmarks.corpus_kernels import WIDE
from benchmarks.measure import Setting

from benchmarks import wide

BEST = {"gcc": 0.4, "clang": 0.3, "cc": 0.1, "cc, 2 threads": 0.05, "jit": 0.2}


def found(**changes: Any) -> dict[str, Any]:
    """What a child says of a program."""
    facts = {"best": BEST, "seconds": {}, "compile_seconds": {"jit": 0.5}, "blas_gflops": None}
    return facts | {"remarks": [], "all_seconds": 1.0} | changes


def test_facts_and_bars() -> None:
    row = wide.facts(WIDE["jaccard"], "LARGE", "strict", found())
    assert row["cc_times_gcc"] == pytest.approx(4.0)
    assert row["cc_times_best"] == pytest.approx(3.0)
    assert row["cc_two"] == pytest.approx(2.0)
    assert row["jit_two"] is None
    bars = {bar.what: bar for bar in wide.bars([row])}
    assert bars["cc, speed of gcc, mean"].holds
    assert bars["time to compile, mean"].measured == 0.5
    assert bars["programs refused, failed or wrong"].holds
    failed = wide.facts(
        WIDE["jaccard"], "LARGE", "strict", found(best={"gcc": 0.4}, remarks=["cc: no"])
    )
    bars = {bar.what: bar for bar in wide.bars([row, failed])}
    assert math.isnan(bars["cc, speed of gcc, worst"].measured)
    assert bars["programs refused, failed or wrong"].measured == 1


def test_a_run_goes_on_from_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def measured(program: Any, size: str, setting: Setting) -> dict[str, Any]:
        asked.append(program.name)
        return found()

    monkeypatch.setattr(wide, "measured", measured)
    file = tmp_path / "rows.jsonl"
    wide.run(Setting(kernels=("jaccard",), rows=str(file)))
    with file.open("a", encoding="utf-8") as rows:
        rows.write('{"kernel": "page-r')  # a run that was broken off
        rows.write("\n")
    outcome = wide.run(Setting(kernels=("jaccard", "page-rank"), rows=str(file)))
    assert asked == ["jaccard", "page-rank"]
    assert [row["kernel"] for row in outcome.rows] == ["jaccard", "page-rank"]
    assert json.loads(file.read_text(encoding="utf-8").splitlines()[-1])["kernel"] == "page-rank"
    wide.run(Setting(kernels=("jaccard",), rows=str(file), reassoc=True))
    assert asked[-1] == "jaccard"
    assert len(asked) == 3
