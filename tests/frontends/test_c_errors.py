"""Refused C: the full text of every message, the same with and without a C compiler.

Each file of tests/errors/c holds a C file, a line of dashes, and the reports it gets.
"""

from pathlib import Path

import pytest

from frontends.c_functions import COMPILER
from loopwright.diagnostics import SourceError, ToolchainError, UsageError
from loopwright.frontends.c import read_c

CASES = sorted((Path(__file__).parent.parent / "errors" / "c").glob("*.txt"))
NO_COMPILER = pytest.param(
    None, marks=pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
)
PREPROCESSORS = pytest.mark.parametrize("compiler", ["", NO_COMPILER], ids=["own", "cc"])


def report(text: str | bytes, **options: object) -> str:
    with pytest.raises(SourceError) as caught:
        read_c(text, filename="k.c", **options)  # type: ignore[arg-type]
    return "\n".join(d.render() for d in caught.value.diagnostics)


@PREPROCESSORS
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_report(case: Path, compiler: str | None) -> None:
    text, _, expected = case.read_text(encoding="utf-8").partition("----\n")
    assert report(text, compiler=compiler) + "\n" == expected


def region(body: str, params: str = "int n, double a[100]", before: str = "") -> str:
    return f"void f({params})\n{{\n{before}\n#pragma scop\n{body}\n#pragma endscop\n}}\n"


@PREPROCESSORS
def test_faults_of_all_regions_come_together(compiler: str | None) -> None:
    text = region("a[n * n] = 1;") + region("while (n) a[0] = 1;").replace("f(", "g(")
    text += "void h(double a[3])\n{\n#pragma scop\na[0] = 1;\n}\n"
    found = report(text, compiler=compiler)
    assert [line for line in found.splitlines() if "error:" in line] == [
        "k.c:5:3: error: the subscript is not affine in the loop variables and sizes [LW110]",
        "k.c:12:1: error: a while loop cannot be compiled [LW133]",
        "k.c:17:1: error: '#pragma endscop' is missing [LW130]",
    ]


# -- before the first region ----------------------------------------------------------------


@PREPROCESSORS
@pytest.mark.parametrize("around", ["#if 0\n{}\n#endif\n", "/*\n{}\n*/ int x;\n"])
def test_region_that_is_left_out(around: str, compiler: str | None) -> None:
    found = report(around.format("#pragma scop\n#pragma endscop"), compiler=compiler)
    assert found == (
        "k.c:2:1: error: the pragma is not part of the program [LW130]\n"
        "    #pragma scop\n"
        "    ^^^^^^^^^^^^\n"
        "try: it stands in a comment or between #if and #endif: move it out"
    )


def test_zero_byte() -> None:
    assert report(b"int x;\nint \0y;\n") == (
        "k.c:2:5: error: a zero byte is no C [LW130]\ntry: give a text file"
    )


def test_own_preprocessor_reports() -> None:
    rows = {
        '#include "nope.h"\n': "the header 'nope.h' is not found; give its folder with -I",
        "#if 1 +\nint x;\n#endif\n": "the condition of #if is not understood: 1 +",
        "#if 1 / 0\nint x;\n#endif\n": "the condition of #if is not understood: 1 / 0",
        "int x;\n#endif\n": "#endif without #if",
        "int x;\n#ifdef\n#endif\n": "a name is missing after #ifdef",
        "#if 1\nint x;\n": "#endif is missing",
        "#define\nint x;\n": "a name is missing after #define",
        "#define A(x) x\nint A(1, 2);\n": "the macro 'A' takes 1 arguments, 2 are given",
        "#define A(x) x\nint A(1;\n": "')' is missing in the call of the macro 'A'",
        "int x; /* open\n": "the comment does not end",
        "#error no\nint x;\n": "the preprocessor says: #error no",
        "#include 5\nint x;\n": "#include is not understood: 5",
    }
    for text, message in rows.items():
        assert report(text, compiler="").splitlines()[0].endswith(f": error: {message} [LW131]")


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
def test_compiler_reports() -> None:
    assert report('int x;\n#include "nope.h"\n') == (
        "k.c:2:10: error: the preprocessor says: nope.h: No such file or directory [LW131]\n"
        '    #include "nope.h"\n'
        "             ^\n"
        "try: give the folder of the header with -I"
    )


def test_calls_that_are_wrong() -> None:
    with pytest.raises(UsageError, match=r"cannot read 'no/such/file\.c'"):
        read_c("no/such/file.c")
    with pytest.raises(UsageError, match="not an argument for the preprocessor"):
        read_c("int x;\n", cpp_args=["-o", "elsewhere"])
    with pytest.raises(UsageError, match="cpp_args is one text"):
        read_c("int x;\n", cpp_args="-DN=1")
    with pytest.raises(UsageError, match="'-D' needs a value"):
        read_c("int x;\n", cpp_args=["-D"])
    with pytest.raises(UsageError, match="not a macro"):
        read_c("int x;\n", defines={"a b": 1})
    with pytest.raises(UsageError, match="the C compiler 'no-such-compiler' is not found"):
        read_c("int x;\n", compiler="no-such-compiler")


def test_compiler_that_does_not_work() -> None:
    with pytest.raises(ToolchainError):
        read_c("int x;\n", compiler="false")
    with pytest.raises(ToolchainError, match="gave no output"):
        read_c("int x;\n", compiler="true")
