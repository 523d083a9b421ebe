"""Run the campaigns for some minutes: `python -m outside.campaigns.soak --minutes 30`.

The campaigns take turns in one child process, so that caches fill, evict and fill again. Before a
case runs it is written down: if the process dies of it, the parent knows the case, keeps it and
starts another child. Every new kind of fault is shrunk and kept in a folder of regressions.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from outside.campaigns import (
    c_types,
    contraction_programs,
    einsums,
    memory_safety,
    mesh_programs,
    numpy_functions,
    operator_types,
    path_problems,
    pointer_programs,
    reader_texts,
    resource_faults,
    scalar_programs,
    sparse_formats,
    tiled_nests,
)
from outside.campaigns.campaign import REGRESSIONS, Campaign, Case, Verdict, judge, save, shrunk

MAKERS = {
    "einsums": einsums.campaign,
    "contraction_programs": contraction_programs.campaign,
    "sparse_formats": sparse_formats.campaign,
    "memory_safety": memory_safety.campaign,
    "mesh_programs": mesh_programs.campaign,
    "path_problems": path_problems.campaign,
    "scalar_programs": scalar_programs.campaign,
    "tiled_nests": tiled_nests.campaign,
    "pointer_programs": pointer_programs.campaign,
    "numpy_functions": numpy_functions.campaign,
    "operator_types": operator_types.campaign,
    "resource_faults": resource_faults.campaign,
    "c_types": c_types.campaign,
    **{f"{name}_texts": partial(reader_texts.campaign, name) for name in reader_texts.READERS},
}
ENDING = [name for name, make in MAKERS.items() if make().every is not None]
TURN = 10.0  # seconds that a campaign runs before it is another one's turn
MOST_KEPT = 3  # faults of one kind that are shrunk and kept


@dataclass
class Tally:
    """What became of the cases so far; the child writes it, the parent adds up."""

    outcomes: Counter[str] = field(default_factory=Counter)  # "einsums: right" -> cases
    kinds: Counter[str] = field(default_factory=Counter)  # "einsums: refused: ..." -> cases
    kept: dict[str, str] = field(default_factory=dict)  # kind of fault -> the file it is kept in

    def note(self, name: str, verdict: Verdict) -> None:
        self.outcomes[f"{name}: {verdict.outcome}"] += 1
        if verdict.kind:
            self.kinds[f"{name}: {verdict.outcome}: {verdict.kind}"] += 1

    def count(self, campaign: Campaign) -> None:
        """Add what a campaign has counted since it was asked before."""
        for what, count in campaign.counts.items():
            self.kinds[f"{campaign.name}: {what}"] += count
        campaign.counts.clear()

    @property
    def faults(self) -> int:
        return sum(n for kind, n in self.outcomes.items() if kind.endswith(": fault"))

    def add(self, other: dict[str, Any]) -> None:
        self.outcomes.update(other["outcomes"])
        self.kinds.update(other["kinds"])
        self.kept.update(other["kept"])

    def line(self) -> str:
        parts = []
        for name in MAKERS:
            counts = {k.split(": ")[1]: n for k, n in self.outcomes.items() if k.startswith(name)}
            if counts:
                told = ", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items()))
                parts.append(f"{name}: {told}")
        return "; ".join(parts)


def run_cases(names: list[str], seed: int, seconds: float, folder: Path, state: Path) -> None:
    """The child: campaigns in turns until the time is over; cases and tally go to `state`."""
    tally = Tally()
    campaigns = [MAKERS[name]() for name in names]
    randoms = [np.random.default_rng([seed, k]) for k, _ in enumerate(campaigns)]
    indices = [0] * len(campaigns)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for k, campaign in enumerate(campaigns):
            turn = min(end, time.monotonic() + TURN)
            while time.monotonic() < turn:
                case = campaign.draw(randoms[k])
                origin = f"seed {seed}, case {indices[k]}"
                indices[k] += 1
                _write(
                    state / "case.json", {"campaign": campaign.name, "origin": origin, "case": case}
                )
                verdict = judge(campaign, case)
                tally.note(campaign.name, verdict)
                tally.count(campaign)
                if verdict.is_fault:
                    _keep(tally, campaign, case, verdict, origin, folder)
                _write(state / "tally.json", vars(tally))
            print(f"{seconds - (end - time.monotonic()):6.0f} s  {tally.line()}", flush=True)


def run_all(campaign: Campaign, folder: Path) -> Tally:
    """Run all cases of a campaign that has an end."""
    assert campaign.every is not None
    tally = Tally()
    for number, case in enumerate(campaign.every()):
        verdict = judge(campaign, case)
        tally.note(campaign.name, verdict)
        tally.count(campaign)
        if verdict.is_fault:
            _keep(tally, campaign, case, verdict, f"case {number} of all", folder)
        if number % 20 == 0:
            print(f"{number:6d}  {tally.line()}", flush=True)
    return tally


def _keep(
    tally: Tally, campaign: Campaign, case: Case, verdict: Verdict, origin: str, folder: Path
) -> None:
    """Shrink a fault and keep it, if there are few of its kind."""
    if sum(kind.startswith(verdict.kind) for kind in tally.kept) >= MOST_KEPT:
        return
    small, found, repeats = shrunk(campaign, case, verdict)
    told = origin if repeats else f"{origin}; not repeated when run again"
    file = save(folder, campaign.name, small, found, told)
    tally.kept[f"{verdict.kind} #{origin}"] = str(file)
    print(f"FAULT {campaign.name}, {told}: {found.told[:2000]}\n  kept in {file}", flush=True)


def _write(file: Path, content: dict[str, Any]) -> None:
    """Replace a small file in one step."""
    other = file.with_suffix(".new")
    other.write_text(json.dumps(content), encoding="utf-8")
    other.replace(file)


def _read(file: Path) -> dict[str, Any] | None:
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


def main() -> int:
    """The parent: start children until the time is over, then tell what was found."""
    parser = argparse.ArgumentParser(prog="soak", description="Run random campaigns.")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=None, help="of the first child")
    parser.add_argument("--only", choices=list(MAKERS), action="append", help="some campaigns")
    parser.add_argument("--all", choices=ENDING, help="every case of one campaign, no minutes")
    parser.add_argument("--keep", type=Path, default=REGRESSIONS, help="where faults are kept")
    parser.add_argument("--state", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    names = args.only or list(MAKERS)
    if args.all is not None:
        return _summary(run_all(MAKERS[args.all](), args.keep))
    seed = int(time.time()) if args.seed is None else args.seed
    if args.state is not None:
        run_cases(names, seed, 60 * args.minutes, args.keep, args.state)
        return 0
    total = Tally()
    end = time.monotonic() + 60 * args.minutes
    while (left := end - time.monotonic()) > 1:
        print(f"seed {seed}: {', '.join(names)} for {left:.0f} s", flush=True)
        _run_child(total, names, seed, left, args.keep)
        seed += 1
    return _summary(total)


def _run_child(total: Tally, names: list[str], seed: int, seconds: float, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        state = Path(name)
        command = [
            sys.executable, "-X", "faulthandler", "-m", "outside.campaigns.soak",
            "--state", name, "--seed", str(seed), "--minutes", str(seconds / 60),
            "--keep", str(folder), *(f"--only={campaign}" for campaign in names),
        ]  # fmt: skip
        # Freed memory is overwritten, so that whoever still reads it is found out at once; a fault
        # of planning is told, where users would get a simpler plan.
        environment = {"MALLOC_PERTURB_": "165", "LOOPWRIGHT_STRICT": "1", **os.environ}
        # The last case may take long, and so may the shrinking of a fault.
        status = subprocess.run(command, env=environment, timeout=seconds + 900).returncode
        total.add(_read(state / "tally.json") or vars(Tally()))
        last = _read(state / "case.json")
        if status != 0 and last is not None:
            verdict = Verdict("fault", f"the process ended with {status}", f"status {status}")
            total.note(last["campaign"], verdict)
            file = save(folder, last["campaign"], last["case"], verdict, last["origin"])
            print(f"FAULT: the process ended with {status}, kept in {file}", flush=True)


def refused_shares(total: Tally) -> list[str]:
    """For each campaign with refusals, their share of the cases that were judged."""
    lines = []
    for name in MAKERS:
        states = ("right", "refused", "fault")
        right, refused, faults = (total.outcomes[f"{name}: {state}"] for state in states)
        if refused:
            share = refused / (right + refused + faults)
            lines.append(f"{name}: {share:.1%} of the cases are refused")
    return lines


def _summary(total: Tally) -> int:
    print(f"\n{sum(total.outcomes.values())} cases. {total.line()}")
    print("\n".join(refused_shares(total)))
    for outcome in ("fault", "refused", "unjudged", "excused", "counted"):
        told = [(n, kind) for kind, n in total.kinds.items() if f": {outcome}: " in kind]
        for count, kind in sorted(told, reverse=True):
            print(f"{count:7d}  {kind}")
    print(f"{total.faults} differences and undocumented exceptions")
    return 1 if total.faults else 0


if __name__ == "__main__":
    sys.exit(main())
