"""The evaluation of tuning: its shapes, its file that can be resumed, its numbers and pictures."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from benchmarks.tuning import evaluation
from benchmarks.tuning.contestants import Attempt
from benchmarks.tuning.evaluation import drawn_shapes, read_rows, run_part
from benchmarks.tuning.pictures import line_chart
from benchmarks.tuning.report import anytime_curve, bootstrap, performance_profile, report
from benchmarks.tuning.shapes import SETS, SPLIT, Shape, held_out_shapes, shapes_of, split_hash

from loopwright.tuning.training_trees import looptune_shapes


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


def test_shapes_are_drawn_by_a_seed() -> None:
    assert drawn_shapes("odd", 5) == drawn_shapes("odd", 5)
    assert len(drawn_shapes("odd", 5)) == 5
    assert len(drawn_shapes("odd", 0)) == len(shapes_of("odd"))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(evaluation, "peak_rate", lambda dtype: 1e9)
    return []


def test_an_evaluation_is_resumed(
    tmp_path: Path, asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    def fake(shape: Shape, budget: float) -> Attempt:
        asked.append(shape.name)
        return Attempt(None, 1e-3, budget, 3, 0, ("up",), ((0.1, 2e-3), (0.2, 1e-3)))

    file = tmp_path / "rows.jsonl"
    shapes = list(shapes_of("odd")[:3])
    run_part(file, "odd", shapes[:2], {"beam2bfs": fake}, 0.5)
    with file.open("a") as out:
        out.write('{"set": "odd", "sha')  # broken off
    run_part(file, "odd", shapes, {"beam2bfs": fake}, 0.5)
    assert asked == [shape.name for shape in shapes]
    run_part(file, "odd", shapes, {"beam2bfs": fake}, 1.0)  # another budget
    assert len(asked) == 6
    assert "3 of 3" in capsys.readouterr().out


ROWS = [
    {
        "set": "odd",
        "shape": shape,
        "operations": 10**6,
        "who": who,
        "budget": 1.0 if who == "random" else 0.0,
        "seconds": seconds,
        "spent": 1.0,
        "measurements": 4,
        "peak": 1e10,
        "trace": [[0.1, 2 * seconds], [0.5, seconds]] if who == "random" else [],
    }
    for shape, times in (("a", (8e-4, 4e-4, 2e-4, 3e-4)), ("b", (8e-4, 1e-4, 2e-4, 2e-4)))
    for who, seconds in zip(("naive", "random", "construction", "numpy"), times, strict=True)
]


def test_the_report_has_every_contestant(tmp_path: Path) -> None:
    text = report(ROWS, tmp_path / "pictures")
    lines = {line.split("  ")[0]: line for line in text.splitlines()}
    assert lines["naive"].split()[1] == "0.125"
    assert lines["random 1 s"].split()[-4] == "4.00"  # times naive: 2 and 8
    assert "50%, 1.00 times" in lines["the policy beats every search"]
    for name in ("odd_profile.svg", "odd_anytime.svg"):
        ElementTree.fromstring((tmp_path / "pictures" / name).read_text())


def test_profiles_and_curves() -> None:
    times = {"a": {"x": 1.0, "y": 1.5}, "b": {"x": 2.0, "y": 1.0}}
    profile = performance_profile(times)
    assert profile["x"][0] == (1.0, 0.5)
    assert profile["y"][50] == (1.5, 1.0)
    assert anytime_curve(ROWS) == {
        "random 1 s": [(0.1, pytest.approx(0.25)), (0.5, pytest.approx(0.5))]
    }


def test_intervals_hold_the_mean_and_are_the_same_every_time() -> None:
    values = [1.0, 1.1, 0.9, 1.2, 0.8]
    low, high = bootstrap(values, lambda x: sum(x) / len(x))
    assert 0.8 < low < 1.0 < high < 1.2
    assert bootstrap(values, max) == bootstrap(values, max)


def test_charts_are_xml_whatever_is_drawn() -> None:
    chart = line_chart("a < b", {"one": [(1, 2), (10, 4)], "none": [(0, 1)]}, "x", "y", log_x=True)
    root = ElementTree.fromstring(chart)
    assert sum(child.tag.endswith("polyline") for child in root) == 1
    ElementTree.fromstring(line_chart("empty", {}, "x", "y"))


def test_rows_of_a_file_are_checked(tmp_path: Path) -> None:
    file = tmp_path / "rows"
    file.write_text("\n".join(["[1]", json.dumps(ROWS[0]), "{", '{"set": 1}']))
    assert read_rows(file) == [ROWS[0]]
