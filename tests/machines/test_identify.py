"""The processor's name from /proc/cpuinfo, and the machine that comes closest."""

import pytest

from loopwright.machines.identify import CpuIdentity, identify, nearest_machine

N1_BLOCK = """processor\t: {n}
Features\t: fp asimd evtstrm aes fphp asimdhp cpuid asimddp
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: {part}
"""
LEVEL_2 = "sse sse2 pni ssse3 sse4_1 sse4_2 popcnt"
LEVEL_3 = f"{LEVEL_2} avx avx2 bmi1 bmi2 f16c fma abm movbe"
LEVEL_4 = f"{LEVEL_3} avx512f avx512bw avx512cd avx512dq avx512vl"


def x86(vendor: str, family: int, model: int, flags: str) -> str:
    return (
        f"processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n"
        f"model name\t: some processor\nflags\t\t: {flags}\n\n"
    )


def test_arm() -> None:
    text = "\n".join(N1_BLOCK.format(n=n, part="0xd0c") for n in range(2))
    found = identify(text, "aarch64")
    assert found.llvm_cpu == "neoverse-n1"
    assert found.features == {"neon", "fp16", "dotprod", "fma", "fma-by-element"}
    assert nearest_machine(found) == "neoverse-n1"


@pytest.mark.parametrize(
    ("text", "name", "machine"),
    [
        (x86("GenuineIntel", 6, 45, f"{LEVEL_2} avx"), "sandybridge", "sandy-bridge-e5-2660"),
        (x86("GenuineIntel", 6, 79, LEVEL_3), "broadwell", "xeon-e5-2630-v4"),
        (x86("GenuineIntel", 6, 158, LEVEL_3), "skylake", "kaby-lake-i7-7700"),
        (x86("GenuineIntel", 6, 85, LEVEL_4), "skylake-avx512", "skylake-avx512"),
        (x86("GenuineIntel", 6, 85, f"{LEVEL_4} avx512_vnni"), "cascadelake", "cascadelake"),
        (x86("GenuineIntel", 6, 143, LEVEL_4), "sapphirerapids", "sapphirerapids"),
        (x86("AuthenticAMD", 23, 49, LEVEL_3), "znver2", "zen3"),
        (x86("AuthenticAMD", 25, 1, LEVEL_3), "znver3", "zen3"),
        (x86("AuthenticAMD", 25, 17, LEVEL_4), "znver4", "zen4"),
        (x86("AuthenticAMD", 26, 2, LEVEL_4), "znver5", "zen4"),
        (x86("AuthenticAMD", 16, 2, "sse2 pni"), "amdfam10", "k10-opteron-8354"),
        (x86("GenuineIntel", 6, 23, LEVEL_2), "penryn", "core-e5450"),
    ],
)
def test_x86(text: str, name: str, machine: str) -> None:
    found = identify(text, "x86_64")
    assert found.llvm_cpu == name
    assert nearest_machine(found) == machine


@pytest.mark.parametrize(
    ("model", "flags", "name", "machine"),
    [
        (143, LEVEL_3, "x86-64-v3", "x86-64-v3"),
        (143, LEVEL_2, "x86-64-v2", "core-e5450"),
        (45, LEVEL_2, "x86-64-v2", "core-e5450"),
        (79, "sse2", "x86-64", "core-e5450"),
    ],
)
def test_masked_extensions_are_never_promised(
    model: int, flags: str, name: str, machine: str
) -> None:
    """A virtual machine may hide what the model has: code for the model would be illegal."""
    found = identify(x86("GenuineIntel", 6, model, flags), "x86_64")
    assert found.llvm_cpu == name
    assert nearest_machine(found) == machine


def test_unknown_x86_is_left_to_llvm() -> None:
    found = identify(x86("GenuineIntel", 6, 250, LEVEL_3), "x86_64")
    assert found.llvm_cpu is None
    assert nearest_machine(found) == "x86-64-v3"


def test_power() -> None:
    text = "processor\t: 0\ncpu\t\t: POWER8NVL (raw), altivec supported\nclock\t\t: 4023MHz\n"
    found = identify(text, "ppc64le")
    assert (found.llvm_cpu, nearest_machine(found)) == ("pwr8", "power8")


@pytest.mark.parametrize("isa", ["aarch64", "x86_64", "ppc64le", "riscv64"])
@pytest.mark.parametrize("text", ["", "\n\n", "nonsense", "CPU part: x\n\nflags:\n", "model: 0x"])
def test_anything_else_is_no_error(isa: str, text: str) -> None:
    found = identify(text, isa)
    assert isinstance(found, CpuIdentity)
    assert found.llvm_cpu is None
    assert nearest_machine(found)
