"""`loopwright cc --target athread`: its files, compiled against a stand-in of Athread, are run.

Every core is a thread of the stand-in; a request moves its bytes only when it is waited for.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from drawn import drawn
from kernels.build import bind, system_compiler
from kernels.corpus import (
    KERNELS,
    LITERAL,
    SYMBOLIC,
    arrays_of,
    differences,
    fresh,
    make_inputs,
    reference,
    write_source,
)
from loopwright.calls.device_files import words
from loopwright.cli import main
from loopwright.diagnostics import UsageError

SHIM = Path(__file__).parent / "athread_shim"
NAMES = (
    "gemm", "gemver", "gesummv", "symm", "syrk", "syr2k", "trmm", "2mm", "3mm", "atax", "bicg",
    "doitgen", "mvt",
)  # fmt: skip
# What depends on the loops around, or has stencils, triangles and small types.
OTHERS = ("jacobi-2d", "fdtd-2d", "covariance", "lu", "nasty_triangle")
FLAGS = ("-std=gnu99", "-O1", "-ffp-contract=off", "-Wall", "-Werror", "-Wno-unknown-pragmas",
         "-Wno-unused-variable",
         "-Wno-psabi",  # vectors of 32 bytes as results of inlined functions, on x86-64 without AVX
         "-fPIC", "-pthread")  # fmt: skip

needs_compiler = pytest.mark.skipif(system_compiler() is None, reason="there is no C compiler")


def files(folder: Path, name: str, *options: str) -> Path:
    """The folder with the files of a kernel."""
    source = write_source(KERNELS[name], folder, mode=SYMBOLIC)
    out = folder / "out"
    assert main(["cc", str(source), "--target", "athread", "-o", str(out), *options]) == 0
    return out


def library(out: Path, name: str, *flags: str) -> ctypes.CDLL:
    """Master, slave and the stand-in as one library."""
    compiler = system_compiler()
    assert compiler is not None
    master = (out / f"{name}_master.c").read_text(encoding="utf-8")
    entries = re.findall(r"SLAVE_FUN\((\w+)\)", master)
    renames = [f"-D{entry}=slave_{entry}" for entry in entries]
    include = [f"-I{SHIM}", f"-I{out}", f"-I{out.parent}", *flags]

    def run(*arguments: str) -> None:
        subprocess.run([compiler, *FLAGS, *include, *arguments], check=True)

    run(*renames, "-c", str(out / f"{name}_slave.c"), "-o", str(out / "slave.o"))
    rest = [out / f"{name}.c", out / f"{name}_master.c", SHIM / "shim.c", out / "slave.o"]
    target = out / f"{name}{abs(hash(flags))}.so"
    run("-shared", *map(str, rest), "-lm", "-o", str(target))
    return ctypes.CDLL(str(target))


@cache
def sizes_of(name: str, size: int) -> dict[str, int]:
    """Different sizes near a number; the steps of time are few."""
    kernel = KERNELS[name]
    found = {}
    for at, word in enumerate(kernel.sizes):
        wanted = size if size < 2 else size + at * (1 if size < 20 else 6)
        found[word] = max(kernel.least.get(word, 0), min(wanted, 3) if "step" in word else wanted)
    return found


def check(call_library: ctypes.CDLL, name: str, size: int) -> None:
    kernel = KERNELS[name]
    inputs = make_inputs(kernel, sizes_of(name, size))
    expected = reference(kernel, inputs)
    assert expected is not None
    found = fresh(inputs)
    bind(call_library, kernel)(*found.values())
    assert differences(kernel, arrays_of(found), expected) == []


@pytest.fixture(scope="module")
def gemm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of gemm, made once."""
    return files(tmp_path_factory.mktemp("gemm"), "gemm")


@needs_compiler
@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", drawn(NAMES, 11, 1))
def test_kernels_run_on_cores(name: str, tmp_path: Path) -> None:
    run = library(files(tmp_path, name), name, "-DLW_LEAST_WORK=0")
    for size in (0, 1, 7, 67 if name == "doitgen" else 131):
        check(run, name, size)
    assert ctypes.c_int.in_dll(run, "shim_spawns").value == 4


@needs_compiler
@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", drawn(OTHERS, 3))
def test_other_programs_run_on_cores(name: str, tmp_path: Path) -> None:
    run = library(files(tmp_path, name), name, "-DLW_LEAST_WORK=0")
    for size in (1, 5, 41):
        check(run, name, size)
    assert ctypes.c_int.in_dll(run, "shim_spawns").value == 3


@needs_compiler
@pytest.mark.drawn(2)
@pytest.mark.parametrize("size", drawn([3, 20, 70], 2))
def test_constant_extents_may_have_one_tile(size: int, tmp_path: Path) -> None:
    kernel = KERNELS["gemm"]
    sizes = dict.fromkeys(kernel.sizes, size)
    source = write_source(kernel, tmp_path, mode=LITERAL, extents=sizes)
    out = tmp_path / "out"
    assert main(["cc", str(source), "--target", "athread", "-o", str(out)]) == 0
    run = library(out, "gemm", "-DLW_LEAST_WORK=0")
    inputs = make_inputs(kernel, sizes)
    expected = reference(kernel, inputs)
    assert expected is not None
    found = fresh(inputs)
    bind(run, kernel)(*found.values())
    assert differences(kernel, arrays_of(found), expected) == []


@needs_compiler
def test_little_work_stays_on_the_host(gemm: Path) -> None:
    run = library(gemm, "gemm")
    check(run, "gemm", 7)
    assert ctypes.c_int.in_dll(run, "shim_spawns").value == 0
    check(run, "gemm", 61)
    assert ctypes.c_int.in_dll(run, "shim_spawns").value == 1


@needs_compiler
@pytest.mark.only_in_all("athread/test_generated_kernels runs shapes of cores on the emulator")
@pytest.mark.parametrize("shape", drawn(["1x64", "2x8", "1x1"], 2))
def test_shapes(shape: str, tmp_path: Path) -> None:
    run = library(files(tmp_path, "gemm", "--threads", shape), "gemm", "-DLW_LEAST_WORK=0")
    check(run, "gemm", 131)


@needs_compiler
def test_the_newer_generation(tmp_path: Path) -> None:
    out = files(tmp_path, "mvt", "--machine", "sw26010pro")
    assert "-DLW_ATHREAD_PRO" in (out / "Makefile").read_text(encoding="utf-8")
    run = library(out, "mvt", "-DLW_LEAST_WORK=0", "-DLW_ATHREAD_PRO")
    check(run, "mvt", 67)


@needs_compiler
def test_without_cores_the_host_runs_all(gemm: Path, tmp_path: Path) -> None:
    sources = [str(gemm / "gemm.c"), str(gemm / "gemm_master.c")]
    target = str(tmp_path / "host.so")
    command = [system_compiler() or "", *FLAGS, f"-I{gemm.parent}", "-DLW_NO_ATHREAD", "-shared"]
    subprocess.run([*command, *sources, "-lm", "-o", target], check=True)
    check(ctypes.CDLL(target), "gemm", 31)


def test_files(gemm: Path) -> None:
    made = sorted(path.name for path in gemm.iterdir() if path.suffix not in (".o", ".so"))
    assert made == ["Makefile", "gemm.c", "gemm_athread.h", "gemm_master.c", "gemm_slave.c"]
    slave = (gemm / "gemm_slave.c").read_text(encoding="utf-8")
    assert "8 x 8 cores" in slave
    assert "bytes of LDM for boxes" in slave
    assert "/* gemm.c:" in slave
    header = (gemm / "gemm_athread.h").read_text(encoding="utf-8")
    assert header.count("dma_wait(") == 1


def test_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    serial = tmp_path / "serial.c"
    serial.write_text(
        "void f(int n, double a[n])\n{\n#pragma scop\n"
        "    for (int i = 1; i < n; i++)\n        a[i] = a[i] + a[i - 1];\n#pragma endscop\n}\n",
        encoding="utf-8",
    )
    out = tmp_path / "out"
    assert main(["cc", str(serial), "--target", "athread", "-o", str(out)]) != 0
    assert "no region can be run on a mesh of cores" in capsys.readouterr().err
    assert not out.exists()
    for shape in ("8by8", "9x8", "0x4"):
        source = str(write_source(KERNELS["gemm"], tmp_path))
        assert main(["cc", source, "--target", "athread", "--threads", shape]) != 0
        assert "--threads takes rows and columns" in capsys.readouterr().err
    assert main(["cc", source, "--threads", "8x8"]) != 0
    assert "--threads is for target 'athread'" in capsys.readouterr().err


WORDS = [
    "-DC=#fff",
    "-DD=a b",
    "-DE=$(shell false)",
    "-DF=\\#",
    "-DG='\"",
    "-I../x#y",
    "-DH=a\\\\#b",
]


@pytest.mark.skipif(shutil.which("make") is None, reason="no make here")
def test_make_reads_the_arguments_as_they_are(tmp_path: Path) -> None:
    text = f"CPPFLAGS += {words(WORDS)}\nall:\n\t@printf '%s\\n' $(CPPFLAGS)\n"
    (tmp_path / "Makefile").write_text(text)
    command = ["make", "-s", "-C", str(tmp_path), "--no-print-directory"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]}
    )
    assert done.stdout.splitlines() == WORDS


@pytest.mark.parametrize("flag", ["-DX=1\nall: ; false", "-Ia\rb", "-DX=\0"])
def test_arguments_that_no_makefile_can_hold(flag: str) -> None:
    with pytest.raises(UsageError, match="a Makefile cannot hold this argument"):
        words(["-DY", flag])
