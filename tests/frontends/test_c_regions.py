"""Regions of C files: their bytes, their variables, and liveness around them."""

import pytest

from frontends.c_functions import COMPILER
from loopwright.frontends.c import CRegion, CVariable, Origin, VariableKind, read_c
from loopwright.frontends.source_tree import ArrayParam, IntParam, ScalarParam
from loopwright.ir.expr import Const, Var
from loopwright.ir.text import expr_text


def only(text: str, **options: object) -> CRegion:
    (region,) = read_c(text, compiler="", **options).regions  # type: ignore[arg-type]
    return region


def function(
    body: str, params: str = "int n, double a[100]", before: str = "", after: str = ""
) -> str:
    lines = (before, "#pragma scop", body, "#pragma endscop", after)
    return f"void f({params})\n{{\n" + "\n".join(lines) + "\n}\n"


def described(variable: CVariable) -> tuple[object, ...]:
    return variable.kind, variable.origin, variable.ctype, variable.extents, variable.is_written


# -- bytes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("encoding", "word"), [("utf-8", "größe"), ("latin-1", "größe"), ("utf-8-sig", "größe")]
)
def test_encodings_and_line_ends(end: str, encoding: str, word: str) -> None:
    lines = [f"// {word}", "void f(double a[2]) {", "#pragma scop", f"a[1] = 2; // {word}"]
    raw = end.join([*lines, "#pragma endscop", "}", ""]).encode(encoding)
    file = read_c(raw, compiler="")
    (region,) = file.regions
    assert file.source == raw
    assert file.with_regions({0: f"{word}{end}"}).decode(encoding) == (
        raw.decode(encoding).replace(lines[3], word)
    )
    assert region.span.line == 3
    (assign,) = region.tree.body
    assert (assign.span.line, assign.span.column, assign.span.end_column) == (4, 1, 10)


def test_line_directives_do_not_mislead() -> None:
    text = function("a[n * n] = 1;").replace("#pragma scop", '#line 700 "other.y"\n#pragma scop')
    for compiler in ("", None) if COMPILER else ("",):
        with pytest.raises(ValueError, match=r"k\.c:6:3: error"):
            read_c(text, filename="k.c", compiler=compiler)


HEADS = [
    "void f(int n, double a[n])",
    "static inline __attribute__((cold)) unknown_t * f(int n, double a[n]) __attribute__((hot))",
    "EXPORT(f) int (f)(int n, double *restrict a)",
    "UNKNOWN_MACRO\nvoid f(FILE *out, int n, double *const __restrict__ a, ...)",
    "int f(int (*compare)(void *, int), int n, double a[restrict static n])",
]


@pytest.mark.parametrize("head", HEADS)
def test_heads_of_functions(head: str) -> None:
    region = only(
        f"{head} {{\n#pragma scop\nfor (int i = 0; i < n; i++) a[i] = 0;\n#pragma endscop\n}}"
    )
    assert region.function == "f"
    assert [p.name for p in region.tree.params] == ["n", "a"]


# -- variables ------------------------------------------------------------------------------


def test_what_became_of_every_variable() -> None:
    region = only(
        "typedef unsigned char byte;\nstatic const int width = 8;\nstatic byte image[40][8];\n"
        "double scale;\n"
        + function(
            "s = 0; for (i = 0; i < n; i++) { double t = x * scale; k[i] = image[i][width - 1] + t;"
            " for (int j = 0; j < m; j++) { s += w[j]; z[j] = s; } k[i] += z[0]; }",
            "long n, float x, float *unused, int k[restrict n + 0], double w[]",
            "    int i, m = 4;\n    double s, z[5 * 2];",
        )
    )
    assert {v.name: described(v) for v in region.variables} == {
        "n": (VariableKind.INTEGER, Origin.PARAMETER, "long", (), False),
        "x": (VariableKind.SCALAR, Origin.PARAMETER, "float", (), False),
        "k": (VariableKind.ARRAY, Origin.PARAMETER, "int", ("n + 0",), True),
        "w": (VariableKind.ARRAY, Origin.PARAMETER, "double", ("",), False),
        "scale": (VariableKind.SCALAR, Origin.GLOBAL, "double", (), False),
        "image": (VariableKind.ARRAY, Origin.GLOBAL, "unsigned char", ("40", "8"), False),
        "m": (VariableKind.INTEGER, Origin.LOCAL, "int", (), False),
        "s": (VariableKind.SCALAR, Origin.LOCAL, "double", (), True),
        "z": (VariableKind.ARRAY, Origin.LOCAL, "double", ("5 * 2",), True),
        "t": (VariableKind.SCALAR, Origin.REGION, "double", (), True),
        "i": (VariableKind.ITERATOR, Origin.LOCAL, "int", (), True),
    }
    assert region.parameters == ("n", "x", "unused", "k", "w")
    tree = region.tree
    assert [type(p) for p in tree.params] == [
        IntParam, ScalarParam, ArrayParam, ArrayParam, ScalarParam, ArrayParam, IntParam,
    ]  # fmt: skip
    assert [p.name for p in tree.params] == ["n", "x", "k", "w", "scale", "image", "m"]
    assert [local.name for local in tree.locals] == ["s", "z", "t"]
    assert tree.sizes == ("w_0",)
    assert region.variable("k").shape == (Var("n"),)
    assert region.variable("w").shape == (Var("w_0"),)
    assert region.variable("z").shape == (Const(10),)
    assert [v.name for v in region.variables if v.is_live_out] == ["k"]


@pytest.mark.parametrize(
    ("before", "after", "is_param", "is_live"),
    [
        ("double s;", "", False, False),
        ("double r, s;", "r = 2;", False, False),
        ("double s = 1;", "", True, False),
        ("double s; s = 1;", "", True, False),
        ("double s; g(&s);", "", True, True),
        ("double s;", "a[0] = s;", True, True),
        ("double s;", "s = 2; a[0] = s;", False, False),
        ("double s;", "if (n) s = 2; a[0] = s;", True, True),
        ("double s;", "s += 2;", True, True),
        ("double s;", "{ s = 2; } a[0] = s;", True, True),
        ("static double s;", "", True, True),
        ("double s; again:", "if (n) goto again;", True, False),
        ("double s; while (n--) {", "}", True, True),
    ],
)
def test_scalars_that_matter_outside(
    before: str, after: str, is_param: bool, is_live: bool
) -> None:
    body = "s = 0; for (int i = 0; i < 9; i++) s += a[i]; a[1] = s;"
    region = only(function(body, "int n, double a[9]", before, after))
    assert ("s" in [p.name for p in region.tree.params]) == is_param
    assert region.variable("s").is_live_out == is_live


@pytest.mark.parametrize(
    ("loop", "final"),
    [
        ("for (i = 0; i < n; i++)", "max(0, n)"),
        ("for (i = 5; i <= n; i++)", "max(5, n + 1)"),
        ("for (i = n - 1; i >= 0; i--)", "min(n - 1, -1)"),
        ("for (i = 0; i < 10; i += 3)", "12"),
        ("for (i = 9; i > 0; i -= 4)", "-3"),
        ("i = n; for (i = 1; i < 3; i++)", "3"),
    ],
)
def test_final_values_of_loop_variables(loop: str, final: str) -> None:
    region = only(function(f"{loop} a[i] = 1;", before="int i;", after="a[0] = i;"))
    variable = region.variable("i")
    assert variable.is_live_out
    assert variable.final is not None
    assert expr_text(variable.final) == final


@pytest.mark.parametrize(
    "after",
    ["", "i = 3; a[0] = i;", "for (i = 0; i < 3; i++) a[i] = 1;", "for (int i = 0; ;) g(i);",
     "for (j = 0; j < n; j++) for (i = 0; i < n; i++) g(i, j);",
     "if (n) for (i = 0; i < 2; i++) { g(i); g(i); }"],
)  # fmt: skip
def test_loop_variables_that_are_set_again(after: str) -> None:
    body = "for (j = 0; j < n; j++) for (i = 0; i < j; i++) a[i] = j;"
    assert not only(function(body, before="int i, j;", after=after)).variable("i").is_live_out


@pytest.mark.parametrize(
    "after",
    ["g(i);", "a[i] = 1;", "if (n) i = 0; g(i);", "i = i + 1;", "i++;", "for (; i < n; i++) ;",
     "for (i = i; i < n; i++) ;", "for (j = 0; j < n; j++) { for (i = 0; i < n; i++) ; } g(i);"],
)  # fmt: skip
def test_loop_variables_whose_value_is_lost(after: str) -> None:
    body = "for (j = 0; j < n; j++) for (i = 0; i < j; i++) a[i] = j;"
    with pytest.raises(ValueError, match="the value of 'i' after the region is not known"):
        only(function(body, before="int i, j;", after=after))


# -- a file in the manner of benchmark suites -----------------------------------------------


@pytest.mark.parametrize("value", ["g(n) + 1", "-*p", "1 + (n = 3)", "h.x - 1"])
def test_constants_with_values_of_any_c_are_variables(value: str) -> None:
    region = only(
        "struct s { int x; };\nint g(int);\n"
        f"void f(int n, int *p, struct s h, double a[9])\n{{\n    const int k = {value};\n"
        "#pragma scop\n    for (int i = 0; i < k; i++)\n        a[i] = k;\n#pragma endscop\n}\n"
    )
    assert region.variable("k").kind is VariableKind.INTEGER
    assert region.variable("k").start is None


def test_loops_around_a_region() -> None:
    body = "for (i = 0; i < n; i++) a[i] += t; for (j = 0; j < n; j++) a[j] -= t;"
    before = "int i, j; for (int t = 0; t < 9; t++) { for (i = 0; i < 3; i++) g(i);"
    region = only(function(body, before=before, after="}"))
    assert region.variable("t").kind is VariableKind.INTEGER
    assert not region.variable("i").is_live_out
    assert not region.variable("j").is_live_out


TWO = """\
/* first */
static int twice(int x) { return ({ int y = 2 * x; y; }); }  // GNU C, no concern of ours

void f(int n, double a[n])
{
    int i;
    #pragma scop  /* from here */
    for (i = 0; i < n; i++)
        a[i] = 0;
    #pragma endscop
    twice(n);
#pragma scop
    for (i = 0; i < n; i++)
        a[i] += 1;
#pragma endscop
}

struct s { int x; char *name; } table[] = {{1, "}"}, {2, "{"}};
__attribute__((noinline)) static double g(double (*restrict b)[3])
{
#pragma scop
    b[1][2] = 3;
#pragma endscop
    return b[0][0];
}
"""


def test_text_is_put_back() -> None:
    file = read_c(TWO, compiler="")
    assert file.with_regions({}) == TWO.encode()
    expected = TWO.replace("    for (i = 0; i < n; i++)\n        a[i] += 1;\n", "    g(1);\n")
    assert file.with_regions({1: "    g(1);\n"}) == expected.encode()
    without = file.with_regions({0: "X\n", 1: "Y\n", 2: "Z\n"}, keep_pragmas=False).decode()
    assert "pragma" not in without
    assert without.endswith("{\nZ\n    return b[0][0];\n}\n")
