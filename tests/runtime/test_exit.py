"""The end of the interpreter while threads are at work: soon, without a crash, without output.

Each case is a process of its own. Threads that are daemons are inside kernels, teams, compilers or
searches when the main thread ends; what they would still do is lost.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HEAD = """
import itertools, signal, sys, threading, time
import numpy as np
import loopwright as lw
signal.alarm(300)  # a hang is a failure

begun = threading.Semaphore(0)

def at_work(body, threads=3):
    # Begin threads that call body(number) for ever, and wait until each has called it once.
    def run(first):
        body(first)
        begun.release()
        for number in itertools.count(first + threads, threads):
            body(number)
    for first in range(threads):
        threading.Thread(target=run, args=(first,), daemon=True).start()
    for _ in range(threads):
        begun.acquire()

a = np.arange(90_000.0).reshape(300, 300)
"""

KERNELS = """
at_work(lambda number: lw.einsum("ij,jk->ik", a, a, threads=1))
"""

TEAMS = """
at_work(lambda number: lw.einsum("ij,jk->ik", a, a, threads=2))
"""

COMPILERS = """
def compiled(number):
    ring = lw.semirings.make_semiring(
        f"scaled by {number}", lambda x, y: x + y, lambda x, y: x * y * (number + 2.0),
        zero=0.0, one=1 / (number + 2), check=False,
    )
    lw.einsum("ij,jk->ik", np.ones((5, 4)), np.ones((4, 3)), semiring=ring)

at_work(compiled, 2)
"""

LIBRARIES = """
def text(target):
    return lw.compile(
        "void f(int n, double a[n], double b[n]) {\\n#pragma scop\\n"
        "for (int t = 0; t < 50; t++) for (int i = 0; i < n; i++) b[i] += a[i] * t;\\n"
        "#pragma endscop\\n}\\n", target)
functions = [text("c"), text("openmp")]
x = np.ones(20_000)
at_work(lambda number: functions[number % 2](20_000, x, np.zeros(20_000)), 2)
"""

RACE = """
import os
path = sys.argv[1] + "/raced.py"
with open(path, "w") as file:
    file.write(
        "def f(a, b):\\n"
        "    for i in range(1, a.shape[0] - 1):\\n"
        "        for j in range(1, a.shape[1] - 1):\\n"
        "            b[i, j] = a[i - 1, j] + a[i, j - 1] * a[i + 1, j] - a[i, j + 1]\\n"
    )
sys.path.insert(0, sys.argv[1])
import raced
f = lw.jit(raced.f)
b = np.zeros_like(a)
at_work(lambda number: f(a, b), 1)
for _ in range(40):
    f(a, b)
"""

TUNING = """
import pathlib
def search():
    lw.tune("ij,jk->ik", a, a, by="search", budget_ms=200_000)
searching = threading.Thread(target=search, daemon=True)
searching.start()
children = pathlib.Path("/proc/self/task")
while searching.is_alive() and not any(x.read_text() for x in children.glob("*/children")):
    time.sleep(0.01)  # until it measures
assert searching.is_alive()
"""

CASES = {
    "kernels": KERNELS,
    "teams": TEAMS,
    "compilers": COMPILERS,
    "libraries": LIBRARIES,
    "race": RACE,
    "tuning": TUNING,
}
ENDS = {"end": "", "exit": "sys.exit(0)\n"}


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the system tells no threads")
@pytest.mark.drawn(2)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("case", CASES)
def test_exit_with_threads_at_work(case: str, end: str, tmp_path: Path) -> None:
    if case == "libraries" and shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    environment = {**os.environ, "LOOPWRIGHT_RACE": "1"}
    if case == "compilers":  # each of its kernels is compiled
        environment["LOOPWRIGHT_CACHE"] = "0"
    done = subprocess.run(
        [sys.executable, "-c", HEAD + CASES[case] + ENDS[end], str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
