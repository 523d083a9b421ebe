"""`loopwright calibrate`: measure this processor, compare with its data file, store the result."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from loopwright.cli.progress import StatusLine
from loopwright.diagnostics import UsageError
from loopwright.ir.machine import Machine
from loopwright.machines.calibration import Calibration, write_calibration
from loopwright.machines.host import host, host_machine
from loopwright.runtime.calibrate import calibrate

__all__ = ["add_arguments", "run"]

# The tables of Calibration, which are fields of OpCost too, and their titles.
_QUANTITIES = (("per_cycle", "per cycle"), ("latency", "latency"), ("accumulate", "by addend"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("--dry-run", action="store_true", help="measure and show, store nothing")


def run(args: argparse.Namespace) -> int:
    """Measure, print, store."""
    machine = host_machine()
    print(f"measuring {machine.llvm_cpu}, known as {machine.name}; a few seconds")
    with StatusLine(sys.stdout, lines=True) as line:
        found = calibrate(machine, report=line.show)
    print("\n".join(_lines(machine, found)))
    if args.dry_run:
        return 0
    try:
        path = write_calibration(found)
    except OSError as error:
        raise UsageError(
            f"the calibration cannot be stored: {error.strerror}",
            found=str(error.filename),
            hint="another directory in LOOPWRIGHT_CACHE_DIR",
        ) from error
    host.cache_clear()
    print(f"stored in {path}; used from now on in every process on this processor")
    return 0


def _lines(machine: Machine, found: Calibration) -> Iterator[str]:
    """Yield the measured numbers beside those of the data file; `*` marks a difference."""
    yield f"{'':<28}{'measured':>10}{'data file':>12}"
    yield _line("clock, GHz", found.frequency_hz / 1e9, _scaled(machine.frequency_hz))
    for key in sorted({*found.per_cycle, *found.latency, *found.accumulate}):
        known = machine.arithmetic.get(key)
        for name, words in _QUANTITIES:
            measured = getattr(found, name).get(key)
            if measured is not None:
                yield _line(f"{' '.join(key)} {words}", measured, getattr(known, name, None))
    if found.load_latency is not None:
        yield _line("load latency", found.load_latency, machine.load_latency)
    for cache, rate in zip(machine.caches, found.cache_bytes_per_cycle, strict=False):
        yield _line(f"L{cache.level} bytes per cycle", rate, cache.bytes_per_cycle)
    if found.memory_bytes_per_cycle is not None:
        known_rate = machine.memory_bytes_per_cycle
        yield _line("memory bytes per cycle", found.memory_bytes_per_cycle, known_rate)
    for threads, cycles in found.parallel:
        yield _line(f"region of {threads} threads", cycles, machine.parallel_cost.cycles(threads))


def _scaled(frequency: float | None) -> float | None:
    return None if frequency is None else frequency / 1e9


def _line(title: str, measured: float, known: float | None) -> str:
    if known is None:
        return f"{title:<28}{measured:>10.4g}{'-':>12}"
    differs = abs(measured - known) > 0.1 * known
    return f"{title:<28}{measured:>10.4g}{known:>12.4g}{' *' if differs else ''}"
