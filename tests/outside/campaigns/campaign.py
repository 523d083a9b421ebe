"""What a random campaign is: cases as data, a verdict on each, faults made smaller and kept.

A case is a JSON object from which a call and its expected result follow, so that whatever was
found can be replayed from a few lines of text.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

import loopwright as lw
from loopwright.diagnostics import Diagnostic

Case: TypeAlias = dict[str, Any]
Random: TypeAlias = np.random.Generator
Result = TypeVar("Result")

REGRESSIONS = Path(__file__).parent.parent / "regressions"
# What users are promised to meet where a call asks for what we do not have.
REFUSALS = (lw.UsageError, lw.SourceError)
MOST_TRIES = 300  # of smaller cases, when a fault is shrunk


class Difference(AssertionError):  # noqa: N818, what it is
    """A result is not what it should be."""


class Unjudged(Exception):  # noqa: N818, no error: a case that was drawn badly
    """A case that tells nothing, for instance because its numbers are too large to be exact."""


@dataclass(frozen=True)
class Campaign:
    """An endless supply of cases of one kind."""

    name: str
    draw: Callable[[Random], Case]
    check: Callable[[Case], None]  # raises Difference, or what the call under test raises
    smaller: Callable[[Case], Iterator[Case]]  # simpler cases, the boldest steps first
    # What it counts beside cases: "excused: ..." documented differences, "counted: ..." the rest.
    counts: Counter[str] = field(default_factory=Counter)
    every: Callable[[], Iterator[Case]] | None = None  # all cases, where there is an end to them


@dataclass(frozen=True)
class Verdict:
    """What became of a case: right, refused, unjudged or fault, and the text that says why."""

    outcome: str
    kind: str = ""  # of a refusal or fault: its type and message, without numbers and names
    told: str = ""

    @property
    def is_fault(self) -> bool:
        return self.outcome == "fault"


def judge(campaign: Campaign, case: Case) -> Verdict:
    """Run one case."""
    try:
        campaign.check(case)
    except Unjudged as reason:
        return Verdict("unjudged", str(reason))
    except REFUSALS as error:
        return Verdict("refused", _kind(error), str(error))
    except Exception as error:  # noqa: BLE001, whatever a call may raise is what we look for
        return Verdict("fault", _kind(error), f"{type(error).__name__}: {error}")
    return Verdict("right")


def _kind(error: Exception) -> str:
    first = (str(error).strip().splitlines() or [""])[0]
    # The place of a source error is its own, and so are the numbers and names in a message.
    first = re.sub(r"^\S+\.(py|c):\d+(:\d+)?: ", "", first)
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "'..'", re.sub(r"-?\d+(\.\d+)?(e[+-]?\d+)?", "0", first))
    return f"{type(error).__name__}: {text[:110]}"


def accepted(
    forms: Sequence[int],
    lines: Sequence[range],
    read: Callable[[list[int]], Result],
    counts: Counter[str],
) -> tuple[list[int], Result] | None:
    """The forms that are not refused, and what reading these gives; refusals are counted.

    `lines` are those of each form in the text of all of them.
    """
    kept = list(forms)
    sizes = dict(zip(forms, map(len, lines), strict=True))
    while kept:
        try:
            return kept, read(kept)
        except lw.SourceError as error:
            reasons = {fault.span.line: _reason(fault) for fault in error.diagnostics}
            before, at = kept, lines[0].start
            kept = []
            for form in before:
                found = [reasons[k] for k in range(at, at + sizes[form]) if k in reasons]
                counts.update(f"counted: form refused: {reason}" for reason in found[:1])
                kept += [] if found else [form]
                at += sizes[form]
            if len(kept) == len(before):
                raise
    return None


def _reason(fault: Diagnostic) -> str:
    """The code and words of a refusal, without names of types and numbers."""
    names = r"'[^']*'|\b(u?int|float|complex)(8|16|32|64|128)?\b|-?\d[\d.e+]*"
    return f"{fault.code} {re.sub(names, '..', fault.message)}"


def shrunk(campaign: Campaign, case: Case, verdict: Verdict) -> tuple[Case, Verdict, bool]:
    """A simpler case with the same kind of fault, its verdict, and whether the fault repeats."""
    again = judge(campaign, case)
    if again.kind != verdict.kind:
        return case, verdict, False
    tries = 0
    found = True
    while found and tries < MOST_TRIES:
        found = False
        for simpler in campaign.smaller(case):
            tries += 1
            result = judge(campaign, simpler)
            if result.is_fault and result.kind == verdict.kind:
                case, again, found = simpler, result, True
                break
            if tries >= MOST_TRIES:
                break
    return case, again, True


def save(folder: Path, campaign: str, case: Case, verdict: Verdict, origin: str) -> Path:
    """Keep a case as a file that tests replay."""
    record = {"campaign": campaign, "found": verdict.told, "origin": origin, "case": case}
    name = sha256(json.dumps(case, sort_keys=True).encode()).hexdigest()[:8]
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{campaign}-{name}.json"
    file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return file


def pick(random: Random, *choices: Any) -> Any:
    """One of some values, each as likely as another."""
    return choices[int(random.integers(len(choices)))]


def chance(random: Random, one_in: int) -> bool:
    """True once in so many times."""
    return int(random.integers(one_in)) == 0
