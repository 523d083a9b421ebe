"""Programs run point by point: the order, the memory, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from ir.examples import gemm, isl_set, isl_tree, load, reversed_sum, running_sum
from loopwright.diagnostics import InternalError, UsageError
from loopwright.ir.dtypes import DTYPES, FLOAT64
from loopwright.ir.expr import Const, Var
from loopwright.ir.interpret import interpret_program, interpret_schedule
from loopwright.ir.program import Role
from loopwright.ir.schedule import Schedule


@pytest.mark.parametrize("dtype", ["float64", "float32", "int8", "uint16"])
def test_product_of_matrices(dtype: str) -> None:
    random = np.random.default_rng(0)
    a, b = (random.integers(0, 9, (4, 4)).astype(dtype) for _ in range(2))
    c = np.full((4, 4), 77, dtype)
    interpret_program(gemm(DTYPES[dtype]), {"A": a, "B": b, "C": c}, {"n": 4})
    assert np.array_equal(c, a @ b)


def test_order_is_that_of_the_tree() -> None:
    program, x = running_sum(), np.ones(5)
    forward, backward = np.zeros(5), np.zeros(5)
    interpret_program(program, {"x": x, "s": forward}, {"n": 5})
    schedule = Schedule(program, reversed_sum())
    interpret_schedule(schedule, {"x": x, "s": backward}, {"n": 5})
    assert forward.tolist() == [0, 1, 2, 3, 4]
    assert backward.tolist() == [0, 1, 1, 1, 1]


def test_out_arrays_start_undefined() -> None:
    program = running_sum()
    out = replace(program, arrays=(program.arrays[0], replace(program.arrays[1], role=Role.OUT)))
    with pytest.raises(InternalError, match=r"s\[0\] is read before it is written"):
        interpret_program(out, {"x": np.ones(3), "s": np.ones(3)}, {"n": 3})


def test_access_outside_is_told() -> None:
    program = running_sum()
    beyond = replace(program.statements[0], value=load("s", Var("i") + 1))
    with pytest.raises(InternalError) as caught:
        interpret_program(
            replace(program, statements=(beyond,)), {"x": np.ones(3), "s": np.ones(3)}, {"n": 3}
        )
    assert caught.value.message == "s[3] is outside, shape [3]"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"params": {}}, "program running_sum takes the parameters n\nnote: found (none)"),
        (
            {"params": {"n": 0}},
            "program running_sum is not made for these parameters\nnote: found n = 0",
        ),
        ({"arrays": {"x": np.ones(3)}}, "array s is missing"),
        (
            {"arrays": {"x": np.ones(3), "s": np.ones(4)}},
            "array s should be float64 of shape [3]\nnote: found float64 of shape [4]",
        ),
        (
            {"arrays": {"x": np.ones(3, "f4"), "s": np.ones(3)}},
            "array x should be float64 of shape [3]\nnote: found float32 of shape [3]",
        ),
    ],
)
def test_wrong_calls_are_told(change: dict[str, dict[str, object]], told: str) -> None:
    given = {"arrays": {"x": np.ones(3), "s": np.ones(3)}, "params": {"n": 3}} | change
    with pytest.raises(UsageError) as caught:
        interpret_program(running_sum(), given["arrays"], given["params"])  # type: ignore[arg-type]
    assert str(caught.value) == told


def test_infinite_domain_is_our_fault() -> None:
    program = running_sum()
    domain = isl_set("[n] -> { S[i] : i >= 1 }")
    tree = isl_tree(
        """{ domain: "[n] -> { S[i] : i >= 1 }",
             child: { schedule: "[n] -> i[{ S[i] -> [(i)] }]" } }"""
    )
    endless = replace(
        program,
        statements=(replace(program.statements[0], domain=domain, value=Const(1.0, FLOAT64)),),
        schedule=tree,
    )
    with pytest.raises(InternalError, match="statement S has infinitely many points"):
        interpret_program(endless, {"x": np.ones(3), "s": np.ones(3)}, {"n": 3})
