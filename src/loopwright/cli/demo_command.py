"""`loopwright demo`: three programs compiled here and now, their plans, predicted and measured."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import loopwright as lw
from loopwright import semirings
from loopwright.calls.einsum_call import EinsumCall, Scaling
from loopwright.calls.einsum_contraction import choice_of
from loopwright.diagnostics import InternalError
from loopwright.frontends.einsum_syntax import parse_subscripts
from loopwright.ir.dtypes import DTYPES
from loopwright.lazy_dataclass import dataclass
from loopwright.machines.machine_argument import target_machine
from loopwright.planner.contraction_plans.explain import explain_choice
from loopwright.runtime.thread_pool import num_threads
from loopwright.tables import table_lines

__all__ = ["add_arguments", "run"]

CONTRACTION = "efbad,cf->abcde"
ROUNDS = 5
TURN_SECONDS = 0.05
HEAD = ("program", "register tile", "blocks", "threads", "predicted", "measured", "NumPy", "ratio")


@dataclass(frozen=True, slots=True)
class DemoProgram:
    """One program of the demonstration, on operands of its own."""

    title: str
    text: str  # as a user writes it
    ours: Callable[[], Any]  # returns the result
    numpy: Callable[[], Any]  # the same by NumPy
    explain: Callable[[], str]  # the plan in words
    operations: int
    exact: bool  # equal to NumPy to the last bit, not up to rounding


def matmul(A: Any, B: Any, C: Any) -> None:
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            for k in range(A.shape[1]):
                C[i, j] += A[i, k] * B[k, j]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("--size", type=_size, default=512, help="of the matrices (default 512)")


def _size(text: str) -> int:
    """A matrix size between 16 and 2048."""
    if not text.isdigit() or not 16 <= int(text) <= 2048:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 16 to 2048")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Compile, check against NumPy, time in turns, print one table."""
    machine = target_machine()
    print(f"{machine.description}; {num_threads()} threads for Loopwright\n")
    rng = np.random.default_rng(1)
    n = args.size
    rows: list[tuple[str, ...]] = [HEAD]
    for program in (_loops(n, rng), _contraction(n, rng), _shortest(n, rng)):
        start = time.perf_counter()
        result = program.ours()
        first = 1e3 * (time.perf_counter() - start)
        _check(program, result)
        print(f"{program.title}, first call {first:.0f} ms\n{_indented(program.text)}")
        rows.append(_row(program))
    print("\n".join(table_lines(rows)))
    print("\nGop/s; predicted by the machine model, measured as the best of many calls in turns.")
    return 0


def _loops(n: int, rng: np.random.Generator) -> DemoProgram:
    """The naive product, as anybody would write it."""
    a, b, c = rng.random((n, n)), rng.random((n, n)), np.zeros((n, n))
    kernel = lw.jit(matmul)

    def ours() -> Any:
        kernel(a, b, c)
        return c

    return DemoProgram(
        "product of matrices",
        "@lw.jit over three loops: C[i, j] += A[i, k] * B[k, j]",
        ours,
        lambda: a @ b,
        lambda: kernel.explain(a, b, c),
        2 * n**3,
        exact=False,
    )


def _contraction(n: int, rng: np.random.Generator) -> DemoProgram:
    """Five indices in the result, one summed over; about the work of a product of size n."""
    side = max(2, round(n ** (1 / 4)))  # of e, b, a and d, whose bundle is as long as n
    a, b = rng.random((side, n, side, side, side)), rng.random((n, n))
    text = CONTRACTION
    return DemoProgram(
        "contraction",
        f'lw.einsum("{text}", A, B)',
        lambda: lw.einsum(text, a, b),
        lambda: np.einsum(text, a, b, optimize=True),
        lambda: _plan(text, a, b, "plus_times"),
        2 * a.size * n,
        exact=False,
    )


def _shortest(n: int, rng: np.random.Generator) -> DemoProgram:
    """Shortest paths of at most two edges, in single precision."""
    a, b = (rng.random((n, n), np.float32) for _ in range(2))
    return DemoProgram(
        "shortest ways",
        'lw.einsum("ik,kj->ij", A, B, semiring="min_plus")',
        lambda: lw.einsum("ik,kj->ij", a, b, semiring="min_plus"),
        lambda: np.stack([np.min(row[:, None] + b, axis=0) for row in a]),
        lambda: _plan("ik,kj->ij", a, b, "min_plus"),
        2 * n**3,
        exact=True,
    )


def _plan(text: str, a: Any, b: Any, ring: str) -> str:
    names = parse_subscripts(text, (a.ndim, b.ndim))
    sizes = dict(zip("".join(names.operands), (*a.shape, *b.shape), strict=True))
    out = np.empty([sizes[c] for c in names.out], a.dtype)
    dtype, pair = DTYPES[a.dtype.name], semirings.semiring(ring)
    call = EinsumCall(names, (a, b), out, pair, dtype, Scaling(), num_threads(), target_machine())
    return explain_choice(choice_of(call), target_machine())


def _check(program: DemoProgram, result: Any) -> None:
    right = program.numpy()
    allowed = 0.0 if program.exact else 1e-10 * float(np.abs(right).max())
    error = float(np.abs(result - right).max())
    if not error <= allowed:
        raise InternalError(f"{program.title}: the result is wrong by {error:g}", program.text)


def _row(program: DemoProgram) -> tuple[str, ...]:
    facts = _facts(program.explain())
    ours, numpy = _race(program)
    tile = facts.get("register tile", "-").partition(" (")[0]
    return (
        program.title,
        tile,
        facts.get("blocks", "-"),
        facts.get("threads", "-").partition(",")[0],
        facts.get("predicted", "-").rpartition(", ")[2].removesuffix(" Gop/s"),
        f"{1e-9 * program.operations / ours:.1f}",
        f"{1e-9 * program.operations / numpy:.1f}",
        f"{numpy / ours:.2f}",
    )


def _facts(explanation: str) -> dict[str, str]:
    """`  key: value` lines of an explanation."""
    pairs = (line.strip().partition(": ") for line in explanation.splitlines())
    return {key: value for key, _, value in pairs}


def _race(program: DemoProgram) -> tuple[float, float]:
    """Best times of Loopwright and of NumPy in seconds, measured alternately."""
    best = [float("inf"), float("inf")]
    for _ in range(ROUNDS):
        for place, call in enumerate((program.ours, program.numpy)):
            time.sleep(TURN_SECONDS)  # workers of BLAS spin for a while after a call
            end = time.perf_counter() + TURN_SECONDS
            while (start := time.perf_counter()) < end:
                call()
                best[place] = min(best[place], time.perf_counter() - start)
    return best[0], best[1]


def _indented(text: str) -> str:
    return f"    {text}\n"
