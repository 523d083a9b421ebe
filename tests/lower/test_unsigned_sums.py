"""Sums of narrow integers for compilers of C: where they are gathered, and that they wrap alike."""

from __future__ import annotations

from textwrap import dedent

import pytest

from loopwright.ir.check import check_nest
from loopwright.ir.program import Program
from loopwright.ir.text import stmt_text
from loopwright.lower.passes import lower_schedule
from loopwright.lower.values.keep_elements import keep_elements
from loopwright.lower.values.unsigned_sums import unsigned_sums
from loopwright.transform.plan import apply_plan
from oracle import assert_same
from programs import Do, For, program


def source(value: str, kind: str = "int8") -> Program:
    arrays = {"s": "inout int32 [1]", "a": f"in {kind} [n]", "b": f"in {kind} [n]"}
    return program("dot", arrays, For("l", 0, "n", Do("s[0]", value)))


@pytest.mark.parametrize("op", ["+", "-"])
def test_products_of_bytes(op: str) -> None:
    given = source(f"s[0] {op} int32(a[l]) * int32(b[l])")
    found = unsigned_sums(keep_elements(lower_schedule(apply_plan(given, ()))))
    check_nest(found)
    product = "uint32(int32(a[l])) * uint32(int32(b[l]))"
    assert (
        stmt_text(found.body)
        == dedent(f"""
        if 0 < n:
            alloc stack s_k: int32[] strides []
            s_k[] = s[0]
            alloc stack s_k_u: uint32[] strides []
            s_k_u[] = uint32(s_k[])
            for l in range(n):
                s_k_u[] = s_k_u[] {op} {product}
            s_k[] = int32(s_k_u[])
            s[0] = s_k[]
        """).strip()
    )
    assert_same(given, found, {"n": 9})


@pytest.mark.parametrize(
    ("value", "kind"),
    [("s[0] + a[l] * b[l]", "int32"), ("int32(a[l]) - s[0]", "int8")],
    ids=["not narrow", "no sum"],
)
def test_left_alone(value: str, kind: str) -> None:
    nest = keep_elements(lower_schedule(apply_plan(source(value, kind), ())))
    assert unsigned_sums(nest) == nest
