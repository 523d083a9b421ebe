"""Errors as the user reads them: the full text, character by character."""

import pickle

import pytest

from loopwright.diagnostics import (
    Collector,
    Diagnostic,
    DtypeError,
    IllegalStep,
    InternalError,
    LoopwrightError,
    SourceError,
    Span,
    ToolchainError,
    UsageError,
)

GEMM = "for (i = 0; i < n; i++)\n      C[i*i][j] += A[i][k] * B[k][j];\r\n"


def _rendered(text: str, column: int, end_column: int) -> list[str]:
    """Return the source line and the caret line of a fault in a one-line source."""
    span = Span("a.c", 1, column, 1, end_column, text)
    return Diagnostic(span, "wrong", "LW100").render().split("\n")[1:]


def test_full_text() -> None:
    fault = Diagnostic(
        Span.in_text("gemm.c", GEMM, 2, 9, 2, 12),
        "subscript is not affine in the loop variables",
        "LW110",
        found="i*i",
        hint="a sum of loop variables times constants, such as 2*i + j",
    )
    assert str(fault) == (
        "gemm.c:2:9: error: subscript is not affine in the loop variables [LW110]\n"
        "    C[i*i][j] += A[i][k] * B[k][j];\n"
        "      ^^^\n"
        "note: found i*i\n"
        "try: a sum of loop variables times constants, such as 2*i + j"
    )


def test_color_changes_no_text() -> None:
    fault = Diagnostic(Span("a.c", 1, 2, 1, 3, "abc"), "wrong", "LW100")
    assert fault.render(color=True) == (
        "\033[1ma.c:1:2:\033[0m \033[1;31merror:\033[0m wrong [LW100]\n"
        "    abc\n"
        "    \033[1;32m ^\033[0m"
    )


def test_tabs_are_shown_as_four_spaces() -> None:
    assert _rendered("\tx\t= y*y;", 6, 9) == ["    x    = y*y;", "           ^^^"]


def test_wide_characters_take_two_cells_and_marks_none() -> None:
    assert _rendered("面 = y*y", 5, 8) == ["    面 = y*y", "         ^^^"]
    assert _rendered("x = 面面", 5, 7) == ["    x = 面面", "        ^^^^"]
    assert _rendered("e\u0301 = q", 6, 7) == ["    e\u0301 = q", "        ^"]


def test_many_lines_are_marked_to_the_end_of_the_first() -> None:
    span = Span("a.c", 1, 5, 3, 2, "x = f(a,   ")
    assert str(Diagnostic(span, "wrong", "LW100")).split("\n")[1:] == [
        "    x = f(a,",
        "        ^^^^",
    ]


@pytest.mark.parametrize(
    ("column", "end_column", "carets"),
    [
        (3, 3, "      ^"),
        (4, 9, "       ^"),
        (6, 7, "         ^"),
        (1, 99, "    ^^^"),
        (0, 0, "    ^"),
    ],
)
def test_odd_ranges_keep_a_caret(column: int, end_column: int, carets: str) -> None:
    assert _rendered("abc", column, end_column) == ["    abc", carets]


def test_long_lines_are_cut_around_the_range() -> None:
    text = "a" * 500 + "BAD" + "c" * 500
    shown, carets = _rendered(text, 501, 504)
    assert shown == "    ..." + "a" * 60 + "BAD" + "c" * 51 + "..."
    assert carets == "    " + " " * 63 + "^^^"


def test_long_ranges_end_with_the_shown_text() -> None:
    shown, carets = _rendered("a" * 500, 11, 400)
    assert shown == "    " + "a" * 117 + "..."
    assert carets == "    " + " " * 10 + "^" * 110


def test_source_text_cannot_steer_the_terminal() -> None:
    span = Span("a\033.c", 1, 1, 1, 2, "x = \033[2J\u202e1")
    fault = Diagnostic(span, "wrong", "LW100", found="\033[31m")
    assert str(fault) == (
        "a\ufffd.c:1:1: error: wrong [LW100]\n"
        "    x = \ufffd[2J\ufffd1\n"
        "    ^\n"
        "note: found \ufffd[31m"
    )


def test_collector_reports_everything_in_source_order() -> None:
    collector = Collector()
    collector.raise_if_any()
    later = Diagnostic(Span("a.c", 2, 1, 2, 2, "b;"), "second", "LW101", hint="c")
    first = Diagnostic(Span("a.c", 1, 1, 1, 2, "a;"), "first", "LW100")
    for fault in (later, first, later):
        collector.add(fault)
    assert len(collector) == 2
    with pytest.raises(SourceError) as caught:
        collector.raise_if_any()
    assert caught.value.diagnostics == (first, later)
    assert str(caught.value) == (
        "a.c:1:1: error: first [LW100]\n"
        "    a;\n"
        "    ^\n"
        "a.c:2:1: error: second [LW101]\n"
        "    b;\n"
        "    ^\n"
        "try: c"
    )


@pytest.mark.parametrize(("count", "last"), [(21, "1 more error"), (40, "20 more errors")])
def test_a_flood_of_errors_is_counted(count: int, last: str) -> None:
    faults = [Diagnostic(Span("a.c", n, 1, n, 2), "wrong", "LW100") for n in range(1, count + 1)]
    lines = str(SourceError(*faults)).split("\n")
    assert len(lines) == 21
    assert lines[-1] == f"note: {last} not shown"


def test_illegal_step_text() -> None:
    refusal = IllegalStep(
        "tile(band='i')", "would reverse flow", "S0[3] -> S1[2] (heat.c:5 -> heat.c:6)"
    )
    assert str(refusal) == (
        "tile(band='i'): would reverse flow S0[3] -> S1[2] (heat.c:5 -> heat.c:6)"
    )
    assert str(IllegalStep("fuse", "no such band")) == "fuse: no such band"


def test_usage_error_text() -> None:
    assert str(UsageError("operands do not match")) == "operands do not match"
    full = UsageError("label j has two sizes", found="3 and 4", hint="operands of equal size")
    assert str(full) == "label j has two sizes\nnote: found 3 and 4\ntry: operands of equal size"


def test_toolchain_error_text() -> None:
    failed = ToolchainError(["cc", "-o", "a b", "x.c"], "x.c:1: no\n")
    assert str(failed) == "cc -o 'a b' x.c: failed\nx.c:1: no"
    assert str(ToolchainError(["nvcc"], "", "not found")) == "nvcc: not found"
    assert len(str(ToolchainError(["cc"], "x" * 10**6))) < 4100


def test_internal_error_text() -> None:
    assert str(InternalError("no rule for Max", "for i: Max")) == (
        "internal error: no rule for Max\n"
        "note: the fault is ours, not your program's; please send what follows\n"
        "for i: Max"
    )
    assert str(InternalError("no rule")) == (
        "internal error: no rule\nnote: the fault is ours, not your program's"
    )


FAMILY: tuple[tuple[LoopwrightError, type[Exception]], ...] = (
    (SourceError(Diagnostic(Span("a.c", 1, 1, 1, 2, "x"), "wrong", "LW100")), ValueError),
    (IllegalStep("tile", "would reverse flow", "S0[1] -> S0[0]"), ValueError),
    (UsageError("wrong", "3", "4"), ValueError),
    (DtypeError("wrong", "int8", "float64"), TypeError),
    (ToolchainError(("cc", "x.c"), "output"), RuntimeError),
    (InternalError("wrong", "dump"), RuntimeError),
)


@pytest.mark.parametrize(("error", "builtin"), FAMILY, ids=lambda v: type(v).__name__)
def test_family(error: LoopwrightError, builtin: type[Exception]) -> None:
    assert isinstance(error, LoopwrightError)
    assert isinstance(error, builtin)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.__dict__ == error.__dict__


def test_code_is_needed() -> None:
    with pytest.raises(AssertionError, match="not a diagnostic code: 'E1'"):
        Diagnostic(Span("a.c", 1, 1, 1, 2), "wrong", "E1")
