"""Which programs and traps `jit` refuses today: the list may only get shorter.

`python -m numpy_programs.refusals` (with `tests` on the path) prints why each is refused, and
writes the list anew; what is wrong is not written.
"""

from __future__ import annotations

import copy
import inspect
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import loopwright as lw
from numpy_programs.corpus import PROGRAMS
from numpy_programs.outcomes import (
    called,
    difference,
    excused,
    layout_difference,
    with_python_numbers,
)
from numpy_programs.program import Program
from numpy_programs.traps import TRAPS, Trap

__all__ = ["LISTED", "verdict"]

FILE = Path(__file__).parent / "refused.txt"
LISTED = frozenset(FILE.read_text(encoding="utf-8").splitlines()) if FILE.exists() else frozenset()


def verdict(case: Program | Trap, size: str = "S") -> tuple[str, str]:
    """Whether a compiled function is right, refused or wrong, and why.

    A documented difference counts as right.
    """
    is_program = isinstance(case, Program)
    given = case.arguments(size) if is_program else case.arguments()
    right = called(case.function, copy.deepcopy(given))
    try:
        found = called(lw.jit(case.function), given, passing=(lw.SourceError, lw.UsageError))
    except (lw.SourceError, lw.UsageError) as error:
        return "refused", str(error)
    found = replace(found, result=with_python_numbers(found.result, right.result))
    if excused(inspect.getsource(case.function), found, right):
        return "right", ""
    ulps = case.ulps if is_program else 0.0
    wrong = difference(found, right, ulps) or layout_difference(found, right)
    return ("wrong" if wrong else "right"), wrong


def main() -> int:
    """Write the list; status 1 where something is wrong."""
    refused, wrong, reasons = [], 0, Counter[str]()
    cases = [*PROGRAMS.values(), *TRAPS]
    for case in cases:
        state, why = verdict(case)
        print(f"{state:8} {case.name} {why}", flush=True)
        wrong += state == "wrong"
        if state == "refused":
            refused.append(case.name)
            first = why.splitlines()[0]
            reasons[first.partition("error: ")[2] or first] += 1
    FILE.write_text("".join(f"{name}\n" for name in refused), encoding="utf-8")
    for reason, count in reasons.most_common():
        print(f"{count:5d}  {reason}")
    programs = sum(name in PROGRAMS for name in refused)
    print(f"refused: {programs} of {len(PROGRAMS)} programs, "
          f"{len(refused) - programs} of {len(TRAPS)} traps; wrong: {wrong}")  # fmt: skip
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
