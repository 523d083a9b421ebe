"""The machine this process runs on: nearest known data, corrected by what the system says.

Order of trust: a calibration of this processor (`loopwright calibrate`), then the caches the kernel
reports, then the data file of the nearest known machine. Nothing here fails on a strange system: a
part that cannot be read keeps the value of the data file.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable
from dataclasses import replace
from functools import cache

from loopwright.ir.machine import Cache, Machine
from loopwright.machines.calibration import calibrated, read_calibration
from loopwright.machines.identify import CpuIdentity, identify, nearest_machine
from loopwright.machines.load import load_machine

__all__ = ["available_cores", "host", "host_cpu", "host_machine", "processor_text", "system_caches"]

CPUINFO = "/proc/cpuinfo"
CACHES = "/sys/devices/system/cpu/cpu0/cache"
TOPOLOGY = "/sys/devices/system/cpu"
# Fields of cpuinfo that say which processor it is; others change while it runs.
_NAMES = frozenset({
    "vendor_id", "cpu family", "model", "model name", "stepping", "flags", "CPU implementer",
    "CPU architecture", "CPU variant", "CPU part", "Features", "cpu", "revision", "isa", "machine",
})  # fmt: skip
_ISAS = {"arm64": "aarch64", "amd64": "x86_64"}


@cache
def host() -> Machine:
    """The machine of this process, calibrated when a measurement of this processor is stored."""
    machine = host_machine()
    found = read_calibration(machine.llvm_cpu)
    return machine if found is None else calibrated(machine, found)


@cache
def host_cpu() -> CpuIdentity:
    """Instruction set, LLVM name and extensions of the processor this process runs on."""
    isa = platform.machine().lower()
    identity = identify(_text(CPUINFO), _ISAS.get(isa, isa))
    if identity.llvm_cpu is not None:
        return identity
    return replace(identity, llvm_cpu=_llvm_host_name())


@cache
def processor_text() -> str:
    """All that decides which instructions this processor has: equal only where they are equal."""
    lines = (line.partition(":") for line in _text(CPUINFO).splitlines())
    found = {(name.strip(), value.strip()) for name, _, value in lines if name.strip() in _NAMES}
    return str(sorted(found)) if found else str(host_cpu())


def host_machine() -> Machine:
    """The host as the data files and the system describe it, without calibration."""
    return described(host_cpu(), system_caches(), available_cores())


def described(identity: CpuIdentity, caches: tuple[Cache, ...], cores: int) -> Machine:
    """The nearest known machine, with the identity, caches and cores of an actual system."""
    nearest = load_machine(nearest_machine(identity))
    sources = dict(nearest.sources)
    exact = nearest.llvm_cpu == identity.llvm_cpu
    if not exact:
        note = f"{nearest.name} as the nearest known machine: "
        sources = {key: note + text for key, text in sources.items()}
    features = nearest.features & identity.features
    sources |= {"isa": "the system", "llvm_cpu": "processor identification", "features": "cpuinfo"}
    sources |= {"cores": "affinity, cgroup quota and topology of this process"}
    if caches:
        sources["caches"] = "Linux sysfs"
    return replace(
        nearest,
        description=nearest.description if exact else f"{identity.llvm_cpu}, by {nearest.name}",
        llvm_cpu=identity.llvm_cpu or nearest.llvm_cpu,
        features=features,
        caches=_completed(caches, nearest.caches) if caches else nearest.caches,
        arithmetic={k: c for k, c in nearest.arithmetic.items() if _is_offered(k, features)},
        cores=cores,
        frequency_hz=nearest.frequency_hz if exact else None,
        sources=sources,
    )


def _is_offered(row: tuple[str, str], features: frozenset[str]) -> bool:
    """True unless the row needs an extension that the nearest machine has and this one lacks."""
    if row == ("dot", "int8"):
        return bool(features & {"dotprod", "avx512vnni", "avxvnni"})
    return row[1] != "float16" or "fp16" in features


def _llvm_host_name() -> str:
    """LLVM's own answer, for processors that are not in our tables."""
    # lazy: loading LLVM takes longer than everything else here together, see identify.py
    import llvmlite.binding as llvm

    return str(llvm.get_host_cpu_name())


def _completed(found: tuple[Cache, ...], known: tuple[Cache, ...]) -> tuple[Cache, ...]:
    """`found` with ways and lines that the system does not report taken from the data file."""
    result = []
    for level, cache_ in enumerate(found):
        like = known[min(level, len(known) - 1)]
        ways, line = cache_.ways or like.ways, cache_.line or like.line
        rate = like.bytes_per_cycle if like.level == cache_.level else None
        result.append(replace(cache_, ways=ways, line=line, bytes_per_cycle=rate))
    return tuple(result)


def system_caches(folder: str = CACHES) -> tuple[Cache, ...]:
    """Data and unified caches as the kernel reports them, else as lscpu does; empty when neither.

    Ways and line are 0 where the system does not say.
    """
    found: dict[int, Cache] = {}
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    for name in names:
        place = os.path.join(folder, name)
        level, size = _whole(f"{place}/level"), _bytes(_text(f"{place}/size"))
        if _text(f"{place}/type").strip() not in ("Data", "Unified") or not (level and size):
            continue
        ways, line = (
            _whole(f"{place}/ways_of_associativity"),
            _whole(f"{place}/coherency_line_size"),
        )
        shared = len(_cpu_list(_text(f"{place}/shared_cpu_list"))) or 1
        found[level] = Cache(level, size, ways, line, shared)
    in_order = tuple(found[level] for level in sorted(found))
    if [c.level for c in in_order] == list(range(1, len(in_order) + 1)) and in_order:
        return in_order
    return _lscpu_caches() if folder == CACHES else ()


def _lscpu_caches() -> tuple[Cache, ...]:
    from loopwright.child_process import call  # lazy: needed only where sysfs has no caches

    command = ["lscpu", "--caches", "--json", "--bytes"]
    try:
        rows = json.loads(call(command, seconds=5).output)["caches"]
        data = [r for r in rows if r["type"] in ("Data", "Unified")]
        return tuple(
            Cache(
                int(r["level"]),
                int(r["one-size"]),
                int(r["ways"] or 0),
                int(r["coherency-size"] or 0),
                max(1, int(r["one-size"]) and int(r["all-size"]) // int(r["one-size"])),
            )
            for r in sorted(data, key=lambda r: int(r["level"]))
        )
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def available_cores() -> int:
    """Physical cores this process may use: its affinity and its cgroup's quota, SMT counted once.

    Thread-count variables belong to the thread code, which knows how many it wants of these.
    """
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    cpus = os.sched_getaffinity(0)
    cores = {
        _text(f"{TOPOLOGY}/cpu{cpu}/topology/thread_siblings_list").strip() or str(cpu)
        for cpu in cpus
    }
    quota = _cgroup_quota(_text)
    return max(1, len(cores) if quota is None else min(len(cores), round(quota + 0.49)))


def _cgroup_quota(read: Callable[[str], str]) -> float | None:
    """The number of processors the control group grants, None when it is not limited.

    A group is bounded by all groups above it, so the smallest quota on the path counts.
    """
    quotas: list[float] = []
    for entry in read("/proc/self/cgroup").splitlines():
        _, _, rest = entry.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = "/sys/fs/cgroup" + ("/cpu" if controllers else "")
        parts = [p for p in path.split("/") if p and p != ".."]
        for depth in range(len(parts) + 1):
            place = "/".join([root, *parts[:depth]])
            if controllers:
                words = [read(f"{place}/cpu.cfs_quota_us"), read(f"{place}/cpu.cfs_period_us")]
            else:
                words = read(f"{place}/cpu.max").split()
            if len(words) == 2 and words[0].strip().isdigit() and words[1].strip().isdigit():
                quotas.append(int(words[0]) / max(1, int(words[1])))
    return min(quotas, default=None)


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _whole(path: str) -> int:
    text = _text(path).strip()
    return int(text) if text.isascii() and text.isdigit() else 0


def _bytes(text: str) -> int:
    """`64K` -> 65536."""
    text = text.strip()
    scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
    digits = text.rstrip("KMG")
    return int(digits) * scale if digits.isascii() and digits.isdigit() else 0


def _cpu_list(text: str) -> list[int]:
    """`0-2,8` -> [0, 1, 2, 8]."""
    cpus: list[int] = []
    for part in text.strip().split(","):
        low, _, high = part.partition("-")
        if low.isdigit():
            cpus += range(int(low), int(high or low) + 1)
    return cpus
