"""From the text of /proc/cpuinfo to the processor's LLVM name, without loading LLVM.

A process that finds its kernel in the disk cache needs the name for the key and nothing else of
LLVM, whose library takes longer to load than the kernel to run. The numbers are the processors'
own identification (MIDR on Arm, family and model of CPUID on x86) as their makers publish them.
"""

from __future__ import annotations

from collections import Counter

from loopwright.lazy_dataclass import dataclass

__all__ = ["CpuIdentity", "identify", "nearest_machine"]


@dataclass(frozen=True, slots=True)
class CpuIdentity:
    """What the operating system says about the processor."""

    isa: str  # aarch64, x86_64, ppc64le
    llvm_cpu: str | None  # LLVM's name, None when it is not in our tables
    features: frozenset[str]  # the extensions it offers, in our names


# (implementer, part) of the main identification register -> LLVM name.
_ARM: dict[tuple[int, int], str] = {
    (0x41, 0xD03): "cortex-a53",
    (0x41, 0xD05): "cortex-a55",
    (0x41, 0xD07): "cortex-a57",
    (0x41, 0xD08): "cortex-a72",
    (0x41, 0xD09): "cortex-a73",
    (0x41, 0xD0A): "cortex-a75",
    (0x41, 0xD0B): "cortex-a76",
    (0x41, 0xD0C): "neoverse-n1",
    (0x41, 0xD0D): "cortex-a77",
    (0x41, 0xD40): "neoverse-v1",
    (0x41, 0xD41): "cortex-a78",
    (0x41, 0xD44): "cortex-x1",
    (0x41, 0xD47): "cortex-a710",
    (0x41, 0xD48): "cortex-x2",
    (0x41, 0xD49): "neoverse-n2",
    (0x41, 0xD4F): "neoverse-v2",
    (0x46, 0x001): "a64fx",
    (0x48, 0xD01): "tsv110",
    (0x43, 0x0AF): "thunderx2t99",
    (0xC0, 0xAC3): "ampere1",
    (0xC0, 0xAC4): "ampere1a",
}
_INTEL_MODELS: dict[str, tuple[int, ...]] = {
    "core2": (15, 22),
    "penryn": (23, 29),
    "nehalem": (26, 30, 31, 46),
    "westmere": (37, 44, 47),
    "sandybridge": (42, 45),
    "ivybridge": (58, 62),
    "haswell": (60, 63, 69, 70),
    "broadwell": (61, 71, 79, 86),
    "skylake": (78, 94, 142, 158, 165, 166),
    "skylake-avx512": (85,),
    "knl": (87,),
    "knm": (133,),
    "icelake-server": (106, 108),
    "icelake-client": (125, 126),
    "tigerlake": (140, 141),
    "rocketlake": (167,),
    "alderlake": (151, 154),
    "raptorlake": (183, 186, 191),
    "meteorlake": (170, 172),
    "sapphirerapids": (143,),
    "emeraldrapids": (207,),
    "graniterapids": (173, 174),
}
_INTEL = {model: name for name, models in _INTEL_MODELS.items() for model in models}
# LLVM name -> the machine whose data come closest.
_NEAREST: dict[str, str] = {
    "cortex-a76": "neoverse-n1",
    "cortex-a77": "neoverse-n1",
    "cortex-a78": "neoverse-n1",
    "cortex-a710": "neoverse-n1",
    "neoverse-n1": "neoverse-n1",
    "neoverse-n2": "neoverse-n1",
    "neoverse-v1": "neoverse-v1",
    "neoverse-v2": "neoverse-v1",
    "cortex-x1": "neoverse-v1",
    "cortex-x2": "neoverse-v1",
    "apple-m1": "neoverse-v1",
    "apple-m2": "neoverse-v1",
    "apple-m3": "neoverse-v1",
    "apple-m4": "neoverse-v1",
    "core2": "core-e5450",
    "penryn": "core-e5450",
    "nehalem": "core-e5450",
    "westmere": "core-e5450",
    "amdfam10": "k10-opteron-8354",
    "sandybridge": "sandy-bridge-e5-2660",
    "ivybridge": "sandy-bridge-e5-2660",
    "haswell": "x86-64-v3",
    "broadwell": "xeon-e5-2630-v4",
    "skylake": "kaby-lake-i7-7700",
    "alderlake": "alderlake",
    "raptorlake": "alderlake",
    "meteorlake": "alderlake",
    "skylake-avx512": "skylake-avx512",
    "cascadelake": "cascadelake",
    "cooperlake": "cascadelake",
    "icelake-client": "skylake-avx512",
    "tigerlake": "skylake-avx512",
    "rocketlake": "skylake-avx512",
    "icelake-server": "sapphirerapids",
    "sapphirerapids": "sapphirerapids",
    "emeraldrapids": "sapphirerapids",
    "graniterapids": "sapphirerapids",
    "knl": "xeon-phi-7210",
    "knm": "xeon-phi-7210",
    "znver1": "zen3",
    "znver2": "zen3",
    "znver3": "zen3",
    "znver4": "zen4",
    "znver5": "zen4",
    "pwr8": "power8",
    "pwr9": "power8",
    "pwr10": "power8",
}
# Linux's word for an extension -> ours. Extensions of no use to our code are left out.
_FLAGS: dict[str, str] = {
    "asimd": "neon",
    "asimddp": "dotprod",
    "asimdhp": "fp16",
    "i8mm": "i8mm",
    "bf16": "bf16",
    "sve": "sve",
    "sse4_1": "sse4.1",
    "sse4_2": "sse4.2",
    "pni": "sse3",
    "avx": "avx",
    "avx2": "avx2",
    "fma": "fma",
    "f16c": "f16c",
    "bmi1": "bmi1",
    "bmi2": "bmi2",
    "abm": "lzcnt",
    "movbe": "movbe",
    "avx512f": "avx512f",
    "avx512bw": "avx512bw",
    "avx512cd": "avx512cd",
    "avx512dq": "avx512dq",
    "avx512vl": "avx512vl",
    "avx512_vnni": "avx512vnni",
    "avx_vnni": "avxvnni",
    "avx512_bf16": "avx512bf16",
    "avx512_fp16": "fp16",
}
_LEVEL_3 = frozenset({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "lzcnt", "movbe"})
_AVX512 = frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})
_BEFORE_LEVEL_3 = frozenset(
    {"core2", "penryn", "nehalem", "westmere", "sandybridge", "ivybridge", "amdfam10"}
)
_WITH_AVX512 = frozenset(
    {"skylake-avx512", "cascadelake", "cooperlake", "icelake-client", "icelake-server"}
    | {"tigerlake", "rocketlake", "sapphirerapids", "emeraldrapids", "graniterapids"}
    | {"znver4", "znver5"}
)


def identify(cpuinfo: str, isa: str) -> CpuIdentity:
    """Return what the text of /proc/cpuinfo says about a processor of instruction set `isa`."""
    blocks = [_pairs(block) for block in cpuinfo.split("\n\n") if block.strip()]
    words = [b.get("flags") or b.get("Features", "") for b in blocks]
    common = set.intersection(*(set(w.split()) for w in words if w)) if any(words) else set()
    features = frozenset(_FLAGS[w] for w in common if w in _FLAGS)
    if isa == "aarch64":
        always = {"fma", "fma-by-element"}  # part of every 64-bit Arm processor with neon
        return CpuIdentity(isa, _arm_name(blocks), features | always)
    if isa == "x86_64":
        name = _x86_name(blocks[0] if blocks else {}, features)
        return CpuIdentity(isa, name, features)
    if isa == "ppc64le":
        always = {"altivec", "fma", "vsx"}
        return CpuIdentity(isa, _power_name(blocks), features | always)
    return CpuIdentity(isa, None, features)


def nearest_machine(identity: CpuIdentity) -> str:
    """The name of the machine whose data describe this processor best."""
    name = identity.llvm_cpu
    if name in _NEAREST:
        return _NEAREST[name]
    if identity.isa == "x86_64":
        return "x86-64-v3" if identity.features >= _LEVEL_3 else "core-e5450"
    return "power8" if identity.isa == "ppc64le" else "aarch64"


def _pairs(block: str) -> dict[str, str]:
    parts = (line.partition(":") for line in block.splitlines())
    return {key.strip(): value.strip() for key, _, value in parts}


def _arm_name(blocks: list[dict[str, str]]) -> str | None:
    """The name of the most frequent core; of equally frequent kinds the one listed last.

    Systems with two kinds of core list the small ones first.
    """
    parts = [
        (_number(b["CPU implementer"]), _number(b["CPU part"]))
        for b in blocks
        if "CPU implementer" in b and "CPU part" in b
    ]
    if not parts:
        return None
    last = {part: i for i, part in enumerate(parts)}
    part, _ = max(Counter(parts).items(), key=lambda item: (item[1], last[item[0]]))
    return _ARM.get(part)


def _x86_name(block: dict[str, str], features: frozenset[str]) -> str | None:
    """The name by family and model, but never one that promises extensions which are masked."""
    family, model = _number(block.get("cpu family")), _number(block.get("model"))
    name: str | None = None
    if block.get("vendor_id") == "GenuineIntel" and family == 6:
        name = _INTEL.get(model)
        if name == "skylake-avx512" and "avx512vnni" in features:
            name = "cooperlake" if "avx512bf16" in features else "cascadelake"
    elif block.get("vendor_id") in ("AuthenticAMD", "HygonGenuine"):
        name = _amd_name(family, model)
    if name is None:
        return None
    # A virtual machine may hide what the model has; code for the model would then be illegal.
    missing_512 = name in _WITH_AVX512 and not features >= _AVX512
    missing_3 = name not in _BEFORE_LEVEL_3 and not features >= _LEVEL_3
    if missing_3 or (name in ("sandybridge", "ivybridge") and "avx" not in features):
        return "x86-64-v2" if "sse4.2" in features else "x86-64"
    return "x86-64-v3" if missing_512 else name


def _amd_name(family: int, model: int) -> str | None:
    if family == 23:
        return "znver2" if model >= 0x30 else "znver1"
    if family == 25:
        return "znver4" if 0x10 <= model < 0x20 or model >= 0x60 else "znver3"
    return {16: "amdfam10", 24: "znver1", 26: "znver5"}.get(family)


def _power_name(blocks: list[dict[str, str]]) -> str | None:
    text = blocks[0].get("cpu", "") if blocks else ""
    return next((f"pwr{n}" for n in (8, 9, 10) if text.startswith(f"POWER{n}")), None)


def _number(text: str | None) -> int:
    """The value of a decimal or 0x number, -1 for anything else."""
    try:
        return int(text or "", 0)
    except ValueError:
        return -1
