"""Whether a product can become part of a fused multiply-add, whatever loops stand around it."""

from __future__ import annotations

import pytest

import loopwright as lw
from loopwright.analysis.fused_products import has_fusable_products


def fusable(body: str, kind: str = "double") -> bool:
    arrays = ", ".join(f"{kind} {name}[n]" for name in "abcd")
    source = f"""
void f(int n, {kind} w, {arrays}) {{
#pragma scop
  for (int i = 1; i < n; i++) {{
    {body}
  }}
#pragma endscop
}}
"""
    (program,) = lw.parse_c(source)
    return has_fusable_products(program)


@pytest.mark.parametrize(
    "body",
    [
        "a[i] = b[i] * c[i] + d[i];",
        "a[i] = d[i] - b[i] * c[i];",
        "a[i] += b[i] * c[i];",
        "a[i] = -(b[i] * c[i]) + d[i];",
        "a[i] = (b[i] > w ? b[i] * c[i] : c[i]) + d[i];",
        "a[i] = b[i] * c[i]; d[i] = a[i] + w;",
        "a[i] = b[i] * c[i]; c[i] = a[i]; d[i] = c[i] + w;",
        "a[i] = b[i] / 2.0 + c[i];",
        "a[i] = w * (b[i] + c[i]); b[i] = a[i - 1] + a[i];",
    ],
)
def test_products_that_reach_sums(body: str) -> None:
    assert fusable(body)


@pytest.mark.parametrize(
    "body",
    [
        "a[i] = b[i] + c[i] - d[i];",
        "a[i] = w * (b[i] + c[i]);",
        "a[i] = b[i] * c[i]; d[i] = a[i] * w;",
        "a[i] = b[i] / c[i] + d[i];",
        "a[i] = (b[i] * c[i] > w ? b[i] : c[i]) + d[i];",
        "a[i] = a[i - 1] + b[i];",
    ],
)
def test_sums_without_products(body: str) -> None:
    assert not fusable(body)


def test_integers_are_exact() -> None:
    assert not fusable("a[i] = b[i] * c[i] + d[i];", "int")
    assert fusable("a[i] = b[i] * c[i] + d[i];", "float")
