"""One process whose compiles are broken off again and again, as by Ctrl-C, and then done.

    python tests/outside/broken_off_child.py --seconds 20 --seed 1

Every program is new. The handler of a timer raises at a moment of its own choice while the program
is read, planned, compiled and run, several times over; in between it fires without raising. At last
nothing raises and the results are compared. Prints a line of JSON: what was done.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from long_lived_child import Calls, Interrupted

EVERY_SECONDS = 0.0005
MOST_SECONDS = 600  # of one program; then all threads are told, and the process ends
TIMES = 5  # that one program is broken off
LONGEST = 400  # signals before one raises


class BrokenOff:
    """A timer whose handler raises at one signal of many."""

    def __init__(self, seed: int, done: Counter[str]) -> None:
        self.random = random.Random(seed)
        self.done = done
        self.left = 0  # signals until a handler raises; none does at 0
        signal.signal(signal.SIGALRM, self.handle)
        signal.setitimer(signal.ITIMER_REAL, EVERY_SECONDS, EVERY_SECONDS)

    def handle(self, *_: Any) -> None:
        self.done["signals"] += 1
        if self.left:
            self.left -= 1
            if self.left == 0:
                self.done["broken off"] += 1
                raise Interrupted

    def finish(self, work: Callable[[], Any]) -> Any:
        """What work gives at last."""
        for _ in range(TIMES):
            left = int(LONGEST ** self.random.random())
            try:
                self.left = left
                work()
                self.left = 0
            except Interrupted:
                pass
        return work()


class Programs(Calls):
    """Draws programs, each unlike all others."""

    def is_new(self, known: list[Any], every: int) -> bool:
        return True

    def program(self, number: int) -> None:
        """Compile one program and compare its results."""
        match number % 4:
            case 0:
                self.patterns.clear()
                self.finish(self.einsum())
            case 1:
                self.finish(self.jit_call(self.lw.jit(self.written(number))))
            case 2:
                target = self.random.choice(("host", "openmp", "c"))
                function = self.finish(lambda: self.compiled(number, target))
                self.finish(self.compiled_call(number, function))
            case _:
                self.finish(self.sparse_call())


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--least", type=int, default=0, help="times broken off, at the least")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    faulthandler.enable()
    done: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        broken_off = BrokenOff(args.seed, done)
        programs = Programs(args.seed, Path(folder), done, broken_off.finish)
        end = time.monotonic() + args.seconds
        while time.monotonic() < end or done["broken off"] < args.least:
            faulthandler.dump_traceback_later(MOST_SECONDS, exit=True)
            programs.program(done["programs"])
            done["programs"] += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
    print(json.dumps(done))
    return 0


if __name__ == "__main__":
    sys.exit(main())
