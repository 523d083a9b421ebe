"""A process of `growth`: optimises `empty.c` and `k.c` of a folder, prints the second's seconds."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import time
from pathlib import Path

from loopwright.cli import main


def _clock() -> float:
    """Seconds of the processor that this process and those it waited for have taken."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _optimise(folder: Path, name: str, target: str) -> None:
    output = folder / f"{name}.out"
    main(["cc", str(folder / name), "-o", str(output), "--target", target])


if __name__ == "__main__":
    folder, target = Path(sys.argv[1]), sys.argv[2]
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        _optimise(folder, "empty.c", target)
        start = _clock()
        _optimise(folder, "k.c", target)
    print(_clock() - start)
