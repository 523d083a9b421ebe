"""`loopwright cache`: what the kernel cache holds, whether it works, and how to empty it."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from loopwright import options
from loopwright.runtime.code_memory import code_state
from loopwright.runtime.disk_cache import DiskCache, Entry

__all__ = ["add_arguments", "run"]

_MAPPINGS = Path("/proc/self/maps")
_MOST_MAPPINGS = Path("/proc/sys/vm/max_map_count")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument(
        "action",
        nargs="?",
        choices=("info", "check", "clear"),
        default="info",
        help="count the entries (the default), try every entry and the disk, or remove all entries",
    )


def run(args: argparse.Namespace) -> int:
    """Do the action; a cache that fails its check is status 1."""
    cache = DiskCache(options.cache_dir())
    match args.action:
        case "clear":
            print(f"removed {cache.clear()} files from {cache.directory}")
            return 0
        case "check":
            return _check(cache)
        case _:
            print(_description(cache))
            return 0


def _description(cache: DiskCache) -> str:
    state = cache.state()
    if not options.current().cache:
        use = f"switched off by {options.variable('cache')}"
    elif not state.usable:
        use = f"not used: the directory {state.reason}"
    else:
        use = "in use" if cache.directory.exists() else "in use from the first kernel on"
    rows = (
        ("directory", state.directory),
        ("state", use),
        ("entries", f"{state.entries} ({state.bytes} bytes)"),
        ("limit", f"{state.limit} bytes"),
        ("oldest", "none" if state.oldest is None else f"used {_day(state.oldest)}"),
        ("damaged", state.damaged),
        ("memory", _memory()),
        ("mappings", _mappings()),
    )
    return "\n".join(f"{name:<10} {value}" for name, value in rows)


def _day(moment: int) -> str:
    """A time in nanoseconds since 1970, to the second, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(moment // 10**9))


def _memory() -> str:
    """The code that this process has loaded: none where the command runs by itself."""
    state = code_state()
    count = f"{state.kernels} kernel{'' if state.kernels == 1 else 's'}"
    return f"{count} in this process ({state.bytes} bytes), limit {state.limit} bytes"


def _mappings() -> str:
    """The mappings of this process beside what the system allows: kernels take two each."""
    try:
        found = _MAPPINGS.read_bytes().count(b"\n")
        most = int(_MOST_MAPPINGS.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return "not known on this system"
    return f"{found} in this process, limit {most}; a kernel takes 2"


def _check(cache: DiskCache) -> int:
    """Report entries that would be ignored, then store and load a probe beside them."""
    print(_description(cache))
    state = cache.state()
    problems = [f"the directory {state.reason}"] if not state.usable else []
    if state.damaged:
        problems.append(f"{state.damaged} of the entries cannot be used and will be rebuilt")
    if state.usable and not _keeps_a_probe(cache):
        problems.append("a probe could not be written and read back")
    for problem in problems:
        print(f"problem: {problem}")
    if problems:
        print(f"try: loopwright cache clear, or another {options.variable('cache_dir')}")
    else:
        print("check passed")
    return 1 if problems else 0


def _keeps_a_probe(cache: DiskCache) -> bool:
    """Whether an entry can be written to this disk and read back."""
    try:
        cache.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        place = Path(tempfile.mkdtemp(prefix=".check-", dir=cache.directory))
    except OSError:
        return False
    probe, entry = DiskCache(place), Entry({"kind": "probe"}, bytes(range(256)))
    try:
        return probe.put("probe", entry) and probe.get("probe") == entry
    finally:
        probe.remove("probe")
