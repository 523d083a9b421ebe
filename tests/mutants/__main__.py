"""What the tests are worth: small faults of the source, and the first test that finds each.

python -m tests.mutants coverage [TESTS]   record which lines each test executes
python -m tests.mutants draw               draw 200 mutants of lines that tests reach
python -m tests.mutants kill               run the tests against each; goes on where it ended
python -m tests.mutants --check            the table of what is killed, and what survives
"""

from __future__ import annotations

import argparse
from collections import Counter

from . import coverage, kill
from .draw import draw
from .mutant import MISCOMPILES, MUTANTS, TEN_FAULTS, Mutant, read_mutants, write_mutants
from .reached import SOURCE, Reached, package_of

LISTS = (MUTANTS, MISCOMPILES, TEN_FAULTS)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--check", action="store_true", help="print the table")
    verbs = parser.add_subparsers(dest="verb")
    coverage.add_arguments(verbs.add_parser("coverage", help="record which lines tests execute"))
    verbs.add_parser("draw", help="draw mutants of the lines that tests reach")
    kill.add_arguments(verbs.add_parser("kill", help="run the tests against each mutant"))
    args = parser.parse_args()
    if args.verb == "coverage":
        coverage.print_coverage(coverage.record(args))
    elif args.verb == "draw":
        write_mutants(MUTANTS, draw(Reached.load()))
    elif args.verb == "kill":
        every = {path: read_mutants(path) for path in LISTS if path.exists()}
        results = kill.kill([m for found in every.values() for m in found], Reached.load(), args)
        for path, mutants in every.items():
            write_mutants(path, kill.with_findings(mutants, results))
    if args.check or args.verb == "kill":
        for path in LISTS:
            if path.exists():
                print_table(read_mutants(path))


def print_table(mutants: list[Mutant]) -> None:
    """Print killed mutants by package and kind, and those that survive."""
    for title, word in (("package", lambda m: package_of(m.file)), ("kind", lambda m: m.kind)):
        every = Counter(word(mutant) for mutant in mutants)
        killed = Counter(word(m) for m in mutants if m.finding and m.finding.killed_by)
        print(f"{title:14} killed  of")
        for name, count in sorted(every.items()):
            print(f"{name:14} {killed[name]:6} {count:3}")
    killed_all = sum(m.finding is not None and m.finding.killed_by is not None for m in mutants)
    print(f"{'all':14} {killed_all:6} {len(mutants):3}")
    for mutant in mutants:
        where = f"{mutant.file}:{mutant.within or 'module'}"
        if mutant.lines((SOURCE / mutant.file).read_text(encoding="utf-8")) is None:
            print(f"the source has changed: {where} {mutant.kind} {mutant.name}")
        elif mutant.finding is None:
            print(f"not run yet: {where} {mutant.kind} {mutant.name}")
        elif mutant.finding.killed_by is None:
            tests = f"{mutant.finding.tests} of {mutant.finding.of} tests"
            print(f"survives {tests}: {where} {mutant.kind} {mutant.name}")
            print(f"  - {mutant.before.strip()}\n  + {mutant.after.strip()}")


if __name__ == "__main__":
    main()
