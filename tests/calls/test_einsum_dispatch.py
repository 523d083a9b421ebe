"""Repeated calls of einsum and of functions of C run natively, and do what Python's road does."""

from __future__ import annotations

import gc
import inspect
import os
import pickle
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from drawn import combined
from loopwright import kernels
from loopwright.calls import einsum as roads
from loopwright.calls import einsum_dispatch
from loopwright.calls.c_function import CFunction
from loopwright.diagnostics import DtypeError, LoopwrightError, UsageError
from loopwright.ir.call_dispatch import STATE
from loopwright.kernels import dispatcher
from loopwright.runtime import native_dispatch
from loopwright.runtime.call_table import CallProgram
from loopwright.runtime.native_dispatch import Dispatcher

pytestmark = pytest.mark.skipif(dispatcher() is None, reason="another layout of objects")


def found() -> Dispatcher:
    here = dispatcher()
    assert here is not None
    return here


def is_native(call: Callable[[], Any]) -> bool:
    """Whether a call does without Python."""
    road, calls = roads.einsum, []

    def counted(*args: Any, **named: Any) -> Any:
        calls.append(args)
        return road(*args, **named)

    roads.einsum = counted
    found().words[STATE["countdown"]] = 100
    try:
        call()
    finally:
        roads.einsum = road
    return not calls


def becomes_native(call: Callable[[], Any]) -> bool:
    call(), call()
    return is_native(call)


def operands(shapes: list[tuple[int, ...]], dtype: str) -> list[np.ndarray]:
    random = np.random.default_rng(len(shapes))
    made = [np.asarray(random.integers(0, 5, shape)) for shape in shapes]
    return [np.asarray(x % (2 if dtype == "bool" else 5)).astype(dtype) for x in made]


# -- equal to the road of Python ------------------------------------------------------------------

CALLS = [
    ("ij,jk->ik", [(5, 7), (7, 3)]),
    ("ij,jk->ik", [(40, 70), (70, 130)]),
    ("ij,kj->ki", [(9, 33), (8, 33)]),
    ("bij,bjk->bik", [(3, 4, 5), (3, 5, 6)]),
    ("i,i->", [(11,), (11,)]),
    ("i,j->ij", [(6,), (5,)]),
    ("ij,j->i", [(30, 41), (41,)]),
    ("ij->j", [(6, 8)]),
    ("ij->", [(6, 8)]),
    ("ij,ij->ij", [(6, 1), (1, 8)]),
    ("...,...", [(3, 4), (4,)]),
    ("ij,jk,kl->il", [(4, 5), (5, 6), (6, 7)]),
    ("ij,jk,kl,lm->im", [(4, 5), (5, 6), (6, 7), (7, 2)]),
    (",ij->ij", [(), (3, 4)]),
]
DTYPES = ["float32", "float64", "int64", "int8", "complex64", "bool", "float16", "uint16"]


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("call", "dtype"), combined(CALLS, DTYPES, one_in=5))
def test_results_are_those_of_python(call: tuple[str, list[Any]], dtype: str) -> None:
    subscripts, shapes = call
    given = operands(shapes, dtype)
    wanted = roads.einsum(subscripts, *given)
    is_law = len(given) < 3 or dtype in ("float32", "float64", "bool", "complex64")
    native = becomes_native(lambda: lw.einsum(subscripts, *given))
    assert native or not is_law
    result = lw.einsum(subscripts, *given)
    assert type(result) is type(wanted)
    assert result.dtype == wanted.dtype
    np.testing.assert_array_equal(result, wanted)
    if result.ndim:
        assert result.flags.num == wanted.flags.num
        assert result.strides == wanted.strides


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "reversed": lambda x: x[::-1, ::-1],
    "cut": lambda x: np.repeat(np.repeat(x, 2, 0), 3, 1)[::2, ::3],
    "broadcast": lambda x: np.broadcast_to(x[:, :1], x.shape),
    "read-only": lambda x: np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape),
}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("semiring", ["plus_times", "min_plus"])
def test_layouts(layout: str, semiring: str) -> None:
    a, b = (LAYOUTS[layout](x) for x in operands([(5, 6), (6, 7)], "float64"))
    wanted = roads.einsum("ij,jk->ik", a, b, semiring=semiring)
    assert becomes_native(lambda: lw.einsum("ij,jk->ik", a, b, semiring=semiring))
    np.testing.assert_array_equal(lw.einsum("ij,jk->ik", a, b, semiring=semiring), wanted)


def test_accumulation() -> None:
    a, b = operands([(5, 6), (6, 7)], "float64")
    out = np.zeros((5, 7))
    for turn in range(1, 6):
        assert lw.einsum("ij,jk->ik", a, b, out=out, accumulate=True) is out
        np.testing.assert_array_equal(out, turn * (a @ b))
    assert is_native(lambda: lw.einsum("ij,jk->ik", a, b, out=out, accumulate=True))
    assert becomes_native(lambda: lw.einsum("ij,jk->ik", a, b, out=out, beta=1))


# -- whatever is different goes the road of Python ------------------------------------------------


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(LoopwrightError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda a, b: (a[:, :5], b),
        lambda a, b: (a, b[None]),
        lambda a, b: (a.astype(object), b),
        lambda a, b: (a, "b"),
    ],
)
def test_refusals_after_native_calls(change: Callable[..., Any]) -> None:
    a, b = operands([(5, 6), (6, 7)], "float64")
    assert becomes_native(lambda: lw.einsum("ij,jk->ik", a, b))
    given = change(a, b)
    said = refusal(lambda: lw.einsum("ij,jk->ik", *given))
    assert said == refusal(lambda: roads.einsum("ij,jk->ik", *given))
    assert is_native(lambda: lw.einsum("ij,jk->ik", a, b))


def test_other_arrays_after_native_calls() -> None:
    a, b = operands([(5, 6), (6, 7)], "float64")
    assert becomes_native(lambda: lw.einsum("ij,jk->ik", a, b))

    class Mine(np.ndarray):
        pass

    bytes_apart = np.zeros(a.nbytes + 1, np.uint8)[1:].view(np.float64).reshape(a.shape)
    bytes_apart[...] = a
    for other in (a.astype(">f8"), a.view(Mine), bytes_apart, a.astype(np.float32), a.tolist()):
        result = lw.einsum("ij,jk->ik", other, b)
        assert type(result) is np.ndarray
        np.testing.assert_array_equal(result, a @ b)
        assert not is_native(lambda other=other: lw.einsum("ij,jk->ik", other, b)) or (
            type(other) is np.ndarray and other.dtype == np.float32
        )


def test_outs_that_overlap() -> None:
    block = np.zeros((12, 6))
    a, b = operands([(6, 6), (6, 6)], "float64")
    out = np.empty((6, 6))
    assert becomes_native(lambda: lw.einsum("ij,jk->ik", a, b, out=out))
    here = block[:6]
    here[...] = a
    for place in (block[:6], block[3:9]):
        here[...] = a
        wanted = here.copy() @ b
        assert not is_native(lambda place=place: lw.einsum("ij,jk->ik", here, b, out=place))
        here[...] = a
        lw.einsum("ij,jk->ik", here, b, out=place)
        np.testing.assert_array_equal(place, wanted)
    here[...] = a
    assert is_native(lambda: lw.einsum("ij,jk->ik", here, b, out=block[6:]))
    np.testing.assert_array_equal(block[6:], a @ b)


# -- memory ---------------------------------------------------------------------------------------


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_many_calls_leave_nothing() -> None:
    a, b = operands([(3, 4), (4, 2)], "float64")
    c = np.ones((2, 3))
    out = np.empty((3, 2))
    text, ring = "ij,jk->ik", lw.semirings.semiring("min_plus")
    calls: list[Callable[[], Any]] = [
        lambda: lw.einsum(text, a, b),
        lambda: lw.einsum(text, a, b, out=out, semiring=ring),
        lambda: lw.einsum("ij,jk,kl->il", a, b, c),
        lambda: lw.einsum("ij->ji", a),
        lambda: lw.einsum("ij->", a),
    ]
    assert all(map(becomes_native, calls))
    everything = (a, b, c, out, text, ring, a.dtype, None, roads.einsum)
    gc.collect()
    before, size = [sys.getrefcount(x) for x in everything], resident()
    for call in calls:
        for _ in range(20_000):
            call()
    gc.collect()
    after = [sys.getrefcount(x) for x in everything]
    # Other threads and caches may hold a reference more to what all share.
    assert [abs(x - y) < 50 for x, y in zip(before, after, strict=True)] == [True] * len(before)
    assert resident() - size < 4 << 20


def test_more_calls_than_are_remembered() -> None:
    table = found().table(16)
    programs: list[weakref.ref[Any]] = []
    for k in range(100):
        program = CallProgram()
        kept = np.zeros(k + 1)
        programs.append(weakref.ref(kept))
        program.constant(kept)
        del kept
        assert table.add((k, 5, 7), program) == 0
        assert len(table) <= 16
    del program
    gc.collect()
    assert sum(x() is not None for x in programs) == len(table)
    assert table.scratch_of((99, 5, 7)) == 0
    assert table.scratch_of((3, 5, 7)) is None
    table.clear()
    gc.collect()
    assert not any(x() is not None for x in programs)


def test_a_record_stays_when_another_thread_writes_down_the_same_call() -> None:
    table = found().table(16)
    kept = [np.zeros(3), np.zeros(3)]
    for array in kept:
        program = CallProgram()
        program.constant(array)
        assert table.add((1, 2), program) == 0
    del program, array
    references = [weakref.ref(x) for x in kept]
    kept.clear()
    gc.collect()
    assert [x() is not None for x in references] == [True, False]
    assert len(table) == 1


# -- threads and processes ------------------------------------------------------------------------


def test_threads_with_scratch_that_is_given_back() -> None:
    shapes = [(40, 50, 60), (64, 200, 100), (5, 6, 7), (130, 120, 110)]
    given = [operands([(m, k), (k, n)], "float32") for m, n, k in shapes]
    wanted = [a @ b for a, b in given]
    ends = threading.Event()

    def give_back() -> None:
        while not ends.is_set():
            lw.release_scratch()
            roads.forget_calls()

    def work(first: int) -> int:
        for turn in range(80):
            at = (first + turn) % len(given)
            a, b = given[at]
            if not np.array_equal(lw.einsum("ij,jk->ik", a, b), wanted[at]):
                return turn
        return -1

    other = threading.Thread(target=give_back)
    other.start()
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [-1] * 4
    ends.set()
    other.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_calls_natively() -> None:
    a, b = operands([(100, 200), (200, 300)], "float32")
    wanted = a @ b
    assert becomes_native(lambda: lw.einsum("ij,jk->ik", a, b))
    child = os.fork()
    if child == 0:
        right = is_native(lambda: lw.einsum("ij,jk->ik", a, b))
        right = right and np.array_equal(lw.einsum("ij,jk->ik", a, b), wanted)
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0


# -- the function ---------------------------------------------------------------------------------


def test_the_function_is_as_its_road() -> None:
    native, python = inspect.signature(lw.einsum), inspect.signature(roads.einsum)
    assert list(native.parameters) == list(python.parameters)
    for name, parameter in native.parameters.items():
        assert parameter.default == python.parameters[name].default
        assert parameter.kind is python.parameters[name].kind
    assert lw.einsum.__doc__ == roads.einsum.__doc__
    assert lw.einsum.__module__ == "loopwright"
    assert pickle.loads(pickle.dumps(lw.einsum)) is lw.einsum


def test_another_layout_has_the_road_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    assert native_dispatch.knows_layout()
    monkeypatch.setattr(kernels, "_dispatcher", None)
    monkeypatch.setattr(kernels, "knows_layout", lambda: False)
    assert einsum_dispatch._public() is roads.einsum
    monkeypatch.setattr(native_dispatch, "_TYPE", 3)
    assert not native_dispatch.knows_layout()


SCALED = """
void scaled(int n, {real} a, {real} y[n], {real} x[n]) {{
#pragma scop
  for (int i = 0; i < n; i++)
    y[i] += a * x[i];
#pragma endscop
}}
"""


def compiled(text: str, name: str) -> CFunction:
    return lw.compile(text, race=False, threads=1)[name]


def python_calls(function: CFunction, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The arguments of calls that Python runs from now on."""
    seen: list[tuple[Any, ...]] = []
    run = function._run

    def counted(args: tuple[Any, ...], named: dict[str, Any]) -> None:
        seen.append(args)
        run(args, named)

    monkeypatch.setattr(function, "_run", counted)
    return seen


@pytest.mark.parametrize("n", [1, 2, 7, 61])
def test_repeated_calls_are_native(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    function = compiled(SCALED.format(real="double"), "scaled")
    seen = python_calls(function, monkeypatch)
    x = np.arange(n, dtype=np.float64)
    y = np.zeros(n)
    for a in (1.0, 2.0, 3.0, 4.0, -5.5):
        function(n, a, y, x)
    np.testing.assert_array_equal(y, 4.5 * x)
    assert function._native is None or len(seen) < 4
    others = np.zeros(n), np.full(n, 2.0)
    function(n, 0.5, *others)
    np.testing.assert_array_equal(others[0], np.ones(n))


def test_checks_are_made_in_every_call() -> None:
    function = compiled(SCALED.format(real="double"), "scaled")
    y, x = np.zeros(8), np.ones(8)
    for _ in range(4):
        function(8, 1.0, y, x)
    with pytest.raises(UsageError, match="'x' has other extents"):
        function(8, 1.0, y, np.ones(9))
    with pytest.raises(UsageError, match="'y' has other extents"):
        function(7, 1.0, y, x)
    with pytest.raises(DtypeError, match="'x' is of float64"):
        function(8, 1.0, y, x.astype(np.float32))
    with pytest.raises(UsageError, match="not laid out as in C"):
        function(8, 1.0, y, np.ones(16)[::2])
    with pytest.raises(UsageError, match="missing x"):
        function(8, 1.0, y)
    fixed = np.zeros(8)
    fixed.flags.writeable = False
    with pytest.raises(UsageError):
        function(8, 1.0, fixed, x)
    np.testing.assert_array_equal(y, np.full(8, 4.0))
