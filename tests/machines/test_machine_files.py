"""Reading machine files: a file of one's own, and every refusal with its full text."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from loopwright.diagnostics import UsageError
from loopwright.machines.load import load_machine, machine_from_json, machine_to_json

GOOD = machine_to_json(load_machine("zen3"))


def changed(**changes: Any) -> dict[str, Any]:
    data = copy.deepcopy(GOOD)
    for key, value in changes.items():
        if value is None:
            del data[key]
        else:
            data[key] = value
    return data


def test_own_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(changed(name="mine", cores=3)), encoding="utf-8")
    machine = load_machine(str(file))
    assert (machine.name, machine.cores) == ("mine", 3)
    assert machine.arithmetic == load_machine("zen3").arithmetic


def test_unknown_name_is_told_with_the_nearest() -> None:
    with pytest.raises(UsageError) as told:
        load_machine("zen33")
    assert str(told.value) == (
        "no machine is named 'zen33'\ntry: one of zen3, zen4, or the path of a JSON file"
    )
    with pytest.raises(UsageError, match="aarch64, alderlake, broadwell-e5-2697-v4, cascadelake"):
        load_machine("?")


def test_missing_and_broken_files(tmp_path: Path) -> None:
    gone = tmp_path / "gone.json"
    with pytest.raises(UsageError) as told:
        load_machine(str(gone))
    assert str(told.value) == f"cannot read machine file {gone}: No such file or directory"
    broken = tmp_path / "broken.json"
    broken.write_text("{", encoding="utf-8")
    with pytest.raises(UsageError, match=r"broken\.json: not JSON: Expecting property name"):
        load_machine(str(broken))
    huge = tmp_path / "huge.json"
    huge.write_text(" " * ((1 << 20) + 1), encoding="utf-8")
    with pytest.raises(UsageError, match=r"huge\.json: larger than 1048576 bytes"):
        load_machine(str(huge))
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 100_000, encoding="utf-8")
    with pytest.raises(UsageError, match=r"deep\.json: not JSON"):
        load_machine(str(deep))


REFUSALS: list[tuple[Any, str]] = [
    ([], "m: expected an object\nnote: found []"),
    (changed(format=2), "m: format 2 is not 1"),
    (changed(cores=None), "m: field 'cores' is missing"),
    (changed(cores=0), "m: field 'cores' must be a whole number of at least 1\nnote: found 0"),
    (
        changed(cores=True),
        "m: field 'cores' must be a whole number of at least 1\nnote: found True",
    ),
    (
        changed(isa="z80"),
        "m: field 'isa' must be one of aarch64, ppc64le, x86_64\nnote: found 'z80'",
    ),
    (
        changed(llvm_cpu="a;b"),
        "m: field 'llvm_cpu' must be a name of letters, digits, '.', '_', '+' and '-'\n"
        "note: found 'a;b'",
    ),
    (changed(description=3), "m: field 'description' must be a text\nnote: found 3"),
    (changed(features="avx"), "m: field 'features' must be a list of texts\nnote: found 'avx'"),
    (changed(load_latency="4"), "m: field 'load_latency' must be a number\nnote: found '4'"),
    (changed(load_latency=-1), "m: field 'load_latency' must be a positive number\nnote: found -1"),
    (
        changed(load_latency=float("inf")),
        "m: field 'load_latency' must be a positive number\nnote: found inf",
    ),
    (
        changed(caches=[]),
        "m: field 'caches' must be a list with at least one member\nnote: found []",
    ),
    (
        changed(caches=GOOD["caches"][1:]),
        "m: caches must be levels 1, 2, ... in order, at least one",
    ),
    (changed(caches=[3]), "m: caches[0]: expected an object\nnote: found 3"),
    (
        changed(arithmetic={"sqrt": {}}),
        "m: arithmetic: unknown operation\nnote: found sqrt\n"
        "try: add, and, div, dot, fma, max, min, mul, or, sub, xor",
    ),
    (
        changed(arithmetic={"add": {"f32": {}}}),
        "m: arithmetic: add: unknown element type\nnote: found f32",
    ),
    (
        changed(arithmetic={"add": {"float32": {"latency": 3}}}),
        "m: arithmetic: add: float32: field 'per_cycle' is missing",
    ),
    (
        changed(parallel_cost={"base": 1, "per_thread": 1, "points": {"two": 3}}),
        "m: parallel_cost: points: not a number of threads\nnote: found two",
    ),
]


@pytest.mark.parametrize(("data", "text"), REFUSALS, ids=[text[:40] for _, text in REFUSALS])
def test_refusals(data: Any, text: str) -> None:
    with pytest.raises(UsageError) as told:
        machine_from_json(data, "m")
    assert str(told.value) == text


def test_unknown_field_is_refused() -> None:
    with pytest.raises(UsageError) as told:
        machine_from_json(changed(vectors=3), "m")
    assert str(told.value).startswith(
        "m: unknown field\nnote: found vectors\ntry: arithmetic, caches"
    )
