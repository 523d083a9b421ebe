"""Calls of whole functions: results, arguments afterwards, exceptions, and who runs a call."""

import os
import signal
import threading
import traceback

import numpy as np
import pytest

import loopwright as lw
from frontends.kernels import define
from loopwright.calls.jit import JitFunction
from loopwright.calls.procedure_function import ProcedureFunction
from loopwright.diagnostics import UsageError

SCALE = 2.0


def numbers(*shape: int, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def only_code(function: JitFunction) -> ProcedureFunction:
    (found,) = function._found.values()
    assert isinstance(found, ProcedureFunction)
    return found


def of_set(a):
    a[1:] = len({1, 2})


def combine(a, b):
    return a * 2 + b


def smooth(a):
    a[1:-1] = (a[:-2] + a[2:]) / 2


def parts(a):
    return a, a[1:, ::-2], a.T, a.sum(axis=0), 1.5, None


def pick(a, i):
    total = 0.0
    while total < 10:
        total += a[i]
        i += 1
    return total


def helper(a):
    return np.sqrt(a) * SCALE


def use_helper(a):
    return helper(a * a)


@pytest.mark.parametrize("n", [0, 1, 2, 7, 131])
@pytest.mark.parametrize("m", [1, 5])
def test_a_result_is_numpys(n: int, m: int) -> None:
    compiled = lw.jit(combine)
    a, b = numbers(n, m), numbers(m, seed=4)
    np.testing.assert_array_equal(compiled(a, b), combine(a, b), strict=True)
    np.testing.assert_array_equal(compiled(a, b[:1]), combine(a, b[:1]), strict=True)


@pytest.mark.parametrize(
    "change",
    [
        np.asfortranarray,
        lambda a: a[::2, ::-1],
        lambda a: a[:, 1:3],
        lambda a: a.T,
        lambda a: np.broadcast_to(a[0], (9, 4)),
        lambda a: np.frombuffer(b"x" + a.tobytes(), np.uint8)[1:].view("f8").reshape(a.shape),
    ],
)
def test_arguments_may_lie_in_memory_in_any_way(change) -> None:
    a = change(numbers(9, 4))
    b = numbers(a.shape[1])
    found = lw.jit(combine)(a, b)
    want = combine(a, b)
    np.testing.assert_array_equal(found, want, strict=True)
    assert found.strides == want.strides


def test_arguments_are_changed_as_numpy_changes_them() -> None:
    compiled = lw.jit(smooth)
    for n in (2, 3, 8, 101):
        found, want = numbers(n), numbers(n)
        assert compiled(found) is None
        smooth(want)
        np.testing.assert_array_equal(found, want)
    assert only_code(compiled).python_calls == 0


def test_results_are_arguments_views_and_numbers() -> None:
    a = numbers(4, 7)
    found, want = lw.jit(parts)(a), parts(a)
    assert found[0] is a
    for one, other in zip(found[:4], want[:4], strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
        assert one.strides == other.strides
    assert np.shares_memory(found[1], a)
    assert np.shares_memory(found[2], a)
    assert not np.shares_memory(found[3], a)
    assert found[4:] == want[4:]
    assert type(found[4]) is float


def total(a):
    return a.sum()


@pytest.mark.parametrize(
    "cut",
    [
        lambda a: a,
        lambda a: a[:, :280],
        lambda a: a[::-1],
        lambda a: a[:, ::-2],
        lambda a: a.T[:, 1:],
        lambda a: a.reshape(5, 20, 300)[1:, :18, :299],
    ],
)
def test_sums_of_arrays_with_gaps_are_added_in_numpys_pieces(cut) -> None:
    a = cut(numbers(100, 300))
    assert lw.jit(total)(a) == total(a)


def add_to(a, b):
    a += 2 * b[::-1]


def test_python_runs_calls_whose_arguments_share_memory() -> None:
    compiled = lw.jit(add_to)
    found, want = numbers(9), numbers(9)
    compiled(found[1:], found[:-1])
    add_to(want[1:], want[:-1])
    np.testing.assert_array_equal(found, want)
    compiled(found, numbers(9, seed=5))
    add_to(want, numbers(9, seed=5))
    np.testing.assert_array_equal(found, want)
    assert only_code(compiled).python_calls == 1


def test_a_read_only_argument_is_refused_by_numpy() -> None:
    a = numbers(5)
    a.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        lw.jit(smooth)(a)


def test_shapes_that_do_not_fit_are_refused_by_numpy() -> None:
    compiled = lw.jit(combine)
    compiled(numbers(3, 4), numbers(4))
    with pytest.raises(ValueError, match=r"operands could not be broadcast together"):
        compiled(numbers(3, 4), numbers(5))


def test_an_index_that_leaves_the_array_is_numpys_error() -> None:
    compiled = lw.jit(pick)
    a = np.full(20, 3.0)
    assert compiled(a, 2) == pick(a, 2)
    with pytest.raises(IndexError) as found:
        compiled(a, 18)
    with pytest.raises(IndexError) as want:
        pick(a, 18)
    assert str(found.value) == str(want.value)


def test_helpers_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = lw.jit(use_helper)
    for n in (3, 4, 5):
        np.testing.assert_array_equal(compiled(numbers(n)), use_helper(numbers(n)))
    first = only_code(compiled)
    assert len(first._variants) == 1
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    np.testing.assert_array_equal(compiled(numbers(5)), use_helper(numbers(5)))
    assert only_code(compiled) is not first


def test_reports_show_the_statements() -> None:
    compiled = lw.jit(combine)
    a, b = numbers(3, 4), numbers(4)
    assert "a whole function" in compiled.explain(a, b)
    assert "simd for" in compiled.inspect_loops(a, b)
    assert "define" in compiled.inspect_llvm(a, b)
    with pytest.raises(UsageError) as error:
        compiled.plan(a, b)
    assert str(error.value) == (
        "'combine' is compiled as a whole function, which has no plan\n"
        "try: plans are for functions of affine loops alone"
    )


def test_a_refusal_shows_the_errors_of_one_reader() -> None:
    """The reader of affine loops would advise to write loops in place of slices."""
    with pytest.raises(lw.SourceError, match="a set cannot be compiled") as seen:
        lw.jit(of_set)(numbers(3))
    shown = "".join(traceback.format_exception(seen.value))
    assert "slice" not in shown


def test_permission_to_reorder_changes_nothing() -> None:
    a, b = numbers(5), numbers(5, seed=4)
    assert np.array_equal(lw.jit(reassoc=True)(combine)(a, b), combine(a, b))


def until(a):
    n = 0
    while a[0] < 1:
        n = (n * 5 + 1) % 1000003
        a[1] += 1 + n % 2
    return n


def rounds(a):
    for _ in range(1 << 60):
        if a[0] >= 1:
            break
        a[2:-1] = (a[1:-2] + a[3:]) / 2
        a[1] += 1


class Stopped(Exception):  # noqa: N818, what it says
    """What a handler raises."""


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("function", [until, rounds])
def test_an_interrupt_ends_a_loop(function, native: bool) -> None:
    """The signal comes once the loop has begun; what the handler raises comes out."""

    def stop(*_: object) -> None:
        raise Stopped

    def send() -> None:
        while a[1] < 2:
            pass
        os.kill(os.getpid(), signal.SIGINT)

    compiled = lw.jit(function)
    a = np.ones(64)
    for _ in range(3 if native else 0):
        compiled(a)
    a[:] = 0
    before = signal.signal(signal.SIGINT, stop)
    try:
        sender = threading.Thread(target=send)
        sender.start()
        with pytest.raises(Stopped):
            compiled(a)
        sender.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert a[1] >= 2


def smallest_divisors(n):
    out = np.zeros(n, np.int64)
    for k in range(2, n):
        for d in range(2, k):
            if k % d == 0:
                break
        else:
            out[k] = k
            continue
        out[k] = -1
    return out


def search(a, v):
    i, found = 0, -1
    while i < len(a):
        if a[i] == v:
            found = i
            break
        i += 1
    else:
        found -= 10
    return found


def with_inner_clauses(a):
    s = 0
    for i in range(len(a)):
        for j in range(3):
            if a[i] > j + 1:
                continue
        else:
            s += 1
            if s > 3:
                break
    else:
        s += 100
    return s


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (smallest_divisors, (30,)),
        (search, (np.arange(5), 3)),
        (search, (np.arange(5), 9)),
        (search, (np.arange(0), 9)),
        (with_inner_clauses, (np.arange(2),)),
        (with_inner_clauses, (np.arange(9),)),
    ],
)
def test_else_clauses_of_loops(function, args) -> None:
    np.testing.assert_equal(lw.jit(function)(*args), function(*args))


def both(x, y, a):
    a[:] = x
    x &= y
    return x, a


def test_calls_with_other_flags_have_values_of_their_own() -> None:
    compiled = lw.jit(both)
    for x in (False, True, np.False_, np.True_):
        for y in (False, True):
            np.testing.assert_equal(compiled(x, y, np.ones(2)), both(x, y, np.ones(2)))


@pytest.mark.parametrize("text", ["a.imag", "np.broadcast_to(a, (2, 3, 4))", "np.diagonal(a + 1)"])
def test_arrays_that_may_not_be_written_are_returned_as_such(text: str) -> None:
    whole, a = define(f"def f(a):\n    return {text}\n"), np.arange(12.0).reshape(3, 4)
    found, right = lw.jit(whole)(a), whole(a)
    assert np.array_equal(found, right)
    assert found.flags.writeable == right.flags.writeable is False


def test_names_behind_loops_are_found_by_the_steps_behind_them() -> None:
    text = (
        "def f(n):\n    for i in range(n):\n        pass\n    t = i\n    return np.sort([t, 1])\n"
    )
    whole = define(text)
    assert lw.jit(whole)(4).tolist() == whole(4).tolist() == [1, 3]
    with pytest.raises(UnboundLocalError):
        lw.jit(whole)(0)
