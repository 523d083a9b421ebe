"""C files as `loopwright cc` rewrites them for this machine."""

from __future__ import annotations

from pathlib import Path

from loopwright.calls.splice import optimise_region, spliced
from loopwright.frontends.c import read_c
from loopwright.machines.host import host
from loopwright.targets import TARGETS

__all__ = ["rewrite"]


def rewrite(
    source: Path, *, target: str = "openmp", reassoc: bool = False, always: bool = False
) -> Path:
    """Write `source` with its regions optimised beside it, for threads; give the path.

    `always` replaces regions too for which the planner has no step.
    """
    file = read_c(source)
    planner = TARGETS[target].planner
    results = [
        optimise_region(
            file, region, planner, host(), target=target, reassoc=reassoc, always=always
        )
        for region in file.regions
    ]
    place = source.with_suffix(f".{target}.c")
    place.write_bytes(spliced(file, results))
    return place
