"""Code called with arrays and launch values by position does what a bound kernel does."""

import numpy as np
import pytest

from loopwright import options
from loopwright.diagnostics import BoundsError
from loopwright.ir.dtypes import INT32, INT64
from loopwright.ir.expr import Cast, Load, Var
from loopwright.ir.program import Role
from loopwright.sparse.spf.compile_computation import CompiledComputation
from loopwright.sparse.spf.computation import Computation, DataSpace, Stmt


def computation(local: Role = Role.INOUT) -> Computation:
    """t[e] = x[e] + M and y[e] = t[e], for e below N; t is an array, or memory of the code."""
    spaces = (
        DataSpace.of("x", INT32, ("N",), Role.IN),
        DataSpace.of("t", INT64, ("N",), local),
        DataSpace.of("y", INT64, ("N",), Role.INOUT),
    )
    value = Cast(Load("x", (Var("e"),), INT32), INT64) + Var("M")
    domain = "{[e] : 0 <= e < N}"
    first = Stmt.of("first", domain, (0, "e"), "t(e)", value)
    second = Stmt.of("second", domain, (1, "e"), "y(e)", Load("t", (Var("e"),), INT64))
    return Computation("alone", spaces, (first, second), ("N", "M"))


def test_values_may_differ_from_call_to_call() -> None:
    code = CompiledComputation(computation())
    for count, more in ((3, 1), (5, -2), (0, 7), (5, 1 << 40)):
        x, y = np.arange(count, dtype=np.int32), np.zeros(count, np.int64)
        code.alone(x, y.copy(), y, count, more)
        assert y.tolist() == [n + more for n in range(count)]
    assert not code._bound, "nothing is kept of such calls"
    assert code.kernel.alone(["x", "t", "y", "N", "M"]) is not None


def test_code_with_memory_of_its_own_is_bound() -> None:
    code = CompiledComputation(computation(Role.LOCAL))
    x, y = np.arange(4, dtype=np.int32), np.zeros(4, np.int64)
    code.alone(x, y, 4, 3)
    assert y.tolist() == [3, 4, 5, 6]
    assert code.kernel.alone(["x", "y", "N", "M"]) is None
    assert code._bound


def test_checked_code_takes_limits_from_the_arrays() -> None:
    with options.override(boundscheck=True):
        code = CompiledComputation(computation())
        x, y = np.arange(4, dtype=np.int32), np.zeros(4, np.int64)
        code.alone(x, y.copy(), y, 4, 3)
        assert y.tolist() == [3, 4, 5, 6]
        assert code.kernel.alone(["x", "t", "y", "N", "M"]) is None
        with pytest.raises(BoundsError):
            code.alone(x, y.copy(), y, 5, 3)
