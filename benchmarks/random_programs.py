"""Random affine programs x random legal plans x interpreter, LLVM and C: differences, if any.

    python -m benchmarks random_programs --count 2000 --seed 1

Programs have the seeds S, S + 1, ...; the same seed gives the same program, sizes, data and plans.
A difference is printed with the smallest program that still shows it.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.measure import Bar, Outcome, Setting

TESTS = Path(__file__).parent.parent / "tests"
if str(TESTS) not in sys.path:
    sys.path.insert(0, str(TESTS))

from loopwright.frontends.tree_text import tree_text  # noqa: E402
from property.random_translations import (  # noqa: E402
    Case,
    Translation,
    differences,
    differences_in_c,
    draw_case,
    draw_translations,
    smallest,
)

__all__ = ["run"]

COUNT = 2000
QUICK_COUNT = 60
BATCH = 60  # nests for one run of the C compiler
PLANS = 1  # random ones, beside the source order and the default plan


def run(setting: Setting) -> Outcome:
    """Compare as many programs as asked for."""
    count = setting.count or (QUICK_COUNT if setting.quick else COUNT)
    print(f"seeds {setting.seed} to {setting.seed + count - 1}", flush=True)
    tally: Counter[str] = Counter()
    waiting: list[Translation] = []
    start = time.thread_time()
    for at in range(count):
        case = draw_case(setting.seed + at)
        if case is None:
            tally["given up by isl or empty"] += 1
            continue
        tally["programs"] += 1
        tally["statements"] += len(case.program.statements)
        waiting += _same(case, tally)
        if len(waiting) >= BATCH:
            _compare_in_c(waiting, tally)
        if (at + 1) % max(1, count // 10) == 0:
            seconds = time.thread_time() - start
            told = f"{tally['translations']} translations, {tally['differences']} differences"
            print(f"{at + 1} seeds, {told}, {seconds:.0f} s of this thread", flush=True)
    _compare_in_c(waiting, tally)
    print("\n".join(f"{number:8d}  {what}" for what, number in sorted(tally.items())))
    row: dict[str, Any] = dict(tally)
    return Outcome((row,), (Bar("differences", tally["differences"], 0, at_most=True),))


def _same(case: Case, tally: Counter[str]) -> list[Translation]:
    """The translations of a program that make no difference so far and are to be compared in C."""
    found: list[Translation] = []
    try:
        offered = list(draw_translations(case, PLANS))
        tally["programs in source order only"] += len(offered) == 1
        for translation in offered:
            _count(translation, tally)
            if differences(translation):
                _tell(translation, tally)
            elif translation.is_compiled:
                found.append(translation)
    except Exception:  # noqa: BLE001, whatever the compiler stumbles over is a difference
        tally["differences"] += 1
        told = f"{traceback.format_exc()}\n{tree_text(case.tree)}"
        print(f"difference: seed {case.seed} fails\n{told}", flush=True)
    return found


def _count(translation: Translation, tally: Counter[str]) -> None:
    tally["translations"] += 1
    tally["runs"] += len(translation.case.meanings)
    for step in translation.plan:
        tally[f"step {step.kind}"] += 1


def _compare_in_c(waiting: list[Translation], tally: Counter[str]) -> None:
    """Compare all that waits, and forget it."""
    faulty = {id(translation): translation for translation, _ in differences_in_c(waiting)}
    for translation in faulty.values():
        _tell(translation, tally)
    waiting.clear()


def _tell(translation: Translation, tally: Counter[str]) -> None:
    tally["differences"] += 1
    least = smallest(translation)
    found = differences(least) or tuple(d for _, d in differences_in_c([least]))
    print(f"difference: {found[0] if found else 'gone when repeated'}\n{least}", flush=True)
