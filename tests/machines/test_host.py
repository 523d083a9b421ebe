"""The host: what the system says laid over the nearest data, and nothing that can fail."""

import subprocess
import sys
from pathlib import Path

import pytest

from loopwright.ir.machine import Cache
from loopwright.machines import load_machine
from loopwright.machines.host import (
    _cgroup_quota,
    described,
    host_cpu,
    system_caches,
)
from loopwright.machines.identify import CpuIdentity


def write_cache(folder: Path, index: int, **values: str) -> None:
    place = folder / f"index{index}"
    place.mkdir(parents=True)
    for name, value in values.items():
        (place / name).write_text(value + "\n", encoding="utf-8")


def test_host_is_found_without_llvm_and_numpy() -> None:
    """On a hit of the disk cache the name is all we need of LLVM."""
    if host_cpu().llvm_cpu is None or not Path("/proc/cpuinfo").exists():
        pytest.skip("this processor is known to LLVM only")
    code = (
        "import sys; from loopwright.machines import host; host();"
        "print(sorted({'llvmlite', 'numpy', 'islpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_llvm_agrees_with_our_name() -> None:
    """Unless extensions of the model are masked here: then ours is a level of x86-64."""
    import llvmlite.binding as llvm

    name = host_cpu().llvm_cpu or ""
    assert name == llvm.get_host_cpu_name() or name.startswith("x86-64")


def test_sysfs_caches(tmp_path: Path) -> None:
    common = {"coherency_line_size": "64"}
    write_cache(
        tmp_path,
        0,
        level="1",
        type="Data",
        size="48K",
        ways_of_associativity="12",
        shared_cpu_list="0,80",
        **common,
    )
    write_cache(tmp_path, 1, level="1", type="Instruction", size="32K", **common)
    write_cache(
        tmp_path,
        2,
        level="2",
        type="Unified",
        size="2M",
        ways_of_associativity="16",
        shared_cpu_list="0,80",
        **common,
    )
    write_cache(
        tmp_path,
        3,
        level="3",
        type="Unified",
        size="99840K",
        ways_of_associativity="15",
        shared_cpu_list="0-39,80-119",
        **common,
    )
    assert system_caches(str(tmp_path)) == (
        Cache(1, 48 << 10, 12, 64, 2),
        Cache(2, 2 << 20, 16, 64, 2),
        Cache(3, 99840 << 10, 15, 64, 80),
    )


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"level": "1", "type": "Data"},
        {"level": "2", "type": "Unified", "size": "256K"},
        {"level": "one", "type": "Data", "size": "32K"},
        {"level": "1", "type": "Data", "size": "big"},
    ],
)
def test_broken_sysfs_counts_as_none(tmp_path: Path, values: dict[str, str]) -> None:
    write_cache(tmp_path, 0, **values)
    assert system_caches(str(tmp_path)) == ()
    assert system_caches(str(tmp_path / "absent")) == ()


def test_nearest_machine_loses_what_the_host_lacks() -> None:
    """An Ice Lake by Sapphire Rapids' data: no half precision, and that is told."""
    features = load_machine("sapphirerapids").features - {"fp16", "avx512vnni"}
    machine = described(CpuIdentity("x86_64", "icelake-server", features), (), 4)
    assert machine.llvm_cpu == "icelake-server"
    assert ("fma", "float16") not in machine.arithmetic
    assert machine.fused("dot", "int8") is None
    assert machine.fused("dot", "int16") is not None
    assert machine.frequency_hz is None
    assert machine.description == "icelake-server, by sapphirerapids"
    assert machine.source("arithmetic").startswith(
        "sapphirerapids as the nearest known machine: LLVM 22.1"
    )


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        ({"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/cpu.max": "150000 100000\n"}, 1.5),
        (
            {
                "/proc/self/cgroup": "0::/a/b\n",
                "/sys/fs/cgroup/a/cpu.max": "200000 100000\n",
                "/sys/fs/cgroup/a/b/cpu.max": "400000 100000\n",
            },
            2.0,
        ),
        (
            {
                "/proc/self/cgroup": "4:cpu,cpuacct:/x\n3:memory:/x\n",
                "/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "300000\n",
                "/sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000\n",
            },
            3.0,
        ),
        (
            {
                "/proc/self/cgroup": "4:cpu,cpuacct:/\n",
                "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            None,
        ),
    ],
)
def test_cgroup_quota(files: dict[str, str], quota: float | None) -> None:
    assert _cgroup_quota(lambda path: files.get(path, "")) == quota
