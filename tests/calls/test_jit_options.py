"""What options change about calls: who runs them, what is printed, checked, refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from calls.comparison import assert_same, clone, whole
from loopwright import kernels, options
from loopwright.diagnostics import InternalError, SourceError, UsageError
from loopwright.ir.expr import Var
from loopwright.ir.loops import LoopNest, Store
from loopwright.runtime.kernel import BoundKernel
from no_kernels import forget_kernels


def matvec(y, A, x):
    for i in range(A.shape[0]):
        s = 0.0
        for j in range(A.shape[1]):
            s += A[i, j] * x[j]
        y[i] = max(s, 0.0)


def prefix_sums(x):
    for i in range(1, x.shape[0]):
        x[i] += x[i - 1]
    return x


def fresh(n):
    out = np.zeros(n)
    for i in range(n):
        out[i] = i
    return out, n


CALLS: dict[Callable[..., Any], tuple[Any, ...]] = {
    matvec: (whole(5), whole(5, 7), whole(7)),
    prefix_sums: (whole(14)[::-2],),
    fresh: (4,),
}


# -- the oracle --------------------------------------------------------------------------------


@pytest.mark.parametrize("function", CALLS)
def test_the_oracle_runs_instead(
    function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("compiled code has run")

    monkeypatch.setattr(BoundKernel, "__call__", refuse)
    plain, ours = (tuple(map(clone, CALLS[function])) for _ in range(2))
    compiled = lw.jit(threads=2)(function)
    with options.override(interpret=True):
        assert_same(compiled(*ours), function(*plain))
    assert_same(ours, plain)
    with pytest.raises(AssertionError, match="compiled code has run"):
        compiled(*ours)


def test_the_oracle_is_as_careful() -> None:
    x = np.ones(3)
    with options.override(interpret=True):
        with pytest.raises(UsageError, match="share memory"):
            lw.jit(matvec)(x, np.ones((3, 3)), x)
        with pytest.raises(SourceError, match="LW112"):
            lw.jit(matvec)(x, np.ones((4, 3)), np.ones(3))
    np.testing.assert_array_equal(x, np.ones(3))


# -- dumps -------------------------------------------------------------------------------------

HEADS = {
    "schedule": "--- loopwright schedule ---\n",
    "loops": "--- loopwright loops ---\nnest kernel(",
    "llvm": "--- loopwright llvm ---\n",
    "asm": "--- loopwright asm ---\n",
}


@pytest.mark.drawn(2)
@pytest.mark.parametrize("function", [matvec, prefix_sums])
@pytest.mark.parametrize("stage", HEADS)
def test_dumps(
    function: Callable[..., Any],
    stage: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Printed though the kernel lies in the disk cache: who dumps wants to see something."""
    lw.jit(function)(*map(clone, CALLS[function]))
    assert capsys.readouterr().err == ""
    forget_kernels(monkeypatch)
    with options.override(dump=(stage,)):
        lw.jit(function)(*map(clone, CALLS[function]))
    printed = capsys.readouterr()
    assert printed.out == ""
    assert HEADS[stage] in printed.err
    others = [head for other, head in HEADS.items() if other != stage]
    assert not any(head in printed.err for head in others)


def test_dumps_come_in_order(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_kernels(monkeypatch)
    with options.override(dump=options.DUMPS):
        lw.jit(prefix_sums)(whole(14))
    printed = capsys.readouterr().err
    places = [printed.index(head) for head in HEADS.values()]
    assert places == sorted(places)
    assert "for i: S0[i] -> [(i)]" in printed


# -- checks ------------------------------------------------------------------------------------


def test_programs_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    def complain(_: object) -> None:
        raise InternalError("checked")

    def shifted(x, y):
        for i in range(x.shape[0]):
            x[i] = y[i + 1]

    monkeypatch.setattr("loopwright.frontends.extract.check_program", complain)
    with pytest.raises(InternalError, match="checked"):
        lw.jit(shifted)(np.ones(3), np.ones(4))
    with options.override(check=False):
        lw.jit(shifted)(np.ones(3), np.ones(4))


def test_nests_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = LoopNest("broken", (), (), Store("nowhere", (Var("i"),), Var("j")))
    with options.override(cache=False), pytest.raises(InternalError, match="not in scope"):
        kernels.nest_kernel("a nest that is broken", lambda: broken)


# -- what is not supported ---------------------------------------------------------------------


def with_set(x):
    x[list({0})] = 2.0
    x[:] = 2.0
    return x


def test_unsupported_is_refused() -> None:
    with pytest.raises(SourceError, match="cannot be compiled"):
        lw.jit(with_set)(np.ones(3))


def test_unsupported_is_left_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = lw.jit(on_unsupported="python")(with_set)
    np.testing.assert_array_equal(compiled(np.ones(3)), np.full(3, 2.0))
    # Refused once, the types are not tried again.
    monkeypatch.setattr("loopwright.calls.jit.Specialisation", None)
    monkeypatch.setattr("loopwright.calls.jit.JitDefinition", None)
    np.testing.assert_array_equal(compiled(np.ones(4)), np.full(4, 2.0))
    assert compiled.signatures == []


def test_supported_is_compiled() -> None:
    compiled = lw.jit(on_unsupported="python")(prefix_sums)
    np.testing.assert_array_equal(compiled(np.ones(3)), [1.0, 2.0, 3.0])
    assert len(compiled.signatures) == 1


@pytest.mark.parametrize("arguments", [([1, 2, 3],), (np.array([1, 2, 3], object),)])
def test_foreign_arguments_are_left_to_python(arguments: tuple[Any, ...]) -> None:
    @lw.jit(on_unsupported="python")
    def first(x):
        return x[0] + x[-1]

    assert first(*arguments) == 4


def test_refused_calls_are_left_to_python() -> None:
    @lw.jit(on_unsupported="python")
    def from_before(x, y):
        for i in range(x.shape[0]):
            x[i] = y[i - 1]

    x = np.arange(3.0)
    from_before(x, x)  # shared memory, and a subscript that counts from the end
    np.testing.assert_array_equal(x, [2.0, 2.0, 2.0])
    with pytest.raises(IndexError):
        from_before(np.ones(3), np.ones(1))
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        from_before(x)


def test_on_unsupported_has_two_values() -> None:
    with pytest.raises(UsageError) as error:
        lw.jit(on_unsupported="ignore")  # type: ignore[call-overload]
    assert str(error.value) == (
        "on_unsupported has two values\nnote: found 'ignore'\ntry: 'raise' or 'python'"
    )
