"""`loopwright cc --target cuda` and `opencl`: whole programs print what their sources print."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from ctypes.util import find_library
from functools import cache
from pathlib import Path

import pytest

from gpu.shim.cuda_shim import FOLDER, has_compiler, program_source
from gpu.ways import needs_opencl
from kernels.build import system_compiler
from loopwright import cli
from loopwright.machines import load_gpu as gpu_files

SOURCES = Path(__file__).parent / "programs"
PROGRAMS = sorted(path.stem for path in SOURCES.glob("*.c"))
Capture = pytest.CaptureFixture[str]

needs_compilers = pytest.mark.skipif(
    system_compiler() is None or not has_compiler(), reason="there is no compiler of C and C++ here"
)


def run(*words: str | Path, env: dict[str, str] | None = None, status: int = 0) -> str:
    """What a command prints; it must end with the given status."""
    texts = [str(word) for word in words]
    done = subprocess.run(
        texts,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, **(env or {})},
        check=False,
    )
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


@cache
def expected(name: str, folder: Path) -> str:
    """What the source prints."""
    target = folder / f"{name}.original"
    compiler = system_compiler()
    assert compiler is not None
    run(compiler, "-O1", "-ffp-contract=off", "-o", target, SOURCES / f"{name}.c", "-lm")
    return run(target)


def translated(name: str, folder: Path, target: str = "cuda", *words: str) -> Path:
    place = folder / name
    source = str(SOURCES / f"{name}.c")
    assert cli.main(["cc", source, "--target", target, "-o", str(place), *words]) == 0
    return place


def on_shim(name: str, place: Path, reach: int = 1 << 30) -> Path:
    """The program of a folder, its kernels compiled for the host.

    Sizes from `reach` on take subscripts of 64 bits.
    """
    text = (place / f"{name}_kernels.cu").read_text()
    kernels = (place / f"{name}_kernels.cuh").read_text()
    text = text.replace(f'#include "{name}_kernels.cuh"', kernels)
    (place / "shim.cpp").write_text(program_source(text))
    flags = ["-std=c++17", "-O1", "-w", "-ffp-contract=off", "-U_FORTIFY_SOURCE"]
    paths = [f"-I{FOLDER}", f"-I{FOLDER / 'include'}", f"-DLW_REACH={reach}"]
    compiler = system_compiler()
    assert compiler is not None
    # Loop variables that only the region used are left over.
    warnings = ["-Wall", "-Wno-unused-variable", "-Wno-unused-but-set-variable", "-Werror"]
    run(compiler, *warnings, "-c", "-o", place / "c.o", place / f"{name}.c")
    cxx = os.environ.get("CXX", "g++")
    run(cxx, *flags, *paths, "-o", place / name, place / "shim.cpp", place / "c.o", "-lm")
    return place / name


@needs_compilers
@pytest.mark.drawn(5)
@pytest.mark.parametrize("name", PROGRAMS)
def test_cuda_on_the_shim(name: str, tmp_path: Path) -> None:
    program = on_shim(name, translated(name, tmp_path))
    assert run(program) == expected(name, tmp_path)


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of the programs on the shim, with subscripts of 64 bits."""
    folder = tmp_path_factory.mktemp("product")
    return on_shim("product", translated("product", folder), reach=1)


BELOW = """\
static void shift(int n, int lw_s, float *x)
{
    double s = 0;
#pragma scop
    for (int i = lw_s; i < n; i++) {
        x[i - 1] = 1;
        s += i;
    }
#pragma endscop
    x[0] += s;
}
int main(void)
{
    float x[9] = {0};
    shift(8, 1, x);
    shift(8, 0, x + 1);
    return 0;
}
"""


@needs_compilers
def test_rows_below_zero_are_told(tmp_path: Path) -> None:
    path = tmp_path / "below.c"
    path.write_text(BELOW)
    place = tmp_path / "out"
    assert cli.main(["cc", str(path), "--target", "cuda", "-o", str(place)]) == 0
    assert "    double lw_s_ = s;\n" in (place / "below.c").read_text()
    told = run(on_shim("below", place), status=1)
    assert told == "below.c:4: 'x' is used from row -1 on; a device has none below zero\n"


# -- OpenCL ----------------------------------------------------------------------------------------


def opencl_library() -> str | None:
    """The loader of OpenCL drivers, as words for the linker."""
    for folder in filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":")):
        for path in sorted(Path(folder).glob("libOpenCL.so*")):
            return str(path)
    found = find_library("OpenCL")
    return None if found is None else f"-l:{found}"


@needs_opencl
@needs_compilers
@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
@pytest.mark.skipif(opencl_library() is None, reason="there is no library of OpenCL here")
@pytest.mark.parametrize(
    ("name", "reach"), [("product", 1), *((x, 1 << 30) for x in PROGRAMS if x != "paths")]
)
def test_opencl_by_make(name: str, reach: int, tmp_path: Path) -> None:
    """The Makefile builds a program, with the standard's headers or our excerpt of them."""
    place = translated(name, tmp_path, "opencl")
    flags = f"CLFLAGS=-Wall -Werror -idirafter {FOLDER / 'opencl'} -DLW_REACH={reach}"
    run("make", "-s", "-C", place, flags, f"LDLIBS={opencl_library()} -lm")
    assert run(place / name) == expected(name, tmp_path)


# -- texts ----------------------------------------------------------------------------------------

SCALE = """\
void scale(int n, float a, float *x)
{
    int i;
#pragma scop
    for (i = 0; i < n; i++)
        x[i] = a * x[i];
#pragma endscop
}
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "scale.c"
    path.write_text(SCALE)
    return path


@pytest.mark.parametrize("target", ["cuda", "opencl"])
def test_golden_texts(target: str, source: Path) -> None:
    """The call, the kernel and the function between them, as a person reads them."""
    assert cli.main(["cc", str(source), "--target", target]) == 0
    place = source.with_suffix(f".{target}")
    host, kernels = {
        "cuda": ("scale_kernels.cu", "scale_kernels.cuh"),
        "opencl": ("scale_host.c", "scale_kernels.cl"),
    }[target]
    text = (place / kernels).read_text()
    kernel = text[text.index("__global__ void" if target == "cuda" else "__kernel") :]
    function = (place / host).read_text().rpartition("\n#define lw_floord")[2].partition("\n\n")[2]
    parts = [(place / "scale.c").read_text(), kernel.partition("\n}\n")[0] + "\n}\n", function]
    golden = (SOURCES.parent / "golden" / f"scale.{target}.txt").read_text()
    assert "----\n".join(parts) == golden


# -- the command -----------------------------------------------------------------------------------


def test_plans_and_schedules_go_around(source: Path, capsys: Capture) -> None:
    plan, tree = source.with_name("plan.json"), source.with_name("tree.yaml")
    words = ["cc", str(source), "--target", "cuda"]
    assert cli.main([*words, "--dump-plan", str(plan), "--dump-schedule", str(tree)]) == 0
    kernels = source.with_suffix(".cuda") / "scale_kernels.cu"
    first = kernels.read_text()
    assert "map_to_threads" in plan.read_text()
    assert cli.main([*words, "--plan", str(plan)]) == 0
    assert kernels.read_text() == first
    assert cli.main([*words, "--load-schedule", str(tree)]) == 0
    assert cli.main([*words, "--tile", "64", "--check", "--explain"]) == 0
    out, err = capsys.readouterr()
    assert "against the interpreter" in err
    assert "  kernels\n    scale_scale_0_0: blocks of 32 x 1 x 1 threads" in out
    assert "  to the device: a, x\n  back: x\n" in out


def test_one_thread_is_told(source: Path, capsys: Capture) -> None:
    source.write_text(SCALE.replace("i = 0", "i = 1").replace("a * x[i]", "a * x[i - 1]"))
    assert cli.main(["cc", str(source), "--target", "cuda"]) == 0
    told = "note: no parallel loop was found: one thread of the GPU runs the region"
    assert capsys.readouterr().err == f"{source}:4: {told}\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-o", "-"], "target 'cuda' writes several files: -o names a folder"),
        (["-o", "."], "the output would replace the source"),
        (["--machine", "zen4"], "no GPU is named 'zen4'"),
        (["-o", "no/such/folder"], "cannot write to 'no/such/folder': No such file or directory"),
        (["--tile", "8", "--plan", "x"], "exclude each other"),
    ],
    ids=["stdout", "source", "machine", "folder", "both"],
)
def test_refusals_write_nothing(
    words: list[str],
    told: str,
    source: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(source.parent)
    assert cli.main(["cc", "scale.c", "--target", "cuda", *words]) == 2
    assert told in capsys.readouterr().err
    assert [path.name for path in source.parent.iterdir()] == ["scale.c"]


def test_files_of_the_user_stay(source: Path, capsys: Capture) -> None:
    place = source.with_suffix(".cuda")
    words = ["cc", str(source), "--target", "cuda"]
    place.mkdir()
    (place / "notes.txt").write_text("not in the way")
    (place / "Makefile").write_text("all:\n")
    assert cli.main(words) == 2
    assert capsys.readouterr().err == (
        f"loopwright: error: '{place}' holds files that are not generated\nnote: found Makefile\n"
        "try: another folder, or move them away\n"
    )
    assert sorted(path.name for path in place.iterdir()) == ["Makefile", "notes.txt"]
    (place / "Makefile").unlink()
    assert cli.main(words) == 0
    assert cli.main([*words, "--machine", "sm_80"]) == 0  # our own files are replaced
    assert len(list(place.iterdir())) == 5


def test_a_kernel_that_does_not_fit(source: Path, capsys: Capture) -> None:
    """Blocks of more threads than the machine has, by a plan for another one."""
    data = Path(gpu_files.__file__).parent / "data" / "gpu" / "sm_80.json"
    small = source.with_name("small.json")
    text = re.sub(r'"threads_per_block": \d+', '"threads_per_block": 16', data.read_text())
    small.write_text(text)
    plan = source.with_name("plan.json")
    words = ["cc", str(source), "--target", "cuda", "-o", str(source.with_name("out"))]
    assert cli.main([*words, "--dump-plan", str(plan)]) == 0
    shutil.rmtree(source.with_name("out"))
    assert cli.main([*words, "--plan", str(plan), "--machine", str(small)]) == 2
    assert capsys.readouterr().err.startswith(
        "loopwright: error: scale.c:4: kernel 'scale_scale_0_0' does not fit on sm_80\n"
    )
    assert not source.with_name("out").exists()
