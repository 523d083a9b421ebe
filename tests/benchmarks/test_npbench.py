"""Programs of others raced as NumPy functions: a checkout made here, whose programs go all ways."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.measure import Setting
from benchmarks.numpy_functions import race
from benchmarks.numpy_functions.contestant import Contestant
from benchmarks.numpy_functions.sources import NpBench, Task

INIT = "import numpy as np\n\n\ndef initialize(N):\n    return {made}\n"
SUM = (
    "def kernel(a, b):\n    for i in range(len(a)):\n        b[i] = {value}\n"
    "    t = 0.0\n    for i in range(len(a)):\n        t += b[i]\n    return t\n"
)


def checkout(folder: Path, name: str, **modules: str) -> Path:
    """Add a program to a checkout: its modules by what follows its name."""
    info = {
        "name": name, "short_name": name, "relative_path": f"group/{name}", "module_name": name,
        "func_name": "kernel", "parameters": {"S": {"N": 8}, "M": {"N": 16}},
        "init": {"func_name": "initialize", "input_args": ["N"], "output_args": ["a", "b"]},
        "input_args": ["a", "b"], "array_args": ["a", "b"], "output_args": ["b"],
    }  # fmt: skip
    (folder / "bench_info").mkdir(exist_ok=True)
    (folder / "bench_info" / f"{name}.json").write_text(json.dumps({"benchmark": info}))
    place = folder / "npbench" / "benchmarks" / "group" / name
    place.mkdir(parents=True)
    modules = {"": INIT.format(made="np.arange(float(N)), np.zeros(N)"), **modules}
    for suffix, text in modules.items():
        (place / f"{name}{suffix}.py").write_text(text)
    return folder


def row(folder: Path, name: str, **changes: Any) -> race.Row:
    setting = Setting(quick=True, **changes)
    return race.measured(NpBench(folder), str(folder), name, "S", setting)


def test_a_right_program_is_raced_beside_the_fastest_right_variant(tmp_path: Path) -> None:
    folder = checkout(
        tmp_path,
        "square",
        _numpy=SUM.format(value="a[i] * a[i]"),
        _numba_n=SUM.format(value="a[i] * a[i]"),
        _numba_np=SUM.format(value="a[i] + a[i]"),
        _numba_o="import surely_not_installed\n",
    )
    found = row(folder, "square")
    assert found["state"] == "right"
    assert found["ulp"] == 0.0
    assert set(found["seconds"]) == {"numpy", "loopwright", "numba"}
    assert found["numba"] == "numba_n"
    assert len(found["numpy_times"]) == 3
    (remark,) = found["remarks"]
    assert remark.startswith("numba_np is wrong: ")


def test_a_refusal_has_its_reason_and_line(tmp_path: Path) -> None:
    text = "def kernel(a, b):\n    t = 0.0\n    print(a, b)\n    return t\n"
    found = row(checkout(tmp_path, "shout", _numpy=text), "shout", check=True)
    assert (found["state"], found["line"], found["text"]) == ("refused", 3, "print(a, b)")
    assert found["reason"]
    assert found["remarks"] == [f"line 3: print(a, b): {found['reason']}"]


def test_a_contestant_that_ends_or_hangs_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(race, "CHECK_SECONDS", 5.0)
    ends = INIT.format(made="__import__('os')._exit(3)")
    folder = checkout(tmp_path, "ends", **{"": ends, "_numpy": SUM.format(value="a[i]")})
    assert row(folder, "ends", check=True)["reason"] == "its process ended with 3"
    hangs = INIT.format(made="__import__('time').sleep(600)")
    checkout(tmp_path, "hangs", **{"": hangs, "_numpy": SUM.format(value="a[i]")})
    assert row(folder, "hangs", check=True)["reason"] == "no answer in 5 s"


def contestant(
    plain: Any, ours: Any, make: Any, tmp_path: Path, *, lenient: bool = False
) -> dict[str, Any]:
    """The judgement on `ours` where `plain` is right."""
    right, other = Contestant(Task(plain, plain, make)), Contestant(Task(ours, plain, make))
    right.call()
    right.keep(str(tmp_path / "right"))
    other.call()
    return other.judge(str(tmp_path / "right"), lenient)


def arguments() -> tuple[Any, ...]:
    return (np.arange(1.0, 4.0),)


@pytest.mark.parametrize(
    ("ours", "wrong"),
    [
        (lambda a: (a * 2, 1.0), ""),
        (lambda a: (a * 2 * (1 + 1e-15), 1.0), ""),
        (lambda a: a * 2, "[float64 array of shape (3,), []], not [(float64 "),
        (lambda a: (a * 2, 1), "(float64 array of shape (3,), int)"),
        (lambda a: ((a * 2).astype(np.float32), 1.0), "float32 array of shape (3,)"),
        (lambda a: (a * 2 + 1e-9, 1.0), "(3 of 3 differ)"),
        (lambda a: (a * 2 * np.inf, 1.0), "(inf), not "),
        (lambda a: (np.multiply(a, 2, out=a), 1.0), "changes arguments [0], not []"),
    ],
)
def test_every_value_is_compared(ours: Any, wrong: str, tmp_path: Path) -> None:
    judged = contestant(lambda a: (a * 2, 1.0), ours, arguments, tmp_path)
    assert wrong in judged["wrong"]
    assert bool(judged["wrong"]) == bool(wrong)


def test_what_python_runs_is_seen() -> None:
    def plain(a: Any) -> Any:
        return a + 1

    one = Contestant(Task(lambda a: plain(a), plain, arguments))  # type: ignore[arg-type]
    one.call()
    assert one.again() == {"in_python": True, "repeats": True}
    other = Contestant(Task(lambda a: a + 1, plain, arguments))  # type: ignore[arg-type]
    other.call()
    assert other.again() == {"in_python": False, "repeats": True}


def test_programs_and_presets_are_known(tmp_path: Path) -> None:
    folder = checkout(tmp_path, "one", _numpy=SUM.format(value="a[i]"))
    checkout(folder, "two", _numpy=SUM.format(value="a[i]"))
    known = NpBench(folder)
    assert race.chosen(known, Setting(presets=("M",))) == [("one", "M"), ("two", "M")]
    assert race.chosen(known, Setting(kernels=("two",))) == [("two", "S"), ("two", "M")]
    with pytest.raises(SystemExit, match="no program is named three; known: one, two"):
        race.chosen(known, Setting(kernels=("three",)))
    with pytest.raises(SystemExit, match="one has no preset L; known: S, M"):
        race.chosen(known, Setting(presets=("L",)))


def fact(state: str, numpy: float | None = None, **more: Any) -> race.Row:
    ratio = None if numpy is None else [numpy, numpy, numpy]
    facts = {"program": f"{state}{numpy}", "preset": "S", "state": state, "reason": ""}
    return facts | {"numpy_times": ratio, "numba_times": None} | more


def test_summary_and_bars() -> None:
    rows = [fact("right", 2.0), fact("right", 8.0), fact("refused", reason="no"), fact("wrong")]
    assert race.summary_lines(rows) == [
        "S: 4 programs: 2 right, 1 refused, 1 wrong",
        "S, times numpy: geometric mean 4 of 2, worst 2 (right2.0)",
        "   1 refused first: no",
    ]
    found = {bar.what: bar for bar in race.bars(rows, 4, race.Least(), timed=True)}
    assert found["S: wrong or failed"].measured == 1
    assert not found["S: programs right"].holds
    assert math.isclose(found["S: times numpy, mean"].measured, 4.0)
    assert [bar.what for bar in race.bars(rows, 54, race.Least(), timed=False)] == [
        "S: wrong or failed"
    ]
