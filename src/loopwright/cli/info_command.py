"""`loopwright info`: what a report of a fault should contain, as text or JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
from dataclasses import asdict, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from loopwright import options
from loopwright.diagnostics import LoopwrightError
from loopwright.faults import recorded_faults
from loopwright.machines.host import available_cores
from loopwright.machines.machine_argument import target_machine
from loopwright.runtime.disk_cache import DiskCache

__all__ = ["add_arguments", "collect", "run"]

PACKAGES = ("numpy", "islpy", "llvmlite")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(args: argparse.Namespace) -> int:
    """Print the report."""
    report = collect()
    print(json.dumps(report, indent=2) if args.json else _text(report))
    return 0


def collect() -> dict[str, Any]:
    """Return the report as plain data; a part that cannot be found out holds the reason."""
    settings = options.current()
    return {
        "loopwright": _version("loopwright"),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in PACKAGES},
        "llvm": _llvm(),
        "machine": _machine(),
        "threads": settings.num_threads or available_cores(),
        "cache": _cache(settings),
        "faults": asdict(recorded_faults()),
        "options": {
            options.variable(field.name): getattr(settings, field.name)
            for field in fields(settings)
            if getattr(settings, field.name) != field.default
        },
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _llvm() -> str:
    try:
        # lazy: a broken LLVM is one of the faults this report must survive
        from loopwright.runtime.llvm_engine import llvm_version
    except (ImportError, OSError) as error:
        return f"cannot be loaded: {error}"
    return llvm_version()


def _machine() -> dict[str, Any]:
    try:
        machine = target_machine()
    except LoopwrightError as error:
        return {"name": "unknown", "description": str(error), "caches": []}
    kept = ("name", "description", "isa", "llvm_cpu", "vector_bytes", "cores")
    facts: dict[str, Any] = {name: getattr(machine, name) for name in kept}
    return facts | {"caches": [asdict(cache) for cache in machine.caches]}


def _cache(settings: options.Options) -> dict[str, Any]:
    directory = options.cache_dir()
    state = DiskCache(directory).state()
    use = state.reason or ("ready" if directory.exists() else "not there yet")
    return {
        "directory": _short(directory),
        "state": use if settings.cache else "switched off",
        "entries": state.entries,
        "bytes": state.bytes,
    }


def _short(path: Path) -> str:
    """Return the path with the home directory as ~: reports are made to be shown."""
    home = Path(os.path.expanduser("~"))
    return str("~" / path.relative_to(home)) if path.is_relative_to(home) else str(path)


def _text(report: dict[str, Any]) -> str:
    machine, cache = report["machine"], report["cache"]
    rows = [
        ("loopwright", report["loopwright"]),
        ("python", report["python"]),
        ("platform", report["platform"]),
        *report["packages"].items(),
        ("LLVM", report["llvm"]),
        ("machine", f"{machine['name']}: {machine['description']}"),
        *((f"  L{c['level']} cache", _cache_text(c)) for c in machine["caches"]),
        ("threads", report["threads"]),
        ("kernel cache", "{directory} ({state}, {entries} entries, {bytes} bytes)".format(**cache)),
        ("faults of ours", _faults_text(**report["faults"])),
        ("options", "as follows" if report["options"] else "all as by default"),
    ]
    settings = (f"  {name}={_value_text(value)}" for name, value in report["options"].items())
    return "\n".join([*(f"{name:<15} {value}" for name, value in rows), *settings])


def _faults_text(count: int, last: str) -> str:
    return f"{count} passed over, the last: {last}" if count else "none met"


def _value_text(value: object) -> str:
    """Return an option as one would write it in the environment."""
    if isinstance(value, tuple):
        return ",".join(value)
    return str(int(value)) if isinstance(value, bool) else str(value)


def _cache_text(cache: dict[str, int]) -> str:
    size = f"{cache['size'] // 1024} KiB, {cache['ways']} ways, lines of {cache['line']} bytes"
    return size + (f", shared by {cache['shared_by']}" if cache["shared_by"] > 1 else "")
