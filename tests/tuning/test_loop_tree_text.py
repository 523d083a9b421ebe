"""Texts of loop trees written by hand: indentation is nesting, faults have their places."""

import numpy as np
import pytest

from loopwright.diagnostics import SourceError, UsageError
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.expr import Const, Load, Var
from loopwright.ir.program import Access, Array, Role
from loopwright.tuning.loop_tree import LoopTree, TreeLoop, TreeNest, TreeStatement
from loopwright.tuning.loop_tree_text import parse_tree, tree_text
from loopwright.tuning.quick_kernel import compile_tree, compile_tree_by_pipeline

HEAD = """\
copy
in A: float32[60]
in B: float32[64]
local t: float32[60]
out out: float32[60]

"""


def text(*lines: str) -> str:
    return HEAD + "".join(f"{line}\n" for line in lines)


WHOLE = text("> for i in 3, tail 12 (by 16)", "    for i in 16", "      out[i] = A[i]")


@pytest.mark.parametrize("compiled", [compile_tree, compile_tree_by_pipeline])
def test_a_remainder_ends_where_the_arrays_end(compiled: object) -> None:
    tree = parse_tree(WHOLE)
    assert tree_text(tree) == WHOLE
    around = np.full(188, 7, np.float32)
    arrays = {
        "A": np.arange(60, dtype=np.float32),
        "B": np.ones(64, np.float32),
        "out": around[64:124],
    }
    compiled(tree)(arrays)  # type: ignore[operator]
    assert np.array_equal(arrays["out"], arrays["A"])
    assert (around[:64] == 7).all()
    assert (around[124:] == 7).all()


FAULTS = {
    "beyond": (
        text("  for i in 64", "    out[i] = B[i]"),
        "<loop tree>:8:5: error: subscript 1 of out is 0 to 63, 0 to 59 are inside [LW172]\n"
        "    out[i] = B[i]\n"
        "    ^^^^^^\n"
        "note: found loops that cover i = 64\n"
        "try: fewer iterations, or a tail: `for i in 3, tail 12` around `for i in 16` covers 60",
    ),
    "before": (
        text("  for i in 60", "    out[i] = B[i - 1]"),
        "<loop tree>:8:14: error: subscript 1 of B is -1 to 58, 0 to 63 are inside [LW172]\n"
        "    out[i] = B[i - 1]\n"
        "             ^^^^^^^^\n"
        "note: found loops that cover i = 60\n"
        "try: fewer iterations, or a tail: `for i in 3, tail 12` around `for i in 16` covers 60",
    ),
    "not affine": (
        text("  for i in 8", "    out[i] = A[i * i]"),
        "<loop tree>:8:14: error: a subscript of A is not affine in the dimensions of the nest "
        "[LW172]\n"
        "    out[i] = A[i * i]\n"
        "             ^^^^^^^^\n"
        "note: found i * i\n"
        "try: sums of dimensions times constants",
    ),
    "side by side": (
        text("  for i in 60", "  for j in 2", "    out[i] add= A[i]"),
        "<loop tree>:7:3: error: the loop of i has nothing inside [LW170]\n"
        "    for i in 60\n"
        "    ^^^^^^^^^^^\n"
        "note: found line 8 at the margin of the loop\n"
        "try: two spaces more before what is inside",
    ),
    "two statements": (
        text("  for i in 60", "    out[i] = A[i]", "    out[i] = B[i]"),
        "<loop tree>:9:5: error: no loop stands around this statement [LW170]\n"
        "    out[i] = B[i]\n"
        "    ^^^^^^^^^^^^^\n"
        "try: `for i in 8` before it, and two spaces more",
    ),
    "imperfect": (
        text("  for i in 60", "    out[i] = A[i]", "    for j in 2", "      out[j] = A[j]"),
        "<loop tree>:9:5: error: a loop holds one loop or one statement [LW170]\n"
        "    for j in 2\n"
        "    ^^^^^^^^^^\n"
        "try: a nest of its own, at the margin of the first loop",
    ),
    "line": (
        text("  for i to 60", "    out[i] = A[i]"),
        "<loop tree>:7:3: error: this line is not understood [LW170]\n"
        "    for i to 60\n"
        "    ^^^^^^^^^^^\n"
        "try: `in A: float32[8, 4]`, `for i in 8, tail 3, vector`, `out[i] add= A[i, k]`, "
        "`dims i 8, k 4` or `accumulators 4`",
    ),
    "tail": (
        text("  for i in 14, tail 4 (by 4)", "    for i in 4", "      out[i] = A[i]"),
        "<loop tree>:7:3: error: a tail of 4 is no shorter than an iteration of 4 [LW170]\n"
        "    for i in 14, tail 4 (by 4)\n"
        "    ^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "try: a tail is what is left: fewer points than the loops inside cover",
    ),
    "by": (
        text("  for i in 15 (by 5)", "    for i in 4", "      out[i] = A[i]"),
        "<loop tree>:7:3: error: an iteration covers 4 points, not 5 [LW170]\n"
        "    for i in 15 (by 5)\n"
        "    ^^^^^^^^^^^^^^^^^^",
    ),
    "mark": (
        text("  for i in 60, warp", "    out[i] = A[i]"),
        "<loop tree>:7:3: error: 'warp' is nothing that a loop can be [LW170]\n"
        "    for i in 60, warp\n"
        "    ^^^^^^^^^^^^^^^^^\n"
        "try: vector, unroll, parallel, pack a, pack b",
    ),
    "race": (
        text("  for i in 59, parallel", "    out[i + 1] = out[i]"),
        "<loop tree>:7:3: error: iterations of a parallel loop may not depend on each other "
        "[LW172]\n"
        "    for i in 59, parallel\n"
        "    ^^^^^^^^^^^^^^^^^^^^^",
    ),
    "operand": (
        text("  for i in 60, pack b", "    out[i] = A[i]"),
        "<loop tree>:7:3: error: there is no such operand, or it is packed already [LW172]\n"
        "    for i in 60, pack b\n"
        "    ^^^^^^^^^^^^^^^^^^^",
    ),
    "unknown": (
        text("  for i in 60", "    out[i] = C[i] * 2"),
        "<loop tree>:8:14: error: array 'C' is not declared [LW171]\n"
        "    out[i] = C[i] * 2\n"
        "             ^^^^\n"
        "note: found arrays A, B, t, out",
    ),
    "expression": (
        text("  for i in 60", "    out[i] = A[i] + ("),
        "<loop tree>:8:14: error: this is no expression [LW171]\n"
        "    out[i] = A[i] + (\n"
        "             ^^^^^^^^\n"
        "note: found A[i] + (",
    ),
    "operator": (
        text("  for i in 60", "    out[i] = A[i] @ B[i]"),
        "<loop tree>:8:14: error: this is not among the operators [LW171]\n"
        "    out[i] = A[i] @ B[i]\n"
        "             ^^^^^^^^^^^\n"
        "note: found A[i] @ B[i]",
    ),
    "function": (
        text("  for i in 60", "    out[i] = sqrt(A[i], B[i])"),
        "<loop tree>:8:14: error: 'sqrt' is no function of 2 arguments [LW171]\n"
        "    out[i] = sqrt(A[i], B[i])\n"
        "             ^^^^^^^^^^^^^^^^",
    ),
    "plus": (
        text("  for i in 60", "    out[i] avg= A[i]"),
        "<loop tree>:8:12: error: 'avg' accumulates nothing [LW170]\n"
        "    out[i] avg= A[i]\n"
        "           ^^^\n"
        "try: add, mul, min, max, and, or, xor",
    ),
    "input": (
        text("  for i in 60", "    A[i] = B[i]"),
        "<loop tree>:8:5: error: array A is an input [LW172]\n"
        "    A[i] = B[i]\n"
        "    ^^^^\n"
        "try: declare it as out",
    ),
    "rank": (
        text("  for i in 60", "    out[i, i] = B[i]"),
        "<loop tree>:8:5: error: 2 subscripts for rank 1 [LW172]\n"
        "    out[i, i] = B[i]\n"
        "    ^^^^^^^^^\n"
        "note: found out[i, i]",
    ),
    "unset": (
        text("  for i in 60", "    out[i] = t[i]"),
        "<loop tree>:8:14: error: local array t is read before a nest has written it [LW172]\n"
        "    out[i] = t[i]\n"
        "             ^^^^\n"
        "try: a nest before this one that writes it",
    ),
    "partly set": (
        text("  for i in 50", "    t[i] = A[i]", "  for i in 60", "    out[i] = t[i]"),
        "<loop tree>:10:14: error: t[50] is read before it is written [LW172]\n"
        "    out[i] = t[i]\n"
        "             ^^^^\n"
        "try: loops before that write all elements of t that are read",
    ),
    "set later": (
        text("  for i in 1", "    t[0] = A[0]", "  for i in 59", "    t[i] = t[i + 1]"),
        "<loop tree>:10:12: error: t[1] is read before it is written [LW172]\n"
        "    t[i] = t[i + 1]\n"
        "           ^^^^^^^^\n"
        "try: loops before that write all elements of t that are read",
    ),
    "type": (
        WHOLE.replace("float32[64]", "float31[64]"),
        "<loop tree>:3:1: error: 'float31' is no type [LW170]\n"
        "    in B: float31[64]\n"
        "    ^^^^^^^^^^^^^^^^^\n"
        "try: " + ", ".join(DTYPES),
    ),
    "dims": (
        text("  dims i 60, j 3", "  for i in 60", "    out[i] = A[i]"),
        "<loop tree>:7:3: error: `dims` names other dimensions than the loops [LW170]\n"
        "    dims i 60, j 3\n"
        "    ^^^^^^^^^^^^^^\n"
        "note: found i, j\n"
        "try: i",
    ),
    "empty": (
        HEAD.rstrip() + "\n  for i in 60",
        "<loop tree>:6:3: error: the loop of i has nothing inside [LW170]\n"
        "    for i in 60\n"
        "    ^^^^^^^^^^^\n"
        "try: a statement inside of it",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_told_with_their_places(name: str) -> None:
    given, told = FAULTS[name]
    with pytest.raises(SourceError) as caught:
        parse_tree(given)
    assert str(caught.value).startswith(told)
    assert name == "beyond" or str(caught.value) == told


@pytest.mark.parametrize(
    "lines",
    [
        ("  for i in 30", "    t[2 * i] = A[i]", "  for i in 30", "    t[2 * i + 1] = A[i]",
         "  for i in 60", "    out[i] = t[i]"),
        ("  for i in 1", "    t[0] = A[0]", "  for i in 59", "    t[i + 1] = t[i] + A[i]",
         "  for i in 60", "    out[i] = t[i]"),
        ("  for i in 1", "    t[0] = A[0]", "  for i in 60", "    t[i] add= A[i] * t[0]"),
        ("  for i in 50", "    t[i] = A[i]", "  for i in 25", "    out[i] = t[2 * i + 1]"),
    ],
)  # fmt: skip
def test_elements_that_nests_have_written_are_read(lines: tuple[str, ...]) -> None:
    """By several nests, or by the nest itself at a point before."""
    parse_tree(text(*lines))


def test_all_lines_at_fault_are_told() -> None:
    given = text("  for i in 60, warp", "    out[i] = C[i]").replace("float32[64]", "float31[64]")
    with pytest.raises(SourceError) as caught:
        parse_tree(given)
    assert [d.span.line for d in caught.value.diagnostics] == [3, 7, 8]


@pytest.mark.parametrize(
    "given",
    [
        "",
        "\n",
        "copy",
        text("  for i in " + "9" * 400, "    out[0] = A[0]"),
        text("  for i in 60", "    out[i] = " + "-" * 2000 + "A[i]"),
        text("  for i in 60", "    out[i] = " + "(" * 300 + "A[i]" + ")" * 300),
        text("  for i in 60", "    out[i] = A[i] + \0"),
        text("  for i in 60", "    out[i] = " + "9" * 3000),
        text("\tfor i in 60", "\t\tout[i] = A[i]"),
        text("  for i in 60", "    out[i] = lambda: A[i]"),
        text("  for i in 60, unroll", "    for j in 4096", "      out[i] add= A[i]"),
        text("  accumulators 1000000", "  for i in 60", "    out[0] add= A[i]"),
        WHOLE.replace("local t: float32[60]", "local t: float32[99999999999999]"),
        WHOLE.replace("copy", 'copy" {'),
        WHOLE.replace("in B", "in A"),
    ],
)  # fmt: skip
def test_texts_of_any_kind_are_refused(given: str) -> None:
    with pytest.raises(SourceError):
        parse_tree(given)


def by_hand(extent: int, size: int) -> LoopTree:
    """out[i] = A[i], not from a text."""
    float32, i = DTYPES["float32"], (Var("i"),)
    arrays = tuple(
        Array(name, float32, (Const(extent),), role)
        for name, role in (("A", Role.IN), ("out", Role.OUT))
    )
    statement = TreeStatement((("i", size),), Access("out", i, float32), Load("A", i, float32))
    return LoopTree("copy", arrays, (TreeNest(statement, (TreeLoop("i", size),)),))


@pytest.mark.parametrize("compiled", [compile_tree, compile_tree_by_pipeline])
def test_trees_made_in_python_stay_inside_too(compiled: object) -> None:
    compiled(by_hand(60, 60))  # type: ignore[operator]
    with pytest.raises(UsageError) as caught:
        compiled(by_hand(60, 64))  # type: ignore[operator]
    assert str(caught.value) == (
        "nest 1 of a loop tree: subscript 1 of out is 0 to 63, 0 to 59 are inside\n"
        "note: found loops that cover i = 64"
    )


def test_arrays_of_a_call() -> None:
    kernel = compile_tree(by_hand(4, 4))
    x, y = np.ones(8, np.float32), np.zeros(4, np.float32)
    frozen = np.zeros(4, np.float32)
    frozen.flags.writeable = False
    odd = np.zeros(17, np.uint8)[1:].view(np.float32)
    faults = [
        ({"A": x[:3], "out": y}, "array A must be contiguous float32 of shape"),
        ({"A": [1.0] * 4, "out": y}, "array A must be an array of NumPy"),
        ({"A": x[:4], "out": frozen}, "array out is read-only"),
        ({"A": x[:4], "out": x[2:6]}, "array out shares memory with A"),
        ({"A": odd, "out": y}, "array A is not aligned"),
        ({"A": x[:4]}, "the tree takes the arrays A, out"),
    ]
    for arrays, told in faults:
        with pytest.raises(UsageError, match=told):
            kernel(arrays)  # type: ignore[arg-type]
    assert (x == 1).all()
    assert (y == 0).all()
