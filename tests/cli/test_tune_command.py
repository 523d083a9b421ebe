"""`loopwright tune` and `cc --tune`: searches from the command line, and what was recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from loopwright import options
from loopwright.calls.einsum import einsum_task, forget_calls
from loopwright.cli import main, tune_command
from loopwright.transform.plan import Plan
from loopwright.tuning.records import Record, log_of_user
from loopwright.tuning.searches import Budget

SOURCE = """
void step(int n, double a[n][n], double b[n][n]) {
#pragma scop
  for (int i = 1; i < n - 1; i++)
    for (int j = 1; j < n - 1; j++)
      b[i][j] = (a[i - 1][j] + a[i + 1][j]) * 0.5;
#pragma endscop
}

int main(void) {
  double x[4];
#pragma scop
  for (int i = 0; i < 4; i++)
    x[i] = 1;
#pragma endscop
  return (int)x[0];
}
"""


@pytest.fixture(autouse=True)
def _own_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(options.variable("data_dir"), str(tmp_path / "data"))
    with options.override(data_dir=str(tmp_path / "data")):
        yield
    forget_calls()


def recorded() -> Record:
    a = np.ones((8, 8))
    task = einsum_task("ik,kj->ij", a, a, threads=1)
    plans = task.construction().to_json(), task.construction().to_json()
    return Record(task.key, *plans, 0.001, 0.002, True, "2026-11-16T00:00:00+00:00")


def test_an_einsum_is_tuned(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["tune", "ik,kj->ij", "--size", "9,i=5", "--seconds", "2", "--threads", "1"]
    assert main([*words, "--dtype", "float32"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("ik,kj->ij: ")
    assert " tried" in out
    assert Plan.loads(out.partition("\n")[2]).whole_contract is not None


def test_loop_trees_of_an_einsum_are_searched(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a budget of measurements in the place of seconds, which may pass before the first."""
    given: list[float] = []

    def counted(seconds: float) -> Budget:
        given.append(seconds)
        return Budget(measurements=10)

    monkeypatch.setattr(tune_command, "Budget", counted)
    words = [
        "tune",
        "ik,kj->ij",
        "--size",
        "12",
        "--dtype",
        "float32",
        "--tree",
        "greedy1",
        "--seconds",
        "0.5",
    ]
    assert main(words) == 0
    told = capsys.readouterr().out
    assert "add= A[i, k] * B[k, j]" in told
    assert "GFLOPS" in told
    assert not list(log_of_user())
    assert given == [0.5]


def test_a_file_is_tuned_and_optimised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "step.c"
    path.write_text(SOURCE, encoding="utf-8")
    assert main(["tune", str(path), "--seconds", "0.5", "--size", "n=20"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert " tried" in first
    assert second.endswith("not measured: its function is more than regions")
    output = tmp_path / "out.c"
    words = ["cc", str(path), "-o", str(output), "--target", "c", "--tune", "0.5", "--size", "20"]
    assert main(words) == 0
    assert " tried" in capsys.readouterr().err
    assert "step" in output.read_text(encoding="utf-8")


def test_records_are_listed_exported_and_imported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log_of_user().add([recorded()])
    file = tmp_path / "records.jsonl"
    assert main(["tune", "--records", "--export", str(file)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("1 record, 0 damaged lines")
    assert second.startswith("contraction 0/1/1/1 float64 [8,")
    assert "2.00 times as fast as the construction (1 ms against 2 ms" in second
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("2026-11-16", "2026-11-17") + "{\n", encoding="utf-8")
    assert main(["tune", "--import", str(file)]) == 0
    assert capsys.readouterr().out == "1 record taken, 1 line refused\n"
    assert len([json.loads(line) for line in log_of_user().export().splitlines()]) == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["tune"], "what is to be tuned?"),
        (["tune", "i->", "--seconds", "nan"], "--seconds takes a number above 0"),
        (["tune", "i->", "--dtype", "fish"], "--dtype is no dtype"),
        (["tune", "i->", "--size", "many"], "--size takes NAME=N or N"),
        (["tune", "--import", "/nowhere/at/all"], "cannot read '/nowhere/at/all'"),
        (["cc", "x.c", "--size", "3"], "--size is for --tune and --measure"),
        (["cc", "x.c", "--tune", "-1"], "--tune takes seconds"),
        (["cc", "x.c", "--tune", "1", "--target", "cuda"], "--tune measures C on this machine"),
        (["cc", "x.c", "--tune", "1", "--tile", "8"], "--tune measures C on this machine"),
    ],
)
def test_refusals(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--out", "{}/none/weights.npz"], "there is no folder '{}/none'"),
        (["--out", "{}", "--space", "looptune"], "cannot write '{}': it is a folder"),
        (["--out", "{}/file/weights.npz"], "there is no folder '{}/file'"),
        ([], "cannot write '{}/file/policy-looptune.npz': "),
    ],
)
def test_where_weights_cannot_go_is_told_before_the_training(
    words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    given = [word.format(tmp_path) for word in words]
    with options.override(data_dir=str(tmp_path / "file")):
        assert main(["tune", "--train", *given]) == 2
    assert told.format(tmp_path) in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
