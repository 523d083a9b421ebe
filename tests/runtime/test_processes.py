"""Forked children, exits and faults of whole processes: right results, no hang, no shared memory.

Each case is a script in a process of its own, because it forks or ends the interpreter.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from drawn import in_all

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
def test_fork_after_use() -> None:
    """The child has none of the parent's workers and starts its own."""
    out = run("""
        assert work(1)
        children = [in_child(seed) for seed in range(3)]
        assert all(work(seed) for seed in range(20))
        assert all(map(ended_well, children))
        print("right")
        """)
    assert out == "right\n"


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
def test_parent_and_child_share_no_scratch_memory() -> None:
    out = run("""
        import ctypes
        from loopwright.runtime.scratch import local_scratch
        address = local_scratch().reserve(1000)
        memory = (ctypes.c_char * 1000).from_address(address)
        memory[0] = b"p"
        child = os.fork()
        if child == 0:
            memory[0] = b"c"
            os._exit(0)
        assert ended_well(child)
        print(memory[0])
        """)
    assert out == "b'p'\n"


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


@needs_fork
def test_a_child_of_a_child() -> None:
    out = run("""
        assert work(1)
        child = os.fork()
        if child == 0:
            right = work(2) and ended_well(in_child(3))
            os._exit(0 if right else 1)
        assert ended_well(child)
        print("right")
        """)
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


def test_exit_with_idle_workers_is_quick() -> None:
    assert run("assert work(1, 2); print('done')") == "done\n"


def test_exit_from_a_thread_that_calls() -> None:
    out = run("""
        caller = threading.Thread(target=lambda: [work(s) for s in range(50)], daemon=True)
        caller.start()
        assert work(1)
        print("done")
        """)
    assert out == "done\n"


def test_damaged_cache_files_cost_only_time(tmp_path: Path) -> None:
    """Every file of the cache damaged, in turn: the results stay right."""
    cache = tmp_path / "cache"
    source = "assert work(1, 2, 'int64', 90); print('right')"
    assert run(source, cache) == "right\n"
    files = sorted(cache.glob("*.lwo"))
    assert len(files) >= 2  # a kernel and the pool
    for number, file in enumerate(files):
        data = bytearray(file.read_bytes())
        data[(number * 977 + 60) % len(data)] ^= 1
        file.write_bytes(data)
    assert run(source, cache) == "right\n"
    files[0].write_bytes(b"")
    cache.chmod(0o777)
    assert run(source, cache) == "right\n"


def test_without_a_cache(tmp_path: Path) -> None:
    source = (
        "from loopwright import options\nwith options.override(cache=False):\n    print(work(1))"
    )
    assert run(source, tmp_path / "never") == "True\n"
    assert not (tmp_path / "never").exists()
