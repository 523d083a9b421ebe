"""`loopwright cc --target athread --run` and `athread run`: what the original prints."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from drawn import drawn
from kernels.build import system_compiler
from loopwright.cli import main
from loopwright.machines import load_mesh
from needed_tools import needs_compiler

Capture = pytest.CaptureFixture[str]

PROGRAM = """\
#include <stdio.h>
#include <stdlib.h>
#include "scale.h"

int main(int argc, char **argv)
{
    double (*a)[N] = malloc(sizeof(double[N][N])), b[N], sum = 0.0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            a[i][j] = FIRST + i - j % 7;
#pragma scop
    for (int i = 0; i < N; i++)
        b[i] = 0.0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            b[i] += 2.0 * a[i][j];
#pragma endscop
    for (int i = 0; i < N; i++)
        sum += (i + 1) * b[i];
    printf("%.17g %s\\n", sum, argc > 1 ? argv[argc - 1] : "alone");
    free(a);
    return argc;
}
"""
SCALE = """\
#ifndef N
#define N 150
#endif
#define FIRST 3.0
"""
CHAIN = """\
void f(int n, double a[n])
{
#pragma scop
    for (int i = 1; i < n; i++)
        a[i] = a[i] + a[i - 1];
#pragma endscop
}
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "sums.c"
    path.write_text(PROGRAM)
    (tmp_path / "scale.h").write_text(SCALE)
    return path


def original(source: Path, *words: str, flags: tuple[str, ...] = ()) -> tuple[int, str]:
    """Status and output of the program as it stands."""
    program = source.with_suffix(".plain")
    compiler = system_compiler() or ""
    subprocess.run([compiler, *flags, "-ffp-contract=off", "-o", program, source], check=True)
    done = subprocess.run([program, *words], check=False, capture_output=True, text=True)
    return done.returncode, done.stdout


@needs_compiler
@pytest.mark.parametrize(
    ("options", "words"),
    drawn(
        [
            ((), ()),
            (("--machine", "sw26010pro", "--threads", "4x8"), ("-x", "two words")),
            (("--threads", "1x16", "-DN=61", "-DLW_LEAST_WORK=0", "--seed", "3"), ("--run",)),
            (("-DN=9",), ()),
        ],
        2,
        1,
    ),
)
def test_it_prints_what_the_original_prints(
    options: tuple[str, ...], words: tuple[str, ...], source: Path, capfd: Capture
) -> None:
    flags = tuple(word for word in options if word.startswith("-D"))
    expected = original(source, *words, flags=flags)
    out = str(source.with_name("out"))
    command = ["cc", str(source), "--target", "athread", "-o", out, "--run", *options]
    assert (main([*command, "--", *words]), capfd.readouterr().out) == expected
    assert (source.with_name("out") / "sums_slave.c").exists()


@needs_compiler
def test_profile(source: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = source.with_name("out")
    command = ["cc", str(source), "--target", "athread", "-o", str(out), "--run", "--profile"]
    assert main([*command, "-DLW_PROFILE"]) == 1
    told, cycles = capfd.readouterr()
    lines = told.splitlines()
    assert lines[0] == original(source)[1].strip()
    assert f"{out / 'sums_slave.c'}:" in told  # the lines that make requests, not the header's
    assert "sums_athread.h" not in told
    words = {line[:14].strip(): line[15:] for line in lines[3:]}
    assert words["teams"] == "1"
    assert " of 65536 bytes at most" in words["LDM"]
    assert words["predicted"].endswith(" us on sw26010")
    head, row = cycles.splitlines()
    assert head.split() == [
        "region", "calls", "on", "host", "cycles", "of", "host", "longest", "core", "DMA",
        "barriers",
    ]  # fmt: skip
    place, calls, on_host, _, longest, *_ = row.split()
    assert (place, calls, on_host) == ("sums.c:11", "1", "0")
    assert int(longest) > 0


HEAD = """\
#include <stdio.h>
static double a[3000], b[3000], s = 3.0, t[3];
int main(void)
{
    for (int i = 0; i < 3000; i++)
        a[i] = i % 11;
#pragma scop
    s = s * 2.0;
    t[1] = s + 1.0;
    for (int i = 1; i < 3; i++)
        t[i] = t[i - 1] * 2.0 + t[i];
    for (int r = 0; r < 10; r++)
        for (int i = 0; i < 3000; i++)
            b[i] = s * a[i] + t[2] + r;
    t[0] = b[7];
#pragma endscop
    printf("%g %g %g %g\\n", s, t[0], t[2], b[2999]);
    return 0;
}
"""


@needs_compiler
def test_what_comes_before_all_nests_is_done_by_the_host(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "head.c"
    path.write_text(HEAD)
    out = tmp_path / "out"
    assert main(["cc", str(path), "--target", "athread", "-o", str(out), "--run"]) == 0
    assert (0, capfd.readouterr().out) == original(path)
    master, slave = ((out / f"head_{side}.c").read_text() for side in ("master", "slave"))
    before = master.partition("_before(")[2].partition("\n}")[0]
    assert [line in before for line in ("head.c:8", "head.c:9", "head.c:11", "head.c:14")] == [
        True, True, True, False,
    ]  # fmt: skip
    assert [line in slave for line in ("head.c:8", "head.c:9", "head.c:11", "head.c:14")] == [
        False, False, False, True,
    ]  # fmt: skip
    assert "/* head.c:15 */" in slave  # what comes after the nests: by the first core


# -- refusals: nothing is written -----------------------------------------------------------------


def refused(capsys: Capture, folder: Path, *words: str) -> str:
    """What is told of a command line; no file is made."""
    before = sorted(path.name for path in folder.iterdir())
    assert main(["cc", *words]) == 2
    assert sorted(path.name for path in folder.iterdir()) == before
    return capsys.readouterr().err


def test_no_main(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "scale.c"
    path.write_text(CHAIN.replace("a[i] + a[i - 1]", "2.0 * a[i]"))
    assert refused(capsys, tmp_path, str(path), "--target", "athread", "--run") == (
        "loopwright: error: 'scale.c' has no main to run\n"
        "try: write the files, then: loopwright athread run MASTER.c SLAVE.c --host FILE.c\n"
    )


def test_another_target(source: Path, capsys: Capture) -> None:
    told = refused(capsys, source.parent, str(source), "--run")
    assert told == (
        "loopwright: error: --run is for target 'athread'\nnote: found --target openmp\n"
        "try: compile what is written, or --target athread; 'openmp' is not emulated\n"
    )


@pytest.mark.parametrize("words", [["--profile"], ["--seed", "2"], ["--", "x"]])
def test_what_is_for_a_run(words: list[str], source: Path, capsys: Capture) -> None:
    told = refused(capsys, source.parent, str(source), "--target", "athread", *words)
    assert told.startswith("loopwright: error: only a program that is run takes these\n")
    assert told.endswith("\ntry: --run\n")


def test_no_parallel_loop(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "chain.c"
    path.write_text(CHAIN)
    assert refused(capsys, tmp_path, str(path), "--target", "athread") == (
        "loopwright: error: no region can be run on a mesh of cores: no parallel loop was found\n"
        "try: loops whose iterations are independent, or --target c\n"
    )


def machine_of(folder: Path, ldm: int) -> str:
    """A file of SW26010 with another size of its LDM."""
    data = Path(load_mesh.__file__).parent / "data" / "mesh" / "sw26010.json"
    small = folder / "small.json"
    old = '"scratchpad_bytes": 65536'
    small.write_text(data.read_text().replace(old, f'"scratchpad_bytes": {ldm}'))
    return str(small)


def test_no_tile_fits(source: Path, capsys: Capture) -> None:
    small = machine_of(source.parent, 4160)
    told = refused(capsys, source.parent, str(source), "--target", "athread", "--machine", small)
    assert told == (
        "loopwright: error: no region can be run on a mesh of cores: "
        "no tile fits into the 4160 bytes of LDM of sw26010\n"
        "try: a --machine of more LDM, or --target c\n"
    )


def test_a_plan_of_tiles_that_do_not_fit(source: Path, capsys: Capture) -> None:
    plan, out = source.with_name("plan.json"), str(source.with_name("out"))
    words = [str(source), "--target", "athread", "-o", out]
    assert main(["cc", *words, "--dump-plan", str(plan)]) == 0
    shutil.rmtree(out)
    words += ["--plan", str(plan), "--machine", machine_of(source.parent, 6144)]
    told = refused(capsys, source.parent, *words)
    assert told.startswith("loopwright: error: sums.c:11: the boxes of the region do not fit on ")
    assert "bytes of LDM, of at most 512\n" in told
    assert told.endswith("try: a plan of smaller tiles\n")


@pytest.mark.parametrize("shape", ["8by8", "9x8", "0x4", "8x8x8"])
def test_unknown_shapes(shape: str, source: Path, capsys: Capture) -> None:
    told = refused(capsys, source.parent, str(source), "--target", "athread", "--threads", shape)
    assert told == (
        f"loopwright: error: --threads takes rows and columns\nnote: found '{shape}'\n"
        "try: --threads 8x8, or 1x64: up to 64 cores\n"
    )


def test_a_file_after_the_options(source: Path, capsys: Capture) -> None:
    """-- ends the options where no file stands before it; what follows another one is passed on."""
    assert main(["cc", "-o", "-", "--", str(source)]) == 0
    alone = capsys.readouterr().out
    assert main(["cc", str(source), "-o", "-"]) == 0
    assert capsys.readouterr().out == alone
    told = refused(capsys, source.parent, "--", str(source), "--", "x")
    assert told.startswith("loopwright: error: only a program that is run takes these\n")
    assert main(["cc", "--"]) == 2
    assert "the following arguments are required: file" in capsys.readouterr().err


def test_a_pipe_is_written_to_and_stays(source: Path, capsys: Capture) -> None:
    """So do devices: `-o /dev/null` as root must not make a file of it."""
    fifo = source.parent / "fifo"
    os.mkfifo(fifo)
    read = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert main(["cc", str(source), "-o", str(fifo)]) == 0
        assert fifo.is_fifo()
        assert main(["cc", str(source), "-o", "-"]) == 0
        assert os.read(read, 1 << 16).decode() == capsys.readouterr().out
    finally:
        os.close(read)


TESTS = Path(__file__).parent.parent / "athread"
HOST = [str(TESTS / "runs" / f"host_{side}.c") for side in ("master", "slave")]
STREAM = [str(TESTS / "runs" / f"stream_{side}.c") for side in ("master", "slave")]


@needs_compiler
def test_the_program_speaks_and_has_its_status(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["athread", "run", *HOST, "--seed", "4", "--", "--seed"]) == 3
    first = capfd.readouterr().out.splitlines()[0]
    assert first == "10 of 64 marks, 10 threads, helper 2, argument --seed"


@needs_compiler
def test_profile_of_files(capfd: pytest.CaptureFixture[str]) -> None:
    sizes = ["-D", "LENGTH=4096", "-D", "BLOCK=1024", "-D", "GAP=128"]
    assert main(["athread", "run", *STREAM, *sizes, "--profile"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "1"
    cells = ["line", "kind", "requests", "blocks", "bytes", "gap", "cycles", "GB/s"]
    assert lines[2].split() == cells
    assert lines[3].split()[1:] == ["get", "512", "4", "1024", "128", "418", "14.2"]
    told = {line[:14].strip(): line[15:] for line in lines[5:]}
    assert told["teams"] == "1"
    assert told["DMA"] == "1024 requests, 4096 blocks, 4194304 bytes"
    assert told["direct access"] == "128 to main memory"
    assert told["bound by"].startswith("the queue of DMA requests (9")
    assert "messages" not in told


def test_refusals(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["athread", "run", "no.c", "none.c"]) == 2
    assert capfd.readouterr().err == "loopwright: error: there is no file 'no.c'\n"
    assert main(["athread", "run", *HOST, "--machine", "zen4"]) == 2
    assert "no processor of core groups is named 'zen4'" in capfd.readouterr().err
    assert main(["athread", "run", *HOST[:1]]) == 2
    assert "usage: loopwright athread run MASTER.c SLAVE.c" in capfd.readouterr().err
