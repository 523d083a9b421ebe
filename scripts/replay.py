"""Compare what the compiler emits with a record of it, byte by byte, for machines one need not own.

    python scripts/replay.py check [--machine M] [--only PATTERN] [--quick] [--jobs 2]
    python scripts/replay.py record [the same]
    python scripts/replay.py show NAME --machine M [--stage llvm]

A record (scripts/data/replay/MACHINE.txt) has a line per entry of the corpus with the hash of each
stage: the plan, the loops, the C and the LLVM IR. A redesign that keeps behaviour leaves it as it
is; one that changes code shows in its diff which. `show` prints the stages of one entry: run it in
two checkouts and compare the output with diff.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TypeAlias

from replay_corpus import MACHINES, Entry, entries
from replay_stages import STAGES, Stages, target_machine

from loopwright.diagnostics import LoopwrightError
from loopwright.faults import FAULTS

RECORDS = Path(__file__).parent / "data" / "replay"
PARTS = 4  # processes per machine: entries of one machine are dealt out to these
MOST_TOLD = 40  # entries that are named per machine
NEW, GONE = "not recorded", "no longer there"
ERROR = "error"  # in the place of a stage where an entry could not be compiled
Hashes: TypeAlias = dict[str, str]  # stage -> hash
Record: TypeAlias = dict[str, Hashes]  # entry -> hashes of its stages


def main(argv: list[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    if args.verb == "show":
        return _show(args.name, args.machine or MACHINES[0], args.stage)
    machines = (args.machine,) if args.machine else MACHINES
    found = _compiled(machines, args.only, args.quick, args.jobs)
    act = _check if args.verb == "check" else _write
    is_whole = args.only is None and not args.quick
    return max([act(machine, found[machine], is_whole) for machine in machines])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Compare emitted code with a record of it.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, what in (("check", "compare with the record"), ("record", "write the record")):
        sub = verbs.add_parser(verb, help=what)
        sub.add_argument("--machine", choices=MACHINES, help="one machine; all by default")
        sub.add_argument("--only", metavar="PATTERN", help="entries of this name: 'einsum.*.t4'")
        sub.add_argument("--quick", action="store_true", help="the part that the tests replay")
        sub.add_argument("--jobs", type=int, default=2, help="processes at a time (2)")
    show = verbs.add_parser("show", help="print the stages of one entry")
    show.add_argument("name")
    show.add_argument("--machine", choices=MACHINES)
    show.add_argument("--stage", choices=STAGES, help="one stage; all by default")
    return parser


# -- compiling ------------------------------------------------------------------------------------


def _compiled(
    machines: Iterable[str], only: str | None, quick: bool, jobs: int
) -> dict[str, Record]:
    """The hashes of the corpus for each machine, compiled by several processes."""
    parts = PARTS if only is None and not quick else 1  # each part starts a process
    tasks = [(machine, part) for machine in machines for part in range(parts)]
    found: dict[str, Record] = {machine: {} for machine, _ in tasks}
    work = partial(_compile_part, parts=parts, only=only, quick=quick)
    # A process compiles for one machine, see target_machine.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, max_tasks_per_child=1) as pool:
        for (machine, part), record in zip(tasks, pool.map(work, tasks), strict=True):
            found[machine] |= record
            print(f"{machine}: part {part + 1} of {parts} is compiled", file=sys.stderr)
    return found


def _compile_part(task: tuple[str, int], parts: int, only: str | None, quick: bool) -> Record:
    machine, part = task
    target_machine(machine)
    chosen = [
        entry
        for entry in entries(machine)
        if (only is None or fnmatchcase(entry.name, only)) and (entry.is_quick or not quick)
    ]
    return {entry.name: _hashes(_stages(entry)) for entry in chosen[part::parts]}


def _stages(entry: Entry) -> Stages:
    """The stages of an entry; in their place what went wrong."""
    try:
        return entry.stages()
    except (LoopwrightError, *FAULTS) as error:
        return {ERROR: f"{type(error).__name__}: {error}"}


def _hashes(stages: Stages) -> Hashes:
    if ERROR in stages:
        return {ERROR: stages[ERROR].splitlines()[0]}
    return {stage: hashlib.sha256(text.encode()).hexdigest()[:12] for stage, text in stages.items()}


# -- records --------------------------------------------------------------------------------------


def _read(machine: str) -> Record:
    """The record of a machine: lines of a name and stage=hash pairs."""
    path = RECORDS / f"{machine}.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    split = (line.split() for line in lines)
    return {name: dict(pair.split("=") for pair in pairs) for name, *pairs in split}


def _write(machine: str, found: Record, is_whole: bool) -> int:
    """Store what was found, unless something went wrong; tell what is new about it."""
    failed = _failed(machine, found)
    if failed:
        return 1
    before = _read(machine)
    now = found if is_whole else before | found
    lines = [
        " ".join([name, *(f"{stage}={value}" for stage, value in hashes.items())])
        for name, hashes in sorted(now.items())
    ]
    RECORDS.mkdir(parents=True, exist_ok=True)
    (RECORDS / f"{machine}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    _tell(machine, before, now)
    return 0


def _check(machine: str, found: Record, is_whole: bool) -> int:
    """Compare what was found with the record; 1 where they differ."""
    before = _read(machine)
    failed = _failed(machine, found)
    same = {name: hashes for name, hashes in found.items() if ERROR not in hashes}
    kept = before if is_whole else {name: before[name] for name in found if name in before}
    return max(failed, _tell(machine, kept, same))


def _failed(machine: str, found: Record) -> int:
    """Print the entries that could not be compiled; 1 where there are some."""
    for name, hashes in sorted(found.items()):
        if ERROR in hashes:
            print(f"{machine}: {name}: {hashes[ERROR]}")
    return int(any(ERROR in hashes for hashes in found.values()))


def _tell(machine: str, before: Record, now: Record) -> int:
    """Print which entries differ, each with the first stage that does; 1 where there are some."""
    names = sorted(before.keys() | now.keys())
    found = {name: _differing(before.get(name), now.get(name)) for name in names}
    changed = {name: stages for name, stages in found.items() if stages}
    for name, stages in list(changed.items())[:MOST_TOLD]:
        print(f"{machine}: {name}: {', then '.join(stages)}")
    if len(changed) > MOST_TOLD:
        print(f"{machine}: ... and {len(changed) - MOST_TOLD} more")
    counts = Counter(stage for stages in changed.values() for stage in stages)
    told = ", ".join(f"{stage} {count}" for stage, count in counts.items())
    equal = len(found) - len(changed)
    print(f"{machine}: {equal} of {len(found)} entries equal" + (told and f"; different: {told}"))
    return int(bool(changed))


def _differing(before: Hashes | None, now: Hashes | None) -> list[str]:
    """The stages that differ, in the order in which the compiler makes them."""
    if before is None or now is None:
        return [NEW if before is None else GONE]
    return [stage for stage in STAGES if before.get(stage) != now.get(stage)]


def _show(name: str, machine: str, stage: str | None) -> int:
    """Print the stages of one entry."""
    target_machine(machine)
    chosen = [entry for entry in entries(machine) if entry.name == name]
    if not chosen:
        print(f"no entry '{name}' for {machine}", file=sys.stderr)
        return 1
    for found, text in _stages(chosen[0]).items():
        if stage is None or found == stage:
            print(f"== {found} ==\n{text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
