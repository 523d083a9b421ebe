"""Tracebacks of user errors end at the user's call."""

from __future__ import annotations

import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import loopwright as lw
from loopwright.diagnostics import InternalError, LoopwrightError
from loopwright.tracebacks import public_edge

A = np.ones((2, 3))


@lw.jit
def doubled(x: Any) -> None:
    for i in range(x.shape[0]):
        x[i] = 2 * x[i]


FILE = b"""
void f(int n, double x[n]) {
#pragma scop
  for (int i = 0; i < n; i++) x[i] = 1;
#pragma endscop
}
"""

CALLS: dict[str, Callable[[], Any]] = {
    "einsum": lambda: lw.einsum("ij,jk->ik", A, A),
    "einsum, unknown keyword value": lambda: lw.einsum("ij", A, casting="x"),
    "einsum_path": lambda: lw.einsum_path("ij,jk->ik", A, A),
    "jit": lambda: lw.jit(5),  # type: ignore[arg-type, call-overload]
    "jit call": lambda: doubled("x"),
    "jit call of too many": lambda: doubled(A, A),
    "jit inspect": lambda: doubled.inspect_llvm("x"),
    "compile": lambda: lw.compile(b"int x;"),
    "compiled call": lambda: lw.compile(FILE)(3, np.zeros(2)),
    "compiled inspect": lambda: lw.compile(FILE).inspect_c(3, np.zeros(2)),
    "compiled program": lambda: lw.compile(lw.parse_c(FILE)[0])(3, np.zeros(2)),
    "parse_c": lambda: lw.parse_c(b"#pragma scop\nx\n#pragma endscop\n"),
    "set_num_threads": lambda: lw.set_num_threads(0),
    "sparse convert": lambda: lw.sparse.convert(scipy.sparse.eye(3), "nosuch"),
    "sparse einsum": lambda: lw.sparse.einsum("ij,j->i", scipy.sparse.eye(3), np.ones(4)),
    "sparse spmv": lambda: lw.sparse.spmv(scipy.sparse.eye(3), np.ones(4)),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_last_frame_is_the_users(name: str) -> None:
    with pytest.raises(LoopwrightError) as caught:
        CALLS[name]()
    frames = [
        Path(frame.filename).name for frame in traceback.extract_tb(caught.value.__traceback__)
    ]
    assert set(frames) == {"test_tracebacks.py"}, frames


def test_the_whole_text() -> None:
    code = "import numpy as np, loopwright as lw\na = np.ones((2, 3))\nlw.einsum('ij,jk', a, a)\n"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.stderr == (
        "Traceback (most recent call last):\n"
        '  File "<string>", line 3, in <module>\n'
        "loopwright.diagnostics.UsageError: einsum 'ij,jk->ik': index 'j' has two sizes\n"
        "note: found 3 in operand 1, 2 in operand 2\n"
        "try: operands that agree, or a size of 1\n"
    )


def test_a_users_own_functions_stay() -> None:
    """An error of ours that was raised through an operator of the user's shows the operator."""

    def times(x: Any, y: Any) -> Any:
        return doubled(x)

    with pytest.raises(LoopwrightError) as caught:
        lw.semirings.make_semiring("odd", "add", times, 0, 1)
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names == ["test_a_users_own_functions_stay", "times"]


def test_internal_errors_keep_their_frames() -> None:
    def failing() -> None:
        raise InternalError("ours")

    with pytest.raises(InternalError) as caught:
        public_edge(failing)()
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[1:] == ["edge", "failing"]


def test_only_public_names_are_listed() -> None:
    for module in (lw, lw.sparse):
        names = [name for name in dir(module) if not name.startswith("__")]
        assert set(names) == set(module.__all__), module.__name__
    listed = {name for name in dir(lw.semirings) if not name.startswith("__")}
    assert listed == {*lw.semirings.__all__, *lw.semirings.SEMIRINGS}  # and a backend for each
