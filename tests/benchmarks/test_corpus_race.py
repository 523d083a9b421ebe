"""The race over the corpus: fresh inputs, wrong results left out, bars that cannot hold by chance.

Nothing here depends on how long anything takes.
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.corpus_contestants import Contestant, Peer
from benchmarks.corpus_kernels import KERNELS, make_inputs
from benchmarks.corpus_race import Effort, race_in_place
from benchmarks.measure import Setting

import loopwright as lw
from benchmarks import polyhedral
from kernels.build import bind, link, system_compiler

ONCE = Effort(rounds=2, seconds=0.0)
Call = Callable[..., None]


def scaled(factor: float) -> Call:
    """A kernel with gemver's parameters that only scales its matrix."""

    def call(n: int, alpha: float, beta: float, matrix: Any, *vectors: Any) -> None:
        matrix *= factor

    return call


def test_every_call_finds_the_same_inputs() -> None:
    kernel = KERNELS["gemver"]
    inputs = make_inputs(kernel, {"n": 3})
    before = inputs["A"].copy()
    seen: list[Any] = []

    def call(n: int, alpha: float, beta: float, matrix: Any, *vectors: Any) -> None:
        seen.append(matrix.copy())
        matrix += 1

    times, wrong = race_in_place(
        kernel, [Contestant("a", call), Contestant("b", call)], inputs, ONCE
    )
    assert wrong == []
    assert list(times) == ["a", "b"]
    assert all(len(t.rounds) == 2 for t in times.values())
    assert all(np.array_equal(matrix, before) for matrix in seen)
    assert np.array_equal(inputs["A"], before)


def test_who_is_wrong_has_no_time() -> None:
    kernel = KERNELS["gemver"]
    inputs = make_inputs(kernel, {"n": 3})
    inputs["A"][:] = 1.0
    contestants = [
        Contestant("right", scaled(2)),
        Contestant("wrong", scaled(3)),
        Contestant("blas", scaled(5), is_checked=False),
    ]
    times, wrong = race_in_place(kernel, contestants, inputs, ONCE)
    assert list(times) == ["right", "blas"]
    assert wrong == [
        "wrong computes something else: gemver: A: 9 of 9 differ, first [0, 0]: 3.0, expected 2.0"
    ]


def test_what_is_raced_by_default() -> None:
    def names(setting: Setting, size: str) -> list[str]:
        return [kernel.name for kernel, found in polyhedral.chosen(setting) if found == size]

    assert len(names(Setting(), "LARGE")) == 30
    assert set(polyhedral.TIME_TILED) <= set(names(Setting(), "XL"))
    assert len(names(Setting(quick=True), "SMALL")) == len(polyhedral.chosen(Setting(quick=True)))
    assert names(Setting(size="XL", kernels=("adi", "gemm")), "XL") == ["adi"]
    assert names(Setting(kernels=("nasty_band",)), "LARGE") == ["nasty_band"]
    with pytest.raises(SystemExit, match="no kernel is named gem; known: 2mm, 3mm, "):
        polyhedral.chosen(Setting(kernels=("gem",)))


def row(**changes: Any) -> dict[str, Any]:
    facts = {"kernel": "gemm", "kind": "gemm-like", "size": "LARGE", "parallel": True}
    found = {"times_gcc": 4.0, "times_best": 2.0, "times_one_thread": 1.8, "share_of_gemm": 0.9}
    return facts | found | {"compile_seconds": 0.5} | changes


def test_bars() -> None:
    second = row(kernel="atax", kind="blas2", times_gcc=1.0, times_best=0.5, share_of_gemm=None)
    found = {bar.what: bar for bar in polyhedral.bars([row(), second])}
    assert found["speed of gcc, geometric mean"].measured == pytest.approx(2.0)
    assert not found["speed of the best peer, worst"].holds
    assert found["share of NumPy's GEMM, worst"].measured == 0.9
    assert found["time to compile, mean"].at_most
    assert "floyd-warshall, speed of gcc" not in found


@pytest.mark.skipif(system_compiler() is None, reason="there is no C compiler")
@pytest.mark.parametrize("is_refused", [False, True])
def test_run(
    is_refused: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole benchmark at MINI, with plain C in our place, or nothing."""

    def compile_ours(source: Path, *, reassoc: bool) -> Call:
        if is_refused:
            raise lw.UsageError("no loops today")
        return bind(link([system_compiler() or ""], [source]), KERNELS[source.stem])

    peer = Peer("gcc", (system_compiler() or "", "-O1"))  # Polly would take half a minute
    monkeypatch.setattr(polyhedral, "installed_peers", lambda: (peer,))
    monkeypatch.setattr(polyhedral, "compile_ours", compile_ours)
    outcome = polyhedral.run(Setting(quick=True, kernels=("gemm", "jacobi-1d"), size="MINI"))
    assert [found["kernel"] for found in outcome.rows] == ["gemm", "jacobi-1d"]
    gemm = outcome.rows[0]
    assert gemm["sizes"] == {"ni": 20, "nj": 25, "nk": 30}
    assert "gcc" in gemm["best"]
    assert (gemm["share_of_gemm"] is None) == is_refused
    assert gemm["remarks"] == (["loopwright: no loops today"] if is_refused else [])
    assert ("  loopwright: no loops today\n" in capsys.readouterr().out) == is_refused
    assert dataclasses.asdict(outcome.bars[0])["what"] == "speed of gcc, geometric mean"
