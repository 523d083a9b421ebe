"""Which arrays a device must be given, and which rows of them are touched."""

from __future__ import annotations

import pytest

from loopwright.analysis.live_arrays import arrays_brought_in
from loopwright.calls.device_transfers import transfers
from loopwright.diagnostics import UsageError
from loopwright.frontends.c import CRegion, read_c
from loopwright.frontends.extract import program_of
from loopwright.ir.program import Program
from loopwright.ir.text import expr_text


def region(body: str, params: str = "int n, double a[n], double b[n]") -> CRegion:
    text = f"void f({params})\n{{\n#pragma scop\n{body}\n#pragma endscop\n}}\n"
    (found,) = read_c(text, filename="f.c").regions
    return found


def program(body: str, params: str = "int n, double a[n], double b[n]") -> Program:
    return program_of(region(body, params).tree, reassoc=False)


ALL = "for (int i = 0; i < n; i++)"


@pytest.mark.parametrize(
    ("body", "whole", "rows"),
    [
        (f"{ALL} a[i] = b[i];", {"b"}, {"b"}),
        (f"{ALL} a[i] += b[i];", {"a", "b"}, {"a", "b"}),
        # The ends of a are the caller's: they come back only where whole arrays do.
        ("for (int i = 1; i < n - 1; i++) a[i] = b[i];", {"a", "b"}, {"b"}),
        # Every second element is written, the others between them come back, too.
        ("for (int i = 0; i < n; i += 2) a[i] = b[i];", {"a", "b"}, {"a", "b"}),
        (f"{ALL} {{ a[i] = 1; b[i] = a[i]; }}", set(), set()),
        (f"{ALL} {{ b[i] = a[i]; a[i] = 1; }}", {"a"}, {"a"}),
        # Of the elements that are read, the first was not written before.
        ("a[0] = 0; for (int i = 1; i < n; i++) a[i] = a[i - 1] + 1;", set(), set()),
        ("for (int i = 1; i < n; i++) a[i] = a[i - 1] + 1;", {"a"}, {"a"}),
        # Written at some sizes only.
        (f"{ALL} if (n > 5) a[i] = b[i];", {"a", "b"}, {"b"}),
        (f"{ALL} a[i] = b[i] > 0 ? b[i] : a[i];", {"a", "b"}, {"a", "b"}),
    ],
)
def test_arrays_brought_in(body: str, whole: set[str], rows: set[str]) -> None:
    found = program(body)
    assert arrays_brought_in(found) == whole
    assert arrays_brought_in(found, touched_only=True) == rows


def test_rows_of_matrices() -> None:
    params = "int n, int m, double a[n][m], double *b, double s"
    body = "for (int i = 2; i < n; i++) for (int j = 0; j < m; j++) a[i][j] = b[j + 1] * s;"
    source = region(body, params)
    found = transfers(program_of(source.tree, reassoc=False), {"a"}, source.tree.sizes)
    told = [
        (t.array, expr_text(t.first), expr_text(t.stop), expr_text(t.row), t.is_brought_back)
        for t in found
    ]
    some = "(n >= 3) & (m >= 1)"
    assert told == [
        ("a", f"2 if {some} else 0", f"n if {some} else 0", "m", True),
        ("b", f"1 if {some} else 0", f"m + 1 if {some} else 0", "1", False),
        ("s", "0", "1", "1", False),
    ]
    assert [t.is_brought_in for t in found] == [False, True, True]


def test_rows_that_cannot_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    source = region(f"{ALL} a[i] = 1;", "int n, double *a")
    program_ = program_of(source.tree, reassoc=False)
    monkeypatch.setattr(
        "loopwright.calls.device_transfers.bounded", lambda _, gave_up: gave_up(None)
    )
    with pytest.raises(UsageError) as raised:
        transfers(program_, {"a"}, source.tree.sizes)
    assert raised.value.message == "how many rows of 'a' are used cannot be told"
    assert raised.value.hint == "declare the array with its first extent"
