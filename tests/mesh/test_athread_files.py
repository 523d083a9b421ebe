"""`loopwright cc --target athread`: the files it writes, and what it refuses."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kernels.build import bind, system_compiler
from kernels.corpus import (
    KERNELS,
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

HEADERS = Path(__file__).parent / "athread_shim"
FLAGS = (
    "-std=gnu99",
    "-O1",
    "-ffp-contract=off",
    "-Wall",
    "-Werror",
    "-Wno-unknown-pragmas",
    "-Wno-unused-variable",
    "-Wno-psabi",
)  # vectors of 32 bytes as results of inlined functions, on x86-64 without AVX
NAMES = (
    "gemm", "jacobi-2d", "mvt", "gemver", "gesummv", "symm", "syrk", "syr2k", "trmm", "2mm", "3mm",
    "atax", "bicg", "doitgen", "fdtd-2d", "covariance", "lu", "nasty_triangle",
)  # fmt: skip

needs_compiler = pytest.mark.skipif(system_compiler() is None, reason="there is no C compiler")


def files(folder: Path, name: str, *options: str) -> Path:
    """The folder with the files of a kernel."""
    source = write_source(KERNELS[name], folder, mode=SYMBOLIC)
    out = folder / "out"
    assert main(["cc", str(source), "--target", "athread", "-o", str(out), *options]) == 0
    return out


@pytest.fixture(scope="module")
def gemm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of gemm, made once."""
    return files(tmp_path_factory.mktemp("gemm"), "gemm")


@needs_compiler
def test_without_cores_the_host_runs_all(gemm: Path, tmp_path: Path) -> None:
    sources = [str(gemm / "gemm.c"), str(gemm / "gemm_master.c")]
    target = str(tmp_path / "host.so")
    command = [system_compiler() or "", *FLAGS, f"-I{gemm.parent}", "-DLW_NO_ATHREAD", "-shared"]
    subprocess.run([*command, "-fPIC", *sources, "-lm", "-o", target], check=True)
    kernel = KERNELS["gemm"]
    inputs = make_inputs(kernel, {"ni": 31, "nj": 37, "nk": 43})
    expected, found = reference(kernel, inputs), fresh(inputs)
    assert expected is not None
    bind(ctypes.CDLL(target), kernel)(*found.values())
    assert differences(kernel, arrays_of(found), expected) == []


@needs_compiler
@pytest.mark.drawn(4)
@pytest.mark.parametrize("name", NAMES)
def test_compilers_have_nothing_to_say(name: str, tmp_path: Path) -> None:
    """Of the text for both generations, beside headers that declare what Athread's declare."""
    for machine in ("sw26010", "sw26010pro"):
        out = files(tmp_path, name, "--machine", machine)
        is_pro = "-DLW_ATHREAD_PRO" in (out / "Makefile").read_text(encoding="utf-8")
        assert is_pro == (machine == "sw26010pro")
        include = [f"-I{HEADERS}", f"-I{out}", f"-I{tmp_path}", *["-DLW_ATHREAD_PRO"] * is_pro]
        sources = [str(out / f"{name}{end}.c") for end in ("", "_master", "_slave")]
        command = [system_compiler() or "", "-fsyntax-only", *FLAGS, *include, *sources]
        subprocess.run(command, check=True)


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
