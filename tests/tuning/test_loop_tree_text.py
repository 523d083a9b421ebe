"""Texts of loop trees written by hand: indentation is nesting, faults have their places."""

from pathlib import Path

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


def _faults() -> dict[str, tuple[str, str]]:
    """Texts and what is told of them, as in a file: lines after HEAD, or all of them."""
    found = {}
    whole = (Path(__file__).parent / "loop_tree_faults.txt").read_text(encoding="utf-8")
    for part in whole.removeprefix("== ").split("\n== "):
        name, _, rest = part.partition("\n")
        given, told = rest.rstrip("\n").split("\n--\n")
        found[name] = (given if given.startswith("copy") else HEAD + given) + "\n", told
    return found


FAULTS = _faults()


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
