"""The evaluation of tuning: its shapes, its file that can be resumed, its numbers and pictures."""

from __future__ import annotations

import gzip
import json
import math
import os
import time
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from benchmarks.measure import WrongResultError
from benchmarks.tuning import evaluation
from benchmarks.tuning.claims import bars_text, claims_text
from benchmarks.tuning.construction import peak_rate
from benchmarks.tuning.contestants import budget_of, contestants
from benchmarks.tuning.evaluation import (
    attempt_row,
    drawn_shapes,
    judge_part,
    main,
    missing_attempts,
    run_part,
)
from benchmarks.tuning.figures import (
    anytime_curve,
    depth_curves,
    performance_profile,
    speed_ups,
    tuning_times,
)
from benchmarks.tuning.intervals import bootstrap, mean_text, share_text
from benchmarks.tuning.judge import judged_row
from benchmarks.tuning.native_time import native_turn
from benchmarks.tuning.peers import PEERS, constructed_turn, installed_peers
from benchmarks.tuning.pictures import box_chart, line_chart
from benchmarks.tuning.pinning import one_processor_a_core
from benchmarks.tuning.report import report
from benchmarks.tuning.results import (
    append_row,
    attempts_of,
    judged_of,
    label_of,
    merge_files,
    read_rows,
)
from benchmarks.tuning.shapes import (
    SETS,
    SPLIT,
    Convolution,
    Shape,
    held_out_shapes,
    shapes_of,
    split_hash,
)
from benchmarks.tuning.tvm_peers import choose, library_file, trials_folder

from loopwright.runtime.scratch import local_scratch, release_scratch
from loopwright.tuning.actions import act
from loopwright.tuning.loop_tree_text import parse_tree, tree_text
from loopwright.tuning.quick_kernel import compile_tree
from loopwright.tuning.training_trees import looptune_shapes
from loopwright.tuning.tree_construction import constructed_tree
from loopwright.tuning.tree_evaluator import example_arrays

SMALL = Shape("small", "mk,kn->mn", (("m", 8), ("n", 16), ("k", 8)))


def test_the_split_is_the_committed_one() -> None:
    train, test = looptune_shapes()
    assert (len(train), len(test)) == (1757, 440)
    assert not set(train) & set(test)
    assert split_hash() == SPLIT
    assert len({shape.name for shape in held_out_shapes()}) == 440


@pytest.mark.parametrize("name", list(SETS))
def test_sets_have_shapes_with_names_of_their_own(name: str) -> None:
    shapes = shapes_of(name)
    assert shapes == shapes_of(name)
    assert len({shape.name for shape in shapes}) == len(shapes) >= 16
    assert shapes[0].tree().operations >= shapes[0].operations
    assert len({shape.threads for shape in shapes}) == 1  # a judge's process has so many


def test_shapes_are_drawn_by_a_seed() -> None:
    assert drawn_shapes("odd", 5) == drawn_shapes("odd", 5)
    assert len(drawn_shapes("odd", 5)) == 5
    assert len(drawn_shapes("odd", 0)) == len(shapes_of("odd"))


def test_a_convolution_is_what_its_loops_say() -> None:
    shape = Convolution(2, 3, 4, 3, stride=2)
    arrays = example_arrays(shape.tree())
    a, b = (arrays[name].astype(np.float64) for name in ("A", "B"))
    wanted = np.zeros((3, 4, 4))
    for o, i, j, c, p, q in np.ndindex(3, 4, 4, 2, 3, 3):
        wanted[o, i, j] += a[c, 2 * i + p, 2 * j + q] * b[o, c, p, q]
    assert np.allclose(shape.reference(arrays), wanted)
    assert shape.operations == 2 * 3 * 4 * 4 * 2 * 3 * 3


# -- attempts -------------------------------------------------------------------------------------


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clocks of attempts that go on by a millisecond where they are read, and at no other time."""
    moments = count()

    def tick() -> float:
        return next(moments) * 1e-3

    monkeypatch.setattr("benchmarks.tuning.contestants.clocks_of", lambda shape: (tick, tick))


def test_what_is_missing_is_run_and_the_file_is_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ticks: None
) -> None:
    file = tmp_path / "rows.jsonl"
    shapes = shapes_of("odd")[:2]
    names = ["naive", "rule", "random"]
    todo = missing_attempts(file, "odd", shapes, names, (0.05, 0.1))
    assert len(todo) == 8  # naive and rule once, random with both budgets
    assert [t[1].name for t in todo] == [shapes[0].name] * 4 + [shapes[1].name] * 4
    run_part(file, [t for t in todo if t[2] != "random"])
    with file.open("a") as out:
        out.write('{"set": "odd", "sha')  # broken off
    assert {t[2] for t in missing_attempts(file, "odd", shapes, names, (0.1,))} == {"random"}
    append_row(file, attempt_row("odd", shapes[0], "random", 0.1, ()))
    left = missing_attempts(file, "odd", shapes, names, (0.1,))
    assert [(t[1].name, t[2]) for t in left] == [(shapes[1].name, "random")]
    run_part(file, left, end=time.monotonic())  # nothing fits
    assert missing_attempts(file, "odd", shapes, names, (0.1,)) == left
    assert "4 of 4" in capsys.readouterr().out


def test_an_attempt_tells_how_it_came_about(ticks: None) -> None:
    row = attempt_row("odd", SMALL, "random", 0.2, ())
    assert json.loads(json.dumps(row)) == row
    assert parse_tree(row["tree"]).arrays == SMALL.tree().arrays
    assert row["measurements"] > 1
    times = [seconds for _, seconds in row["trace"]]
    assert times == sorted(times, reverse=True)
    assert row["depths"][0][0] == 0
    assert min(best for _, best, _ in row["depths"]) == times[-1]


def test_budgets_are_those_of_searches() -> None:
    without = {who for who in contestants() if budget_of(who, 3.0) == 0.0}
    policies = {"policy", "policy8", "policy_general", "policy_general8"}
    assert without == {"naive", "rule", *policies}
    assert {budget_of(who, 3.0) for who in set(contestants()) - without} == {3.0}
    assert budget_of("policy_general_led", 3.0) == 3.0
    assert label_of("random", 60.0) == "random 60 s"


def test_processors_are_one_a_core() -> None:
    if hasattr(os, "sched_getaffinity"):
        found = one_processor_a_core()
        assert found
        assert set(found) <= os.sched_getaffinity(0)


# -- the judge ------------------------------------------------------------------------------------


def test_the_judge_measures_all_and_equal_trees_tie() -> None:
    naive = tree_text(SMALL.tree())
    trees = {"naive": naive, "same": tree_text(SMALL.tree().at(1))}
    row = judged_row("odd", SMALL, trees, installed_peers(["numpy"]), 1e9, rounds=2)
    assert set(row["times"]) == {"naive", "same", "construction", "numpy"}
    assert row["times"]["naive"] == row["times"]["same"] > 0
    assert not row["refused"]


def test_a_turn_keeps_its_scratch_when_the_thread_takes_more() -> None:
    shape = Shape("packed", "mk,kn->mn", (("m", 64), ("n", 256), ("k", 256)))
    arrays = example_arrays(shape.tree())
    wanted = shape.reference(arrays)
    release_scratch()
    tree = compile_tree(shape.tree())  # sums are kept in scratch memory
    turns = [native_turn(tree.native(arrays) or ()), constructed_turn(shape, arrays)]
    for turn in turns:
        release_scratch()
        local_scratch().reserve(64 << 20)
        arrays["out"][...] = -1
        assert turn() > 0
        shape.check(arrays["out"], wanted)


@pytest.mark.parametrize("shape", [SMALL, Convolution(2, 4, 8, 3)])
def test_the_judge_looks_at_results(shape: Shape | Convolution) -> None:
    def wrong(shape: Any, arrays: Any) -> Any:
        return lambda: 1e-9

    row = judged_row("odd", shape, {}, {"liar": wrong, **installed_peers(["numpy"])}, 1e9, rounds=2)
    assert set(row["times"]) == {"construction", "numpy"}
    assert row["refused"]["liar"].startswith(WrongResultError.__name__)


def test_a_new_contestant_is_judged_beside_the_old_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.tuning.judge.peak_rate", lambda dtype: 1e9)
    monkeypatch.setitem(evaluation.SETS, "tiny", lambda: (SMALL,))  # type: ignore[arg-type]
    file = tmp_path / "rows.jsonl"
    append_row(file, attempt_row("tiny", SMALL, "naive", 0.0, ()))
    judge_part(file, "tiny", ["numpy"], rounds=2)
    judge_part(file, "tiny", ["numpy"], rounds=2)
    assert len(read_rows(file)) == 2  # nothing new the second time
    append_row(file, attempt_row("tiny", SMALL, "rule", 0.0, ()))
    judge_part(file, "tiny", [], rounds=2)
    assert set(judged_of(read_rows(file), "tiny")["small"]["times"]) == {
        "naive", "rule", "construction", "numpy"
    }  # fmt: skip


@pytest.mark.drawn(3)
@pytest.mark.parametrize("who", list(PEERS))
def test_peers_compute_what_they_are_asked(who: str) -> None:
    peers = installed_peers([who])
    if not peers or who in ("inductor", "metaschedule"):
        pytest.skip("not installed, or takes long")
    row = judged_row("odd", SMALL, {}, peers, 1e9, rounds=2)
    assert who in row["times"], row["refused"]


def test_the_fastest_right_trial_of_metaschedule_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own, kept = library_file(tmp_path, SMALL), trials_folder(tmp_path, SMALL)
    kept.mkdir(parents=True)
    for file, seconds in ((own, 3.0), (kept / "000.so", 2.0), (kept / "001.so", 1.0)):
        file.write_text(str(seconds))

    def turn(file: Path, arrays: Any) -> Any:
        arrays["out"][...] = arrays["A"] @ arrays["B"] if file.name != "001.so" else 0
        seconds = float(file.read_text())
        return lambda: seconds

    monkeypatch.setattr("benchmarks.tuning.tvm_peers.library_turn", turn)
    assert choose(SMALL, tmp_path) == (3.0, 2.0)
    assert own.read_text() == "2.0"
    assert "001.so is left out" in capsys.readouterr().err
    assert choose(SMALL, tmp_path) == (2.0, 2.0)
    own.unlink()
    own.write_text("0.5")
    real = turn

    def liar(file: Path, arrays: Any) -> Any:
        found = real(file, arrays)
        if file == own:
            arrays["out"][...] = 0
        return found

    monkeypatch.setattr("benchmarks.tuning.tvm_peers.library_turn", liar)
    assert choose(SMALL, tmp_path) == (math.inf, 2.0)
    assert not list(tmp_path.glob("*.chosen"))


# -- what the lines say ---------------------------------------------------------------------------


def rows_of(shape: str, times: dict[str, float]) -> list[dict[str, Any]]:
    attempts = [
        {
            "kind": "attempt",
            "set": "odd",
            "shape": shape,
            "who": label.partition(" ")[0],
            "budget": float(label.split()[1]) if " " in label else 0.0,
            "spent": 40.0 if "60" in label else 0.001,
            "measurements": 4,
            "tree": None,
            "trace": [[0.1, 2 * seconds], [0.5, seconds]] if " " in label else [],
            "depths": [[0, 2 * seconds, 0.1], [2, seconds, 0.5]] if " " in label else [],
        }
        for label, seconds in times.items()
        if label not in ("construction", "numpy")
    ]
    judged = {
        "kind": "judged", "set": "odd", "shape": shape, "operations": 10**6, "peak": 1e10,
        "times": times, "refused": {}, "noise": [0.001, 0.02], "machine": "m",
    }  # fmt: skip
    return [*attempts, judged]


LABELS = ("naive", "random 1 s", "random 60 s", "policy", "construction", "numpy")
ROWS = [
    *rows_of("a", dict(zip(LABELS, (8e-4, 4e-4, 3e-4, 2.9e-4, 2e-4, 3e-4), strict=True))),
    *rows_of("b", dict(zip(LABELS, (8e-4, 2e-4, 1e-4, 2e-4, 2e-4, 2e-4), strict=True))),
]
JUDGED, ATTEMPTS = judged_of(ROWS, "odd"), attempts_of(ROWS, "odd")


def test_the_report_has_every_contestant(tmp_path: Path) -> None:
    text = report(ROWS, tmp_path / "pictures")
    lines = {line.split("  ")[0]: line.split() for line in text.splitlines()}
    assert lines["naive"][2] == "0.125"  # of the peak
    assert lines["random 60 s"][7] == "4.619"  # times naive: 8/3 and 8
    assert lines["construction"][5:7] == ["4.000", "1.225"]  # times naive, times NumPy
    for kind in ("profile", "anytime", "figure9", "figure10a", "figure10b", "figure11a"):
        ElementTree.fromstring((tmp_path / "pictures" / f"odd_{kind}.svg").read_text())


def test_claims_and_bars() -> None:
    lines = claims_text(JUDGED, ATTEMPTS).splitlines()
    table = [line.removeprefix("| ").removesuffix(" |").split(" | ") for line in lines]
    assert len({len(cells) for cells in table}) == 1
    claims = {cells[0]: cells[1:] for cells in table}
    assert claims["claim of LoopTune of its policy"] == ["paper", "policy", "construction"]
    assert claims["best of all contestants"] == ["67%", "0% [0, 0]", "50% [0, 100]"]
    assert claims["beats the best search: shapes, times"][1] == ("50% [0, 100], 0.719 [0.5, 1.03]")
    assert claims["times NumPy"][1:] == [
        "1.02 [1, 1.03], ahead on 50% [0, 100]", "1.22 [1, 1.5], ahead on 50% [0, 100]"
    ]  # fmt: skip
    assert claims["times MetaSchedule, 64 trials"][1] == "not measured"
    assert claims["seconds of tuning"][1] == "0.0010"
    bars = bars_text(JUDGED, ATTEMPTS).splitlines()
    assert "within 2% of the best 60 s search on 50% [0, 100] of 2 shapes" in bars[0]
    assert "in 1/100 of its time 50% [0, 100]" in bars[0]
    assert "above every search of 1 s on 50% [0, 100] of 2 shapes" in bars[1]


def test_profiles_and_curves() -> None:
    profile = performance_profile(JUDGED)
    assert profile["construction"][0] == (1.0, 0.5)
    assert profile["construction"][-1] == (2.0, 1.0)
    curve = anytime_curve(JUDGED, ATTEMPTS)["random 60 s"]
    assert curve[0] == (0.1, pytest.approx(0.5 * (1e-1 / 3e-1 * 1.0) ** 0.5))
    assert curve[-1][1] == pytest.approx(2 * curve[0][1])
    assert speed_ups(JUDGED)["policy"] == pytest.approx([8 / 2.9, 4])
    rates, times = depth_curves(JUDGED, ATTEMPTS)
    assert [depth for depth, _ in rates["random 1 s"]] == [0, 1, 2]
    assert rates["random 1 s"][2][1] == pytest.approx(2 * rates["random 1 s"][1][1])
    assert times["random 1 s"] == [(0, 0.1), (1, 0.1), (2, 0.5)]
    assert tuning_times(ATTEMPTS, JUDGED)["policy"] == [(0.5, 0.001), (1.0, 0.001)]


def test_intervals_hold_the_mean_and_are_the_same_every_time() -> None:
    values = [1.0, 1.1, 0.9, 1.2, 0.8]
    low, high = bootstrap(values, lambda x: sum(x) / len(x))
    assert 0.8 < low < 1.0 < high < 1.2
    assert bootstrap(values, max) == bootstrap(values, max)
    assert mean_text([2.0, 2.0]) == "2 [2, 2]"
    assert share_text([True] * 3 + [False]) == "75% [25, 100]"


def test_charts_are_xml_whatever_is_drawn() -> None:
    points = {"one": [(1.0, 2.0), (10.0, 4.0)], "none": [(0.0, 1.0)], "low": [(1.0, 0.0)]}
    root = ElementTree.fromstring(line_chart("a < b", points, "x", "y", log_x=True, log_y=True))
    assert sum(child.tag.endswith("polyline") for child in root) == 1
    words = [child.text for child in root if child.tag.endswith("text")]
    assert words == ["a < b", "x", "y", "1", "2", "5", "10", "2", "one"]  # ticks, then names
    flat = {"low": [(0.0, 1.0), (1.0, 1.0)], "high": [(0.0, 2.0), (1.0, 3.0)]}
    root = ElementTree.fromstring(line_chart("order", flat, "x", "y"))
    assert [child.text for child in root if child.tag.endswith("text")][-2:] == ["high", "low"]
    boxes = ElementTree.fromstring(box_chart("boxes", {"a": [1, 2, 3, 4], "b": []}, "x"))
    assert sum(child.tag.endswith("rect") for child in boxes) == 2  # ground and one box
    ElementTree.fromstring(line_chart("empty", {}, "x", "y"))
    ElementTree.fromstring(box_chart("empty", {}, "x"))


def test_rows_of_a_file_are_checked_and_files_merged(tmp_path: Path) -> None:
    file, other = tmp_path / "rows", tmp_path / "other"
    file.write_text("\n".join(["[1]", json.dumps(ROWS[0]), "{", '{"kind": "attempt"}']))
    assert read_rows(file) == [ROWS[0]]
    for row in ROWS[:3]:
        append_row(other, row)
    assert merge_files(file, [other]) == 2
    assert read_rows(file) == ROWS[:3]
    assert merge_files(file, [other]) == 0
    packed = tmp_path / "rows.jsonl.gz"
    packed.write_bytes(gzip.compress(other.read_bytes()))
    assert read_rows(packed) == ROWS[:3]


def test_words_that_are_unknown_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "rows")
    assert main(["run", file, "--contestants", "nobody"]) == 2
    assert main(["judge", file, "--peers", "nobody"]) == 2
    assert "there are naive" in capsys.readouterr().out


@pytest.mark.parametrize("dtype", sorted({s.dtype for name in SETS for s in shapes_of(name)}))
def test_every_type_has_a_peak(dtype: str) -> None:
    assert 0 < peak_rate(dtype) < math.inf


def test_policies_take_part_by_their_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy walks, has its eight trees measured or leads; one of another space has its name."""

    def fake(file: Path) -> Any:
        def candidates(tree: Any, machine: Any, count: int) -> list[Any]:
            return [tree, constructed_tree(tree, machine)]

        return SimpleNamespace(
            space=SimpleNamespace(name=file.stem),
            tree=lambda tree, machine: act(tree, "split_4"),
            candidates=candidates,
        )

    monkeypatch.setattr("benchmarks.tuning.contestants.read_policy", fake)
    files = (tmp_path / "looptune.npz", tmp_path / "general.npz")
    both = [name + end for name in ("policy", "policy_general") for end in ("", "8", "_led")]
    assert set(both) <= set(contestants(files))
    walked = attempt_row("odd", SMALL, "policy", 0.0, files)
    assert "(by 4)" in walked["tree"]
    assert walked["measurements"] == 0
    measured = attempt_row("odd", SMALL, "policy_general8", 0.0, files)
    assert measured["measurements"] == 2
    assert len(measured["trace"]) == 2


def test_a_policy_leads_a_search_in_a_budget(ticks: None) -> None:
    """With the shipped weights, where no file is given."""
    row = attempt_row("odd", SMALL, "policy_led", 0.2, ())
    assert row["budget"] == 0.2
    assert row["measurements"] > 1
    times = [seconds for _, seconds in row["trace"]]
    assert times == sorted(times, reverse=True)
    assert compile_tree(parse_tree(row["tree"])) is not None
