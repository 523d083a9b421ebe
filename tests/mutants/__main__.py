"""What the tests are worth: small faults of the source, and the tests that find each.

python -m tests.mutants coverage [--minutes 9] [tests]   record which tests reach which lines
python -m tests.mutants --check                          the table of what is killed
"""

from __future__ import annotations

import argparse

from . import coverage


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--check", action="store_true", help="print the table")
    verbs = parser.add_subparsers(dest="verb")
    coverage.add_arguments(verbs.add_parser("coverage", help="record which lines tests execute"))
    args = parser.parse_args()
    if args.verb == "coverage":
        coverage.print_coverage(coverage.record(args))


if __name__ == "__main__":
    main()
