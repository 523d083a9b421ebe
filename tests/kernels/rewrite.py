"""C files as `loopwright cc` rewrites them for this machine."""

from __future__ import annotations

from pathlib import Path

from loopwright.calls.splice import optimise_region, spliced
from loopwright.frontends.c import read_c
from loopwright.machines.host import host
from loopwright.targets import TARGETS

__all__ = ["rewrite"]


def rewrite(source: Path, *, reassoc: bool = False, always: bool = False) -> Path:
    """Write `source` with its regions optimised for threads beside it; give the path.

    `always` replaces regions too for which the planner has no step.
    """
    file = read_c(source)
    planner = TARGETS["openmp"].planner
    results = [
        optimise_region(
            file, region, planner, host(), target="openmp", reassoc=reassoc, always=always
        )
        for region in file.regions
    ]
    place = source.with_suffix(".opt.c")
    place.write_bytes(spliced(file, results))
    return place
