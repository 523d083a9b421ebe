"""Random campaigns, a little of each, and every case that one of them ever got wrong.

`make soak MINUTES=n` runs them for longer. Seeds are fixed here, so that a change is to blame for
what fails; `SOAK_SEED` chooses another.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from types import CodeType

import numpy as np
import pytest

import loopwright as lw
from drawn import HUNTS, in_all
from loopwright.runtime.disk_cache import DiskCache, Entry
from needed_tools import NO_COMPILER, has_compiler
from outside.campaigns.campaign import (
    REFUSALS,
    REGRESSIONS,
    Campaign,
    Case,
    Difference,
    Unjudged,
    Verdict,
    judge,
    save,
    shrunk,
)
from outside.campaigns.failing_resources import PRIMITIVES, failing
from outside.campaigns.operator_forms import FORMS, boundary_values
from outside.campaigns.reader_texts import READERS, campaign, corpus, fewest
from outside.campaigns.resource_faults import ended
from outside.campaigns.soak import MAKERS, Tally, refused_shares, run_all

SEED = int(os.environ.get("SOAK_SEED", "1"))
# Campaign -> groups of cases, and cases of a group: a group is a test, so that workers share them.
CASES = {
    "einsums": (1, 40),
    "contraction_programs": (2, 4),
    "sparse_formats": (1, 6),
    "memory_safety": (1, 12),
    "mesh_programs": (1, 2),
    "path_problems": (1, 8),
    "scalar_programs": (1, 24),
    "tiled_nests": (1, 8),
    "pointer_programs": (1, 4),
    "numpy_functions": (1, 30),
    "operator_types": (1, 6),
    "c_types": (1, 6),
    "c_texts": (1, 4),
    "plan_texts": (1, 10),
    "schedule_texts": (1, 4),
    "record_texts": (1, 10),
    "format_texts": (1, 20),
    "computation_texts": (1, 20),
    "market_texts": (1, 20),
    "frostt_texts": (1, 20),
}
if not in_all():
    CASES |= {"einsums": (1, 16), "sparse_formats": (1, 4), "scalar_programs": (1, 12)}
if HUNTS:
    CASES = {name: (20 * groups, cases) for name, (groups, cases) in CASES.items()}
GROUPS = [(name, group) for name, (groups, _) in CASES.items() for group in range(groups)]


def judged(campaign: Campaign, case: Case) -> Verdict:
    """The verdict on a case; the test is skipped where it needs a compiler and there is none."""
    verdict = judge(campaign, case)
    if verdict.is_fault and not has_compiler() and NO_COMPILER in verdict.told:
        pytest.skip(NO_COMPILER)
    return verdict


@pytest.mark.drawn(4)
@pytest.mark.parametrize(("name", "group"), GROUPS)
def test_campaign(name: str, group: int, tmp_path: Path) -> None:
    campaign = MAKERS[name]()
    random = np.random.default_rng([SEED, group])
    for number in range(CASES[name][1]):
        case = campaign.draw(random)
        verdict = judged(campaign, case)
        if verdict.is_fault:
            small, found, _ = shrunk(campaign, case, verdict)
            file = save(tmp_path, name, small, found, f"seed {[SEED, group]}, case {number}")
            pytest.fail(f"{name}, seed {[SEED, group]}, case {number}: {found.told}\n"
                        f"{json.dumps(small)}\nkept in {file}")  # fmt: skip


@pytest.mark.parametrize("file", sorted(REGRESSIONS.glob("*.json")), ids=lambda file: file.stem)
def test_regression(file: Path) -> None:
    """A case that was once wrong is right or refused."""
    record = json.loads(file.read_text(encoding="utf-8"))
    verdict = judged(MAKERS[record["campaign"]](), record["case"])
    assert not verdict.is_fault, verdict.told


@pytest.mark.parametrize("reader", READERS)
def test_kept_texts_are_read_or_refused(reader: str) -> None:
    """Of the corpus that fuzzing has kept, one in so many; not traced."""
    texts = corpus(reader)
    assert 0 < len(json.dumps(texts)) < 1 << 18
    for text in texts[:: max(1, len(texts) // 20)]:
        with suppress(*REFUSALS, Unjudged):
            READERS[reader](text)


def test_a_corpus_is_made_of_lines_that_were_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fewest texts are found without reading a text again, which takes minutes for many."""
    calls = []
    read = READERS["frostt"]
    monkeypatch.setitem(READERS, "frostt", lambda text: (calls.append(text), read(text)))
    kept: dict[str, frozenset[tuple[CodeType, int]]] = {}
    found = campaign("frostt", kept)
    for text in ("1 1 2.0\n", "1 1 2.0\n1 2 3.0\n", "1 1 2.0\n", "1 x\n"):
        judge(found, {"text": text})
    assert len(calls) == 4
    assert set(fewest(kept)) == {"1 1 2.0\n", "1 x\n"}
    assert len(calls) == 4


# -- faults of resources --------------------------------------------------------------------------
# The campaign copies a process that has loaded everything; here the mechanism and two cheap calls.


@pytest.mark.parametrize("lasting", [False, True])
def test_a_disk_that_is_full_at_any_write_costs_the_entry_only(
    tmp_path: Path, lasting: bool
) -> None:
    """Each request of a write fails in turn: nothing is left, and a second write succeeds."""
    entry = Entry({"kind": "probe"}, bytes(100))
    with failing("write", 0) as uses:
        assert DiskCache(tmp_path / "first").put("key", entry)
    assert uses.count >= 6  # a folder, two files, their bytes, their names
    for n in range(1, uses.count + 1):
        cache = DiskCache(tmp_path / f"{n}{lasting}")
        with failing("write", n, lasting=lasting) as failed:
            cache.put("key", entry)
        assert failed.failed
        assert not [*tmp_path.glob("*/.new-*")], failed.places
        assert cache.put("key", entry)
        assert cache.get("key") == entry


@pytest.mark.parametrize("primitive", PRIMITIVES)
def test_primitives_are_counted_where_the_package_asks(primitive: str, tmp_path: Path) -> None:
    """What a test itself asks for is neither counted nor refused."""
    with failing(primitive, 1, lasting=True) as uses:
        (tmp_path / "file").write_text("text")
        assert np.zeros(100000).sum() == 0
        thread = Thread(target=int)
        thread.start()
        thread.join()
    assert (uses.count, uses.failed) == (0, 0)


def test_memory_that_ends_is_a_memory_error() -> None:
    tensor = lw.sparse.from_dense(np.eye(3))
    with failing("memory", 0) as uses:
        lw.sparse.to_scipy(tensor)
    for n in range(1, uses.count + 1):
        with failing("memory", n) as failed, suppress(MemoryError):
            lw.sparse.to_scipy(tensor)
        assert failed.failed == 1
        assert (lw.sparse.to_scipy(tensor).toarray() == np.eye(3)).all()


def test_what_llvm_ends_is_not_judged_however_much_python_writes_after_it() -> None:
    trace = "LLVM ERROR: out of memory\n" + "  File kernels.py\n" * 1000
    assert ended({"primitive": "room"}, trace) == "unjudged"
    assert ended({"primitive": "memory"}, trace) == "fault"
    assert ended({"primitive": "room"}, trace[26:]) == "fault"


def counting(most: int) -> Campaign:
    """A campaign of lists of numbers that fails where one is larger than `most`."""

    def check(case: Case) -> None:
        if max(case["numbers"], default=0) > most:
            raise Difference(f"{max(case['numbers'])} is more than {most}")

    def smaller(case: Case) -> Iterator[Case]:
        numbers = case["numbers"]
        for k, n in enumerate(numbers):
            yield {"numbers": numbers[:k] + numbers[k + 1 :]}
            yield {"numbers": [*numbers[:k], n - 1, *numbers[k + 1 :]]}

    return Campaign("counting", lambda random: {"numbers": []}, check, smaller)


def test_a_fault_is_shrunk_and_kept(tmp_path: Path) -> None:
    campaign, case = counting(most=5), {"numbers": [1, 9, 3, 7]}
    verdict = judge(campaign, case)
    assert (verdict.outcome, verdict.kind) == ("fault", "Difference: 0 is more than 0")
    small, found, repeats = shrunk(campaign, case, verdict)
    assert (small, repeats) == ({"numbers": [6]}, True)
    file = save(tmp_path, "counting", small, found, "seed 1, case 0")
    assert json.loads(file.read_text()) == {
        "campaign": "counting",
        "found": "Difference: 6 is more than 5",
        "origin": "seed 1, case 0",
        "case": {"numbers": [6]},
    }


def test_every_case_of_a_campaign_that_ends(tmp_path: Path) -> None:
    cases = [{"numbers": [number]} for number in range(4)]
    campaign = replace(counting(most=2), every=lambda: iter(cases))
    tally = run_all(campaign, tmp_path)
    assert tally.outcomes == {"counting: right": 3, "counting: fault": 1}
    assert len(list(tmp_path.glob("*.json"))) == 1


def test_documented_differences_are_counted() -> None:
    campaign, tally = MAKERS["operator_types"](), Tally()
    number = next(k for k, form in enumerate(FORMS) if form.op == "/")
    case = {"left": "pyfloat", "right": "pybool", "forms": [number], "compiled": False}
    campaign.counts.clear()
    assert judge(campaign, case).outcome == "right"
    tally.count(campaign)
    name = "operator_types: excused: Python's numbers divided by zero"
    assert tally.kinds[name] == len(boundary_values("pyfloat"))
    assert not campaign.counts


def test_a_fault_that_does_not_repeat_is_told() -> None:
    once = judge(counting(most=5), {"numbers": [9]})
    case, _, repeats = shrunk(counting(most=20), {"numbers": [9]}, once)
    assert (case, repeats) == ({"numbers": [9]}, False)


def test_the_share_of_refused_cases_is_reported() -> None:
    tally = Tally()
    for outcome, count in (("right", 5), ("refused", 3), ("fault", 2), ("unjudged", 7)):
        tally.outcomes[f"numpy_functions: {outcome}"] += count
    assert refused_shares(tally) == ["numpy_functions: 30.0% of the cases are refused"]


@pytest.mark.parametrize("name", MAKERS)
def test_cases_are_data_and_seeds_decide(name: str) -> None:
    """A case is its JSON, and a seed draws the same cases again."""
    drawn = []
    for _ in range(2):
        campaign, random = MAKERS[name](), np.random.default_rng(3)
        drawn.append([campaign.draw(random) for _ in range(20)])
    assert drawn[0] == drawn[1]
    assert json.loads(json.dumps(drawn[0])) == drawn[0]
