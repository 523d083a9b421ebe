"""Forked children, exits, faults and folders of whole processes: right results, no hang."""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from drawn import in_all
from loopwright.cli import main
from loopwright.runtime.own_folder import own_folder
from needed_tools import needs_compiler
from outside.campaigns.failing_resources import failing

HEAD = """
import os, signal, sys, threading, time
import numpy as np
import loopwright as lw
signal.alarm(50)  # a hang is a failure

def work(seed, threads=2, dtype="float64", size=60):
    random = np.random.default_rng(seed)
    a, b = random.integers(-4, 5, (2, size, size)).astype(dtype)
    found = lw.einsum("ij,jk->ik", a, b, threads=threads)
    return np.array_equal(found, (a @ b).astype(found.dtype))

def in_child(*args):
    child = os.fork()
    if child == 0:
        signal.alarm(50)
        try:
            os._exit(0 if work(*args) else 1)
        finally:
            os._exit(2)
    return child

def ended_well(child):
    return os.waitpid(child, 0)[1] == 0
"""


def run(source: str, cache: Path | None = None) -> str:
    """What the script prints; it must end well."""
    environment = dict(os.environ, PYTHONWARNINGS="ignore::DeprecationWarning")
    if cache is not None:
        environment["LOOPWRIGHT_CACHE_DIR"] = str(cache)
    script = textwrap.dedent(HEAD) + textwrap.dedent(source)
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@needs_fork
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_fork_after_regions_of_openmp(tmp_path: Path) -> None:
    """GNU's runtime does not start workers anew in a child: regions have one thread there."""
    file = tmp_path / "scale.c"
    file.write_text("""
        void scale(int n, double a[n], double b[n]) {
        #pragma scop
          for (int i = 0; i < n; i++) b[i] = 2 * a[i];
        #pragma endscop
        }""")
    out = run(f"""
        scale = lw.compile({str(file)!r}, target="openmp", threads=2)
        a = np.arange(100_000.0)

        def work(seed):
            b = np.empty_like(a)
            scale(a.size, a, b)
            return (b == 2 * a).all()

        assert work(0)
        children = [in_child(seed) for seed in range(3)]
        assert all(map(ended_well, children)) and work(0)
        print("right")
        """)
    assert out == "right\n"


@needs_fork
def test_fork_while_others_compile(tmp_path: Path) -> None:
    """LLVM and its lock are never copied in the middle of a call, so the child can compile too."""
    rounds = 20 if in_all() else 2
    out = run(
        f"""
        assert work(0, 1)  # imports are over: their locks would be copied as well
        kinds = ["int32", "int64", "float32", "uint8", "complex64"][:{5 if in_all() else 2}]
        compiling = threading.Thread(target=lambda: [work(0, 1, d) for d in kinds])
        compiling.start()
        pauses = np.random.default_rng(7).uniform(0, 0.05, {rounds})
        children = []
        for round, pause in enumerate(pauses):
            time.sleep(pause)
            children.append(in_child(round, 1, "complex128"))
        assert all(map(ended_well, children))
        compiling.join()
        print("right")
        """,
        tmp_path / "cache",
    )
    assert out == "right\n"


def test_calls_while_the_interpreter_ends() -> None:
    """Handlers registered before the first call run after the workers have gone."""
    out = run("""
        import atexit
        atexit.register(lambda: print(work(3)))
        assert work(2)
        print("end")
        """)
    assert out == "end\nTrue\n"


EXIT_HEAD = """
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
        [sys.executable, "-c", EXIT_HEAD + CASES[case] + ENDS[end], str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


REGION = """
void f(int n, double y[n]) {
#pragma scop
  for (int i = 0; i < n; i++)
    y[i] = 2 * y[i] + 1;
#pragma endscop
}
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made."""
    found = tmp_path / "temporary"
    found.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(found))
    return found


@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_folder_goes_where_no_file_can_be_opened(place: Path, n: int, lasting: bool) -> None:
    with failing("open", n, lasting=lasting), contextlib.suppress(OSError), own_folder() as folder:
        (folder / "one").write_text("x", encoding="utf-8")
        (folder / "two").write_text("y", encoding="utf-8")
    assert list(place.iterdir()) == []


@needs_compiler
def test_a_command_leaves_no_folder(place: Path, tmp_path: Path) -> None:
    source = tmp_path / "region.c"
    source.write_text(REGION, encoding="utf-8")
    words = ["cc", str(source), "--target", "c", "-o", str(tmp_path / "made.c")]
    assert main(words) == 0  # what the process asks for once only
    with failing("open", 0) as uses:
        assert main(words) == 0
    for n in range(uses.count - 2, uses.count + 1):
        with failing("open", n):
            main(words)
        assert list(place.iterdir()) == []


TEXT = (
    "loopwright cannot be imported in a sub-interpreter: its compiled code, LLVM and isl have one "
    "state for the whole process. Import it in the main interpreter (mod_wsgi: "
    "WSGIApplicationGroup %{GLOBAL}), or use processes"
)
INSIDE = """
import sys
try:
    import {module}
except ImportError as error:
    print(type(error).__name__, error.name, error, sep="|", flush=True)
print([x for x in sys.modules if x.split(".")[0] in ("numpy", "llvmlite", "islpy")], flush=True)
"""
OUTSIDE = """
import sys
{before}
try:
    import _interpreters as interpreters
    made = interpreters.create("legacy")  # with the lock of the main one, as WSGI servers do
except ImportError:
    import _xxsubinterpreters as interpreters
    made = interpreters.create()
interpreters.run_string(made, {inside!r})
import loopwright as lw
import numpy as np
print(lw.einsum("i,i->", np.ones(3), np.ones(3)))
"""


def has_sub_interpreters() -> bool:
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            importlib.import_module(name)
        except ImportError:
            continue
        return True
    return False


@pytest.mark.skipif(not has_sub_interpreters(), reason="this Python has no sub-interpreters")
@pytest.mark.parametrize("before", ["", "import loopwright; loopwright.einsum"])
@pytest.mark.parametrize(
    "module", ["loopwright", "loopwright.runtime.llvm_engine", "loopwright.kernels"]
)
def test_imports_are_refused(module: str, before: str) -> None:
    """Whether the main interpreter uses it already or not; and it still can afterwards."""
    script = OUTSIDE.format(before=before, inside=INSIDE.format(module=module))
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"ImportError|loopwright|{TEXT}\n[]\n3.0\n"
