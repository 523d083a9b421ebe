"""One process that makes many different calls, checks every result and tells its memory.

    python tests/outside/long_lived_child.py --calls 20000 --marks 1000,10000,20000

Calls are einsums, functions of `jit`, C through `compile`, conversions and products of sparse
matrices, each with a layout that did not come before, and now and then one that came long ago. In
between timers interrupt whatever runs: most handlers make a call themselves. Some raise, as Ctrl-C
does, while a program is read, planned, compiled or run, which is then done again. Children are
forked that make a call and end.

Prints a line of JSON at every mark: calls, bytes in memory, what was done so far. Run it with
MALLOC_PERTURB_ and PYTHONMALLOC=debug: memory that is read after it was freed then holds garbage.
"""

from __future__ import annotations

import argparse
import faulthandler
import functools
import gc
import importlib.util
import json
import os
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

INTERRUPT_SECONDS = 0.002
RAISING = (1, 2, 3, 5, 10, 30, 100)  # which of the handlers in a call raises
MOST_SECONDS = 600  # of one call; then all threads are told, and the process ends
FORK_EVERY = 250
RETURNED_EVERY = 5  # one call in so many is an earlier one
MOST_EARLIER = 40  # calls that may come again
# Patterns that two threads share: products, a sum of products, elements that are written once.
TEAMS = ("ab,bc->ac", "ab,cb->ac", "ab,b->a", "ab->ba", "a,b->ba")


def shrink_caches(most: int) -> None:
    """Let every cache hold `most` entries at most; before any module of ours is loaded."""
    plain = functools.lru_cache

    def small(maxsize: Any = 128, typed: bool = False) -> Any:
        return plain(maxsize if callable(maxsize) else min(maxsize or most, most), typed)

    functools.lru_cache = small  # type: ignore[assignment]
    from loopwright.memo import BoundedCache

    init = BoundedCache.__init__

    def few(self: Any, entries: int) -> None:
        init(self, min(entries, most))

    BoundedCache.__init__ = few  # type: ignore[method-assign]


class Interrupted(BaseException):
    """What a handler raises: like KeyboardInterrupt, but nobody else's."""


Finish = Callable[[Callable[[], Any]], Any]  # does work, once more where it was broken off


class Calls:
    """Draws calls. Each is a function without arguments that raises AssertionError when wrong."""

    def __init__(self, seed: int, folder: Path, done: Counter[str], finish: Finish) -> None:
        import loopwright as lw
        from loopwright import sparse

        self.lw, self.sparse = lw, sparse
        self.random = random.Random(seed)
        self.data = np.random.default_rng(seed)
        self.folder = folder
        self.patterns: list[str] = []
        self.jitted: list[Callable[..., Any]] = []
        self.files: list[tuple[int, Any]] = []
        self.done = done
        self.finish = finish
        self.earlier: list[Callable[[], None]] = []

    def draw(self) -> Callable[[], None]:
        """A new call, or now and then an earlier one."""
        if self.earlier and self.random.random() < 1 / RETURNED_EVERY:
            self.done["again"] += 1
            return self.random.choice(self.earlier)
        call = self.fresh()
        if len(self.earlier) < MOST_EARLIER:
            self.earlier.append(call)
        elif self.random.random() < 0.02:
            self.earlier[self.random.randrange(MOST_EARLIER)] = call
        return call

    def fresh(self) -> Callable[[], None]:
        kinds = (self.einsum, self.jit, self.compile, self.sparse_call)
        (kind,) = self.random.choices(kinds, weights=(84, 9, 4, 3))
        self.done[kind.__name__] += 1
        return kind()

    def is_new(self, known: list[Any], every: int) -> bool:
        """Whether a new program is drawn: the first ones soon, later ones rarely."""
        return not known or self.random.random() < 1 / (4 + len(known) * every / 40)

    def size(self) -> int:
        return self.random.randint(1, 40) if self.random.random() < 0.97 else 150

    def dtype(self) -> Any:
        return self.random.choice((np.float64, np.float32, np.int64, np.int32))

    def values(self, dtype: Any, *shape: int) -> Any:
        """Small whole numbers: sums of products are exact in every order."""
        return self.data.integers(-3, 4, shape).astype(dtype)

    # -- dense ------------------------------------------------------------------------------------

    def pattern(self) -> str:
        letters = self.random.sample("abcdef", 4)
        terms = [
            "".join(self.random.sample(letters, self.random.randint(1, 3)))
            for _ in range(self.random.choice((1, 2, 2, 2, 3)))
        ]
        used = sorted(set("".join(terms)))
        out = self.random.sample(used, self.random.randint(0, min(3, len(used))))
        return f"{','.join(terms)}->{''.join(out)}"

    def einsum(self) -> Callable[[], None]:
        if self.is_new(self.patterns, 2):
            self.patterns.append(self.pattern())
        threads = 2 if self.random.random() < 0.1 else 1
        text = self.random.choice(self.patterns if threads == 1 else TEAMS)
        terms = text.split("->")[0].split(",")
        letters = sorted(set("".join(terms)))
        most = 40 if len(letters) < 4 else 9
        extents = {c: min(self.size(), most) for c in letters}
        if threads == 2:
            extents = {c: self.random.randint(100, 160) for c in letters}
        dtype = self.dtype()
        arrays = [self.laid_out(self.values(dtype, *(extents[c] for c in t))) for t in terms]
        wanted = np.einsum(text, *arrays)

        def call() -> None:
            same(self.lw.einsum(text, *arrays, threads=threads), wanted)

        return call

    def laid_out(self, array: Any) -> Any:
        """The same elements in another order of storage, or apart from one another."""
        how = self.random.randrange(4)
        if how == 0:
            return np.asfortranarray(array)
        if how == 1:
            wide = np.empty((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
            wide[..., ::2] = array
            return wide[..., ::2]
        return array[::-1] if how == 2 else array

    def jit(self) -> Callable[[], None]:
        if self.is_new(self.jitted, 40):
            self.jitted.append(self.lw.jit(self.written(len(self.jitted))))
        return self.jit_call(self.random.choice(self.jitted))

    def jit_call(self, function: Any) -> Callable[[], None]:
        n, m = self.size() + 3, self.size() + 3
        a, b = self.data.integers(-9, 9, (2, n, m)).astype(float)
        wanted = b.copy()
        function.py_func(a, wanted)

        def call() -> None:
            out = b.copy()
            function(a, out)
            same(out, wanted)

        return call

    def written(self, number: int) -> Callable[..., Any]:
        """A function of Python in a file of its own, unlike all others."""
        r = self.random
        ops = [r.choice(("+", "-", "*")) for _ in range(2)]
        down, left = r.randrange(3), r.randrange(3)
        value = f"{number} {ops[0]} a[i - {down}, j] {ops[1]} {r.randint(1, 9)} * a[i, j - {left}]"
        order = r.choice((("i", "j"), ("j", "i")))
        ranges = {"i": "range(2, a.shape[0])", "j": "range(2, a.shape[1])"}
        file = self.folder / f"written{number}.py"
        file.write_text(
            f"def written{number}(a, out):\n"
            f"    for {order[0]} in {ranges[order[0]]}:\n"
            f"        for {order[1]} in {ranges[order[1]]}:\n"
            f"            out[i, j] = out[i, j] + {value}\n",
            encoding="utf-8",
        )
        spec = importlib.util.spec_from_file_location(f"written{number}", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return getattr(module, f"written{number}")

    def compile(self) -> Callable[[], None]:
        if self.is_new(self.files, 60):
            number = len(self.files)
            target = ("host", "openmp", "c")[number % 3]
            self.files.append((number, self.finish(lambda: self.compiled(number, target))))
            if len(self.files) > 24:  # what nobody holds any more is unloaded
                self.files.pop(self.random.randrange(12))
        return self.compiled_call(*self.random.choice(self.files))

    def compiled_call(self, number: int, function: Any) -> Callable[[], None]:
        n = self.size() + 1
        a, b = self.data.integers(-9, 9, (2, n)).astype(float)
        wanted = b.copy()
        wanted[1:] += number * a[:-1] - 2

        def call() -> None:
            out = b.copy()
            function(n, a, out)
            same(out, wanted)

        return call

    def compiled(self, number: int, target: str) -> Any:
        text = (
            f"void f{number}(int n, double a[n], double b[n]) {{\n#pragma scop\n"
            f"  for (int i = 1; i < n; i++) b[i] = b[i] + {number} * a[i - 1] - 2;\n"
            "#pragma endscop\n}\n"
        )
        return self.lw.compile(text, target)

    # -- sparse -----------------------------------------------------------------------------------

    def format(self) -> str:
        names = ("csr", "csc", "coo", "scoo", "dia", "bcsr", "ell", "sell")
        name = self.random.choice(names)
        if name == "bcsr":
            return f"bcsr({self.random.randint(1, 4)},{self.random.randint(1, 4)})"
        if name == "sell":
            return f"sell({self.random.choice((2, 4))},{self.random.choice((4, 8))})"
        return name

    def sparse_call(self) -> Callable[[], None]:
        n, m = self.size(), self.size()
        dense = self.values(self.dtype(), n, m) * (self.data.random((n, m)) < 0.2)
        matrix = scipy.sparse.coo_array(dense) if self.random.random() < 0.5 else dense
        first, second = self.format(), self.format()
        x = self.data.integers(-3, 4, m).astype(dense.dtype)
        wide = self.data.integers(-3, 4, (m, 3)).astype(dense.dtype)
        sparse = self.sparse

        def call() -> None:
            tensor = sparse.convert(matrix, first)
            same(sparse.spmv(tensor, x), dense @ x)
            other = sparse.convert(tensor, second)
            same(sparse.einsum("ij,jk->ik", other, wide), dense @ wide)
            found = sparse.convert(other, "csr")
            same(found.toarray() if scipy.sparse.issparse(found) else found.to_dense(), dense)

        return call


def same(found: Any, wanted: Any) -> None:
    assert np.array_equal(found, wanted), f"found {found!r}\nwanted {wanted!r}"


class Interruptions:
    """A timer whose handler makes a call of its own, or raises: once in every call at most."""

    def __init__(self, lw: Any, done: Counter[str], seed: int, every: float) -> None:
        self.lw, self.done, self.every = lw, done, every
        self.random = random.Random(seed)
        self.is_handling = False
        self.left = 0  # signals until a handler raises; none does at 0
        self.a = np.arange(12.0).reshape(3, 4)
        self.wanted = self.a @ self.a.T

    def __enter__(self) -> Interruptions:
        self.handle()
        signal.signal(signal.SIGALRM, self.handle)
        signal.setitimer(signal.ITIMER_REAL, self.every, self.every)
        return self

    def __exit__(self, *_: Any) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)

    def handle(self, *_: Any) -> None:
        self.done["signals"] += 1
        if self.left and not self.is_handling:
            self.left -= 1
            if self.left == 0:
                self.done["interrupted"] += 1
                raise Interrupted
        if not self.is_handling:  # a handler that is interrupted itself makes no third call
            self.is_handling = True
            same(self.lw.einsum("ij,kj->ik", self.a, self.a), self.wanted)
            self.is_handling = False

    def finish(self, work: Callable[[], Any]) -> Any:
        """What work gives, which may be broken off: then it is done once more."""
        left = self.random.choice(RAISING)
        try:
            self.left = left
            found = work()
            self.left = 0
        except Interrupted:
            return work()
        return found


def in_child(call: Callable[[], None]) -> None:
    """Make a call in a forked process, which ends without a word."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    child = os.fork()
    if child != 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    else:
        status = 1
        try:
            call()
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"a child ended with status {status}"


def resident() -> int:
    """Bytes of this process in memory."""
    words = Path("/proc/self/statm").read_text().split()
    return int(words[1]) * os.sysconf("SC_PAGE_SIZE")


def tell(calls: Calls, made: int, seed: int) -> None:
    gc.collect()
    facts = {"calls": made, "resident": resident(), "seed": seed, "done": dict(calls.done)}
    facts["patterns"], facts["functions"] = len(calls.patterns), len(calls.jitted)
    facts["recent"] = {"entries": 0, "full": 0}
    from loopwright.memo import BoundedCache

    for found in gc.get_objects():
        if isinstance(found, BoundedCache):
            assert len(found) <= found._most
            facts["recent"]["entries"] += len(found)
            facts["recent"]["full"] += len(found) > found._most // 2
    print(json.dumps(facts), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=float, default=INTERRUPT_SECONDS, help="seconds")
    parser.add_argument("--marks", default="1000,10000,20000")
    parser.add_argument("--caches", type=int, default=0, help="entries of every cache at most")
    parser.add_argument("--repeat", type=int, default=0, help="begin anew after so many calls")
    args = parser.parse_args()
    faulthandler.enable()
    if args.caches:
        shrink_caches(args.caches)
    marks = {int(mark) for mark in args.marks.split(",")}
    import loopwright as lw

    done: Counter[str] = Counter()
    interruptions = Interruptions(lw, done, args.seed, args.every)
    with tempfile.TemporaryDirectory() as folder, interruptions:
        for made in range(1, args.calls + 1):
            if made == 1 or (args.repeat and made % args.repeat == 1):
                calls = Calls(args.seed, Path(folder), done, interruptions.finish)
            call = calls.draw()
            faulthandler.dump_traceback_later(MOST_SECONDS, exit=True)
            interruptions.finish(call)
            interruptions.finish(call)  # nothing is planned this time
            if made % FORK_EVERY == 0:
                in_child(call)
                done["forks"] += 1
            if made in marks:
                tell(calls, made, args.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
