"""Malformed, huge and deeply nested C is read or refused, quickly and without other errors."""

import pickle
from pathlib import Path

import pytest

from frontends.c_functions import needs_compiler
from loopwright.diagnostics import LoopwrightError, SourceError, ToolchainError
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import extract
from loopwright.ir.check import check_program


def region(body: str) -> str:
    return f"void f(int n, double a[100]) {{\n#pragma scop\n{body}\n#pragma endscop\n}}\n"


def refused(text: str | bytes, **options: object) -> str:
    with pytest.raises(SourceError) as caught:
        read_c(text, filename="k.c", compiler="", **options)  # type: ignore[arg-type]
    return caught.value.diagnostics[0].message


def outcome(text: str, **options: object) -> LoopwrightError | None:
    """The refusal of a text; None when it was read, and then its regions are programs."""
    try:
        file = read_c(text, **options)  # type: ignore[arg-type]
    except LoopwrightError as error:
        return error if str(error) else None
    for found in file.regions:
        check_program(extract(found.tree))
    return None


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("a[0] = " + "(" * 5000 + "1" + ")" * 5000 + ";", "this is nested too deeply"),
        ("a[0] = " + "(" * 5000, "this is nested too deeply"),
        ("a[0] = " + " + ".join(["a[1]"] * 5000) + ";", "this is nested too deeply"),
        ("a[0] = " + "a[1] - (" * 2000 + "1" + ")" * 2000 + ";", "this is nested too deeply"),
        ("a[0] = " + "- " * 3000 + "1;", "this is nested too deeply"),
        ("a" + "[0" * 3000 + "]" * 3000 + " = 1;", "this is nested too deeply"),
        ("a[0] = " + "a[1] ? 1 : " * 3000 + "1;", "this is nested too deeply"),
        ("if (n) " * 3000 + "a[0] = 1;", "this is nested too deeply"),
        ("{" * 3000 + "}" * 3000, "this is nested too deeply"),
        ("for (;;) " * 3000 + ";", "this is nested too deeply"),
        ("a[0] = " + "fmin(" * 40 + "a[1]" + ",1)" * 40 + ";", "this expression becomes too large"),
        ("a[0] = " + "(" * 40 + "n" + ") / 3" * 40 + ";", "this expression becomes too large"),
        ("int x" + "[2]" * 50 + "; x" + "[0]" * 50 + " = 1;", "'x' has more than 32 dimensions"),
        ("a[0] = " + "9" * 100_000 + ";", "this number is not understood"),
        ("a[0] = " + "x" * 1000 + ";", "the name '" + "x" * 187 + "..."),
        ("int (" * 3000 + "x", "')' is missing"),
        ("int " + "(" * 3000 + "x", "this is nested too deeply"),
    ],
)  # fmt: skip
def test_too_much(body: str, message: str) -> None:
    assert refused(region(body)) == message


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    package = "loopwright.frontends.c"
    monkeypatch.setattr(f"{package}.c_statements._MOST_STATEMENTS", 20)
    assert refused(region("a[0] = 1;\n" * 21)) == "the region has more than 20 statements"
    monkeypatch.setattr(f"{package}.region_parser._MOST_REGION", 2 << 10)
    message = "the region has more than 2 KiB of text, macros expanded"
    assert refused(region("a[0] = 1;\n" * 300)) == message
    monkeypatch.setattr(f"{package}.region_parser._MOST_FUNCTION", 4 << 10)
    text = region("a[0] = 1;").replace("#pragma scop", "x();\n" * 1000 + "#pragma scop")
    assert refused(text) == "the function has more than 4 KiB of text, macros expanded"
    monkeypatch.setattr(f"{package}.macro_expansion._MOST_WORDS", 1000)
    message = "macros of the file make more than 1000 words"
    assert refused(DOUBLING + region("a[0] = A60;")) == message
    monkeypatch.setattr(f"{package}.source_map._MOST_BYTES", 1 << 20)
    assert refused(b"x;\n" * (1 << 19)) == "the file is larger than 1 MiB"


def doubling(lines: int, body: str = "g{0}(x) + g{0}(x)") -> str:
    """Functions of which each calls the one before it twice."""
    given = "double g0(double x) { return x * 0.5; }\n"
    return given + "".join(
        f"double g{k}(double x) {{ return {body.format(k - 1)}; }}\n" for k in range(1, lines)
    )


def test_functions_that_double_what_is_expanded() -> None:
    """One budget holds for a region; what the text alone says is counted before it is expanded."""
    message = "calls in the region run more than 8000 statements"
    for body in ("g{0}(x) + g{0}(x)", "g{0}(g{0}(x))", "x > 0.5 ? g{0}(x) : g{0}(x * x)"):
        assert refused(doubling(30, body) + region("a[0] = g29(a[1]);")) == message
    assert outcome(doubling(6) + region("a[0] = g5(a[1]);"), compiler="") is None
    circle = doubling(30).replace("return x * 0.5;", "return g29(x);")
    assert refused(circle + region("a[0] = g29(a[1]);")) == message


def test_one_budget_for_all_calls_of_a_region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loopwright.frontends.c.inline_expansion._MOST_OF_REGION", 200)
    once = "for (int i = 0; i < n; i++) a[i] = g4(a[i]);\n"
    assert outcome(doubling(5) + region(once * 3), compiler="") is None
    assert refused(doubling(5) + region(once * 4)) == (
        "calls in the region run more than 200 statements"
    )
    loop = "double h(double x) { for (int k = 0; k < 90; k++) x = x * x; return x; }\n"
    message = "the function 'h' cannot be inlined"
    assert refused(loop + region("a[0] = h(a[1]);")) == message


OLD = "static double h(x, k) double x; int k; { return x * k; }\n"
OLD_AROUND = (
    "void f(n, a)\nint n;\ndouble a[100];\n{\n#pragma scop\na[0] = 1;\n#pragma endscop\n}\n"
)


def test_old_style_definitions() -> None:
    """One before a region is passed over; one around it is named as what it is."""
    assert outcome(OLD + region("a[0] = 1;"), compiler="") is None
    assert refused(OLD + region("a[0] = h(a[1], 2);")) == (
        "the text of the function 'h' cannot be read"
    )
    message = "the function around the region is defined in the old style"
    for before in ("", OLD, "int x;\nint y[2] = {1, 2};\n"):
        assert refused(before + OLD_AROUND) == message
        assert refused(before + OLD_AROUND + region("a[0] = 1;")) == message


DOUBLING = "#define A0 1 + 1\n" + "".join(f"#define A{k + 1} A{k} + A{k}\n" for k in range(60))


@needs_compiler
def test_compiler_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loopwright.frontends.c.preprocessor._SECONDS", 0.05)
    with pytest.raises(ToolchainError, match="took too long"):
        read_c(DOUBLING + region("a[0] = A60;"))


def test_macros_that_call_themselves() -> None:
    text = "#define F(x) F(F(x) + g)\n#define g F(g)\n#define a a\n" + region("a[0] = F(n);")
    assert refused(text) == "the function 'F' is not known to be pure, and has no body here"
    nested = "#define A(x) x\n" + region("a[0] = " + "A(" * 500 + "1" + ")" * 500 + ";")
    assert refused(nested) == "calls of macros are nested too deeply"


def test_headers_that_include_themselves(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text('#include "a.h"\n')
    text = '#include "a.h"\n' + region("a[0] = 1;")
    assert refused(text, cpp_args=["-I", str(tmp_path)]) == "the file includes too much"


@pytest.mark.parametrize("tail", ['"open', "'", "/* open", "//", "\\", "#", "#pragma", "{", "("])
def test_text_that_breaks_off(tail: str) -> None:
    for text in (region("a[0] = 1;") + tail, region(f"a[0] = 1; {tail}"), tail + "\n"):
        error = outcome(text, compiler="")
        if error is not None:
            assert pickle.loads(pickle.dumps(error)).args == error.args


def test_types_named_after_types() -> None:
    chain = "typedef int t0;\n" + "".join(f"typedef t{k} t{k + 1};\n" for k in range(2000))
    text = region("a[0] = 1;").replace("int n", "t2000 n")
    assert refused(chain + text) == "this function is nested too deeply"
