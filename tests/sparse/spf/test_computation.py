"""Computations: read from text, terms as expressions, dataflow, faults that are told."""

from itertools import combinations, product
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import some
from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.ir import expr as ir
from loopwright.ir.dtypes import FLOAT64, INT32
from loopwright.ir.evaluate import evaluate as evaluate_expr
from loopwright.ir.program import Role
from loopwright.sparse import computations as spf
from loopwright.sparse.formats import find
from loopwright.sparse.spf.computation import Computation, DataSpace, Stmt
from loopwright.sparse.spf.dataflow import CarriedEdge, dataflow, dot_text, svg_text
from loopwright.sparse.spf.implied import KnownConstraints
from loopwright.sparse.spf.rescheduling import fuse
from loopwright.sparse.spf.scan_pieces import eliminated
from loopwright.sparse.spf.term_exprs import as_condition, as_expr, as_term
from loopwright.sparse.uf import Constraint, Term, TupleVar, evaluate, holds, parse_linear
from spf_assembly import CLEAR, ROW_SUM, assembly, computation

SPACES = (
    DataSpace.of("f", INT32, ["N"], Role.IN),
    DataSpace.of("a", FLOAT64, ["N", "M"], Role.OUT),
)
BY_NAME = {space.name: space for space in SPACES}
ONE = ir.Const(1.0, FLOAT64)


def made(stmt: Stmt) -> Computation:
    return Computation("c", SPACES, (stmt,), ("N", "M"))


def faulty(
    domain: str = "{[i] : 0 <= i < N}",
    schedule: tuple[str, ...] = ("i",),
    target: str = "a(i,0)",
    value: ir.Expr = ONE,
) -> Computation:
    return made(Stmt.of("S", domain, schedule, target, value))


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (
            {"target": "f(i)", "value": ir.Const(0, INT32)},
            "statement 'S' writes 'f', which is an input",
        ),
        ({"domain": "{[i] : 0 <= i < K}"}, "'K' in the domain of statement 'S' is not declared"),
        (
            {"domain": "{[i] : 0 <= i < g(0)}"},
            "'g' in the domain of statement 'S' is not declared",
        ),
        ({"target": "a(i)"}, "'a' has 1 subscripts in the target of statement 'S'"),
        (
            {"value": ir.Var("i")},
            "the value of statement 'S' is int64, its target 'a' holds float64",
        ),
        ({"schedule": ("j",)}, "'j' in the schedule of statement 'S' is not declared"),
        (
            {"domain": "{[M] : 0 <= M < N}", "schedule": ("M",), "target": "a(M,0)"},
            "'M' names a variable of statement 'S' and something else",
        ),
        ({"target": "i+1"}, "the target of statement 'S' is no element of a data space"),
        (
            {"value": ir.Cast(ir.Var("k"), FLOAT64)},
            "'k' in the value of statement 'S' is not declared",
        ),
    ],
)
def test_faults_are_told(other: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        faulty(**other)


def test_names_are_declared_once() -> None:
    with pytest.raises(UsageError, match="the name 'f' is declared twice"):
        Computation("c", (SPACES[0], SPACES[0]), ())


# -- terms and expressions --------------------------------------------------------------------

TERMS = (
    "2*i - 3*j + 4",
    "-i - 1",
    "f(i) + f(f(j))",
    "floor((i - 5)/3) - j mod 4",
    "N*i + j*j - 7",
    "f(i)*j + floor(f(j)/2)",
    "-f(3)",
)


@pytest.mark.parametrize("text", TERMS)
def test_terms_and_expressions_agree(text: str) -> None:
    term = parse_linear(text, ("i", "j"))
    expr = as_expr(term, BY_NAME)
    assert as_term(expr, ("i", "j")) == term
    table = np.array([3, 0, 2, 1], np.int32)
    for i, j in product(range(4), repeat=2):
        values = {"i": i, "j": j, "N": 4, "M": 2}
        expected = evaluate(term, values, {"f": table})
        assert evaluate_expr(expr, values, {"f": table}) == expected
        for test in (Constraint.ge(term), Constraint.gt(term), Constraint.eq(term)):
            found = evaluate_expr(as_condition(test, BY_NAME), values, {"f": table})
            assert bool(found) == holds(test, values, {"f": table})


# -- what follows -----------------------------------------------------------------------------

NAMES = ("x", "y", "z")
BOX = range(-3, 4)


@st.composite
def constraints(draw: st.DrawFn) -> Constraint:
    factors = [draw(st.integers(-2, 2)) for _ in NAMES]
    terms = ((TupleVar(n), f) for n, f in zip(NAMES, factors, strict=True))
    term = Term.sum(terms, draw(st.integers(-3, 3)))
    return Constraint.eq(term) if draw(st.integers(0, 5)) == 0 else Constraint.ge(term)


def points(given_: list[Constraint]) -> list[dict[str, int]]:
    every = (dict(zip(NAMES, entries, strict=True)) for entries in product(BOX, repeat=3))
    return [point for point in every if all(holds(c, point, {}) for c in given_)]


@settings(max_examples=some(100), deadline=None)
@given(st.lists(constraints(), max_size=4), constraints())
def test_what_is_implied_holds(known: list[Constraint], wanted: Constraint) -> None:
    if KnownConstraints(tuple(known)).implies(wanted):
        assert all(holds(wanted, point, {}) for point in points(known))


@settings(max_examples=some(100), deadline=None)
@given(st.lists(constraints(), max_size=4), st.sampled_from(NAMES))
def test_elimination_keeps_every_point(known: list[Constraint], name: str) -> None:
    less = eliminated(known, [name])
    for point in points(known):
        rest = {n: v for n, v in point.items() if n != name}
        assert all(holds(c, rest, {}) for c in less)


ROWS = """
    in rowptr[NR+1]: int32, in col[NNZ]: int32
    in val[NNZ]: float64; in x[NC]: float64; out y[NR]: float64
"""
PRODUCT = """
    zero: {[i] : 0<=i<NR} at (0, i, 0): y(i) = 0
    add: {[i,k] : 0<=i<NR && rowptr(i)<=k<rowptr(i+1)} at (1, i, 0, k, 0): y(i) += val(k)*x(col(k))
"""


def matrix_product() -> spf.Computation:
    return spf.computation("product", ROWS, PRODUCT, facts=find("csr", 2))


def test_a_product_and_its_steps() -> None:
    rng = np.random.default_rng(1)
    dense = rng.random((7, 5)) * (rng.random((7, 5)) < 0.5)
    counts = np.count_nonzero(dense, axis=1)
    arrays = {
        "rowptr": np.concatenate(([0], np.cumsum(counts))).astype(np.int32),
        "col": np.nonzero(dense)[1].astype(np.int32),
        "val": dense[np.nonzero(dense)],
        "x": rng.random(5),
    }
    sizes = {"NR": 7, "NC": 5, "NNZ": int(counts.sum())}
    whole = matrix_product()
    assert whole.symbols == ("NC", "NNZ", "NR")
    fused = spf.fuse(whole, "zero", "add", 1)
    for each in (whole, fused, spf.parallelise(fused, "add")):
        y = np.full(7, np.nan)
        spf.compile_computation(each)({**arrays, "y": y}, sizes)
        np.testing.assert_allclose(y, dense @ arrays["x"])
    with pytest.raises(IllegalStep, match="flow dependence of add on zero through y"):
        spf.interchange(fused, "add", 1, 2)
    assert "add: {[i,k]" in str(fused)
    assert "y[i] + val[k] * x[int64(col[k])]" in str(fused)
    assert spf.svg_text(spf.dataflow(fused)).startswith("<svg")
    assert "digraph" in spf.dot_text(spf.dataflow(fused))


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("o(i) = a(i) + 1", [2, 3, 4]),
        ("o(i) = a(i)*2.5", [2, 5, 7]),  # into int32: towards zero
        ("o(i) = max(a(i), 2) if a(i) != 3", [2, 2, -1]),
        ("o(i) = i*N - a(i)//2", [0, 2, 5]),
        ("o(i) = a(i) % 2 if a(i) > 1 and i < 2", [-1, 0, -1]),
        ("o(i) = -abs(a(i) - 2)", [-1, 0, -1]),
        ("o(i) max= a(N-1-i)", [3, 2, 1]),
        ("o(i) *= a(i)", [-1, -2, -3]),
        ("o(a(i)-1) = sqrt(f(i))", [1, 2, 3]),
        ("o(i) = s", [4, 4, 4]),
    ],
)
def test_assignments(text: str, right: list[int]) -> None:
    spaces = "in a[N]: int32, in f[N]: float32, in s: int64, inout o[N]: int32"
    made = spf.computation("one", spaces, f"S: {{[i] : 0<=i<N}} at (i): {text}")
    out = np.full(3, -1, np.int32)
    arrays = {
        "a": np.array([1, 2, 3], np.int32),
        "f": np.array([1, 4, 9], np.float32),
        "s": np.array(4),
        "o": out,
    }
    spf.compile_computation(made)(arrays, {"N": 3})
    assert out.tolist() == right


@pytest.mark.parametrize(
    ("spaces", "statements", "said"),
    [
        ("in a[N]", "", "a space is written as"),
        ("in a[N]: int33", "", "a space is written as"),
        ("out a[N]: int32", "S: {[i] : 0<=i<N}: a(i) = 1", "a statement is written as"),
        ("out a[N]: int32", "S: {[i] : 0<=i<N} at (i): a(i)", "assigns nothing"),
        ("out a[N]: int32", "S: {[i] : 0<=i<N} at (i): b(i) = 1", "stores into 'b'"),
        ("out a[N]: int32", "S: {[i] : 0<=i<N} at (i): a(i) = 1 +", "it is no expression"),
        ("out a[N]: int32", "S: {[i] : 0<=i<N} at (i): a(i) = a(i,i)", "has 1 dimensions"),
        ("out a[N]: int32", "S: {[i] : 0<=i<N} at (i): a(i) = f(i)", "neither a space nor"),
        ("out a[N]: int32", "S: {[i] : 0<=i<N} at (i): a(i) = 1 << 2", "not among the operators"),
        ("out a[N]: uint8", "S: {[i] : 0<=i<N} at (i): a(i) = 300", "uint8 does not hold it"),
        ("out a[N]: int32", "S: {[i] : 0<=i<N} at (i): a(i) = 0.5", "int32 does not hold it"),
    ],
)
def test_refusals(spaces: str, statements: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        spf.computation("wrong", spaces, statements)


FUSED = fuse(computation(CLEAR, ROW_SUM), "clear", "row_sum", 1)


def test_carried_dependences() -> None:
    assert dataflow(FUSED).carried == (CarriedEdge("row_sum", "row_sum", 2, ("y",)),)


def test_dot() -> None:
    assert dot_text(dataflow(FUSED)) == (
        'digraph "made" {\n'
        '  node [fontname="monospace", fontsize=10];\n'
        '  "data ptr" [label="ptr[N+1]: int32", shape=box, style="filled,rounded", '
        'fillcolor="#dbe9f6"];\n'
        '  "data val" [label="val[K]: float64", shape=box, style="filled,rounded", '
        'fillcolor="#dbe9f6"];\n'
        '  "data y" [label="y[N]: float64", shape=box, style="filled,rounded", '
        'fillcolor="#fde3cf"];\n'
        "  subgraph cluster_1 {\n"
        '    label="for i";\n'
        f'    "clear" [label="clear\\n{CLEAR.domain}", shape=ellipse];\n'
        "    subgraph cluster_2 {\n"
        '      label="for k";\n'
        f'      "row_sum" [label="row_sum\\n{ROW_SUM.domain}", shape=ellipse];\n'
        "    }\n"
        "  }\n"
        '  "clear" -> "data y" [label="1"];\n'
        '  "data ptr" -> "row_sum" [label="2 (domain)"];\n'
        '  "data val" -> "row_sum" [label="1"];\n'
        '  "data y" -> "row_sum" [label="1"];\n'
        '  "row_sum" -> "data y" [label="1"];\n'
        '  "row_sum" -> "row_sum" [style=dashed, constraint=false, color="#b03030", '
        'label="loop 2: y"];\n'
        "}\n"
    )


def boxes(picture: ElementTree.Element, path: str) -> list[tuple[float, float, float, float]]:
    found = []
    for rect in picture.findall(path):
        x, y, width, height = (float(rect.attrib[k]) for k in ("x", "y", "width", "height"))
        found.append((x, y, x + width, y + height))
    return found


def test_picture_is_sound() -> None:
    """Nodes lie apart and inside the picture, loops lie apart or inside each other."""
    name = "{http://www.w3.org/2000/svg}"
    for made in (FUSED, assembly(), fuse(assembly(), "prefix", "copy", 1)):
        text = svg_text(dataflow(made))
        assert text == svg_text(dataflow(made))
        picture = ElementTree.fromstring(text)
        size = float(picture.attrib["width"]), float(picture.attrib["height"])
        nodes, loops = boxes(picture, f"{name}g/{name}rect"), boxes(picture, f"{name}rect")
        assert len(nodes) == len(made.spaces) + len(made.statements)
        for x0, y0, x1, y1 in (*nodes, *loops):
            assert x0 >= 0
            assert y0 >= 0
            assert x1 <= size[0]
            assert y1 <= size[1]
        for one, other in combinations(nodes, 2):
            assert is_apart(one, other)
        for one, other in combinations(loops, 2):
            assert is_apart(one, other) or is_inside(one, other) or is_inside(other, one)
        for loop in loops:
            assert all(is_apart(loop, node) or is_inside(node, loop) for node in nodes)


def is_apart(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


def is_inside(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] >= other[0] and one[1] >= other[1] and one[2] <= other[2] and one[3] <= other[3]
