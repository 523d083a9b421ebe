"""Rewrites of nests, each by a table of nests before and after; every bit stays.

The rows of a rewrite stand in `rewrites/NAME.txt`: the arguments of the nests behind them, then a
title behind `#` (with what the rewrite is given behind `|`), the nest, `->`, and what comes
of it. `-> stays` says that nothing changes, `-> changes` that something does, `-> singly` that the
loop is left to run one iteration at a time. A new row is a few lines there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from backends.compiled import _same_layout, assert_same_bits
from backends.random_nests import nests
from backends.test_random_nests import arrays
from drawn import some
from loopwright.ir.check import check_nest
from loopwright.ir.dtypes import BOOL, DType
from loopwright.ir.expr import Const, Expr, Var
from loopwright.ir.interpret import Memory, interpret_nest
from loopwright.ir.loops import For, LoopNest, Mark, Stmt
from loopwright.ir.text import nest_text, stmt_text
from loopwright.ir.visit import rebuild, statements
from loopwright.lower.collapse_rows import collapse_rows
from loopwright.lower.contract_arrays import sink_scalars
from loopwright.lower.simplify import simplify, simplify_divisions
from loopwright.lower.values.absolute_differences import absolute_differences
from loopwright.lower.values.elements_apart import run_elements_singly
from loopwright.lower.values.keep_elements import keep_elements
from loopwright.lower.values.kept_copies import write_out_kept
from loopwright.lower.values.mirrored_updates import update_in_pairs
from loopwright.lower.values.narrow_arithmetic import narrow_arithmetic
from loopwright.lower.values.narrow_selections import narrow_selections
from loopwright.lower.values.plain_reductions import plain_reductions
from loopwright.lower.values.predictive_commoning import carry_chosen, predictive_commoning
from loopwright.lower.values.promote_registers import promote_scalars
from loopwright.lower.values.signs import clamp_signs, takes_signs
from loopwright.lower.values.sums_apart import run_sums_singly
from loopwright.lower.values.unsigned_sums import unsigned_sums
from loopwright.lower.values.wide_counts import widen_counts
from loopwright.lower.vectorize import unroll, vectorize
from loopwright.lower.work_distribution import coarsen_parallel_loops
from loopwright.machines import load_machine
from nest_text import read_expr, read_nest

FOLDER = Path(__file__).parent / "rewrites"
SIZES = (0, 1, 2, 3, 7, 13)


def factors(given: str) -> dict[str, int]:
    """`i=4 j=2` as numbers of loops."""
    return {name: int(number) for name, number in (x.split("=") for x in given.split())}


def condition(given: str) -> Expr | None:
    return read_expr(given, wanted=BOOL) if given else None


def signs(nest: LoopNest, given: str) -> LoopNest:
    """Clamped signs; of which a loop says whether it has some."""
    (loop,) = (stmt for stmt in statements(nest.body) if isinstance(stmt, For))
    found = clamp_signs(nest)
    assert takes_signs(loop) is (found != nest)
    return found


def known_rows(given: str) -> dict[str, tuple[Expr, ...]]:
    """Strides that a caller knows: of rows that many elements long."""
    return {name: (Var(length), Const(1)) for name, length in (x.split("=") for x in given.split())}


def plain(rewrite: Callable[[LoopNest], LoopNest]) -> Callable[[LoopNest, str], LoopNest]:
    return lambda nest, given: rewrite(nest)


REWRITES: dict[str, Callable[[LoopNest, str], LoopNest]] = {
    "absolute_differences": plain(absolute_differences),
    "carry_chosen": lambda nest, given: carry_chosen(nest, condition(given)),
    "clamp_signs": signs,
    "coarsen_parallel_loops": lambda nest, given: coarsen_parallel_loops(nest, factors(given)),
    "collapse_rows": lambda nest, given: collapse_rows(
        nest, *([known_rows(given)] if given else [])
    ),
    "keep_elements": lambda nest, given: keep_elements(nest, may_guess=condition(given)),
    "narrow_arithmetic": plain(narrow_arithmetic),
    "narrow_selections": plain(narrow_selections),
    "plain_reductions": plain(plain_reductions),
    "predictive_commoning": plain(predictive_commoning),
    "promote_scalars": plain(promote_scalars),
    "run_elements_singly": lambda nest, given: run_elements_singly(nest, load_machine(given).lanes),
    "run_sums_singly": plain(run_sums_singly),
    "simplify": plain(simplify),
    "simplify_divisions": plain(simplify_divisions),
    "sink_scalars": plain(sink_scalars),
    "unroll": lambda nest, given: unroll(nest, factors(given)),
    "unsigned_sums": plain(unsigned_sums),
    "update_in_pairs": plain(update_in_pairs),
    "vectorize": lambda nest, given: vectorize(nest, factors(given)),
    "widen_counts": plain(widen_counts),
    "write_out_kept": plain(write_out_kept),
}


@dataclass(frozen=True)
class Row:
    """A nest, what the rewrite is given with it, and what it becomes."""

    rewrite: str
    title: str
    given: str
    before: LoopNest
    after: str

    def __str__(self) -> str:
        return f"{self.rewrite}: {self.title}"


def rows(name: str) -> Iterator[Row]:
    head = ""
    for part in re.split(r"\n\n+", (FOLDER / f"{name}.txt").read_text().strip()):
        if part.startswith("nest "):
            head = part
            continue
        title, rest = part.split("\n", 1)
        words, _, given = title.removeprefix("# ").partition(" | ")
        before, after = re.split(r"^->", rest, maxsplit=1, flags=re.MULTILINE)
        body = "\n".join("    " + line for line in before.splitlines())
        nest = replace(read_nest(f"{head}\n{body}"), leave_to_llvm=True)
        yield Row(name, words, given, nest, after.strip())


def test_every_table_is_read() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(REWRITES)


@pytest.mark.parametrize("row", [row for name in REWRITES for row in rows(name)], ids=str)
def test_row(row: Row) -> None:
    found = REWRITES[row.rewrite](row.before, row.given)
    text = stmt_text(found.body)
    is_same = text == stmt_text(row.before.body)
    match row.after:
        case "stays" | "changes":
            assert is_same is (row.after == "stays")
        case "singly":
            assert any(isinstance(x, For) and x.copies == 1 for x in statements(found.body))
        case _:
            assert text == row.after
    if row.after != "singly":  # which later passes, for compilers of C, do without
        check_nest(found)
    for seed, n in enumerate(() if is_same else SIZES):
        width = n if row.given or seed % 2 else 37  # rows lie together, or apart
        expected, left = (run(nest, n, seed, width) for nest in (serial(row.before), found))
        for name, array in expected.items():
            assert_same_bits(left[name], array, (name, n))


ALWAYS = [name for name in REWRITES if name not in (
    "clamp_signs", "run_elements_singly", "run_sums_singly", "unroll", "vectorize",
)]  # fmt: skip


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", ALWAYS)
@settings(max_examples=some(60), deadline=None)
@given(case=nests())
def test_random_nests_leave_the_same(name: str, case: tuple[LoopNest, dict[str, int]]) -> None:
    """Nests that were made for no rewrite; elements that data choose may be loaded in any case."""
    nest, launch = case
    changed = REWRITES[name](nest, "")
    check_nest(changed)
    left = []
    for each in (nest, changed) if changed != nest else ():
        memory = {x: Memory.of(_same_layout(a)) for x, a in arrays(nest, launch, seed=1).items()}
        interpret_nest(each, memory, launch)
        left.append(memory)
    for x, array in left[0].items() if left else ():
        assert_same_bits(left[1][x].data, array.data, f"{x} of\n{nest_text(changed)}")


def serial(nest: LoopNest) -> LoopNest:
    """The nest before loops are cut: marks ask for lanes or copies, whatever the extent."""

    def visit(stmt: Stmt) -> Stmt:
        return replace(stmt, mark=Mark.SERIAL) if isinstance(stmt, For) else stmt

    return replace(nest, body=rebuild(nest.body, visit))


def run(nest: LoopNest, n: int, seed: int, width: int) -> dict[str, np.ndarray]:
    """What a nest leaves in memory of which its arguments are the middle."""
    memory = {b.name: Memory(numbers(b.dtype, seed), base=3000) for b in nest.buffers}
    scalars = dict.fromkeys(nest.scalars, n)
    for buffer in nest.buffers:
        for at, stride in enumerate(reversed(buffer.strides)):
            if isinstance(stride, Var):
                scalars[stride.name] = width**at
    marks = {stmt.mark for stmt in statements(nest.body) if isinstance(stmt, For)}
    threads = 2 if Mark.PARALLEL in marks else 1
    known = {name: scalars[name] for name in nest.scalars}
    interpret_nest(nest, memory, known, threads=threads, seed=seed)
    return {name: one.data for name, one in memory.items()}


def numbers(dtype: DType, seed: int) -> np.ndarray:
    """Numbers from the whole range of a type, its ends among them."""
    random = np.random.default_rng(seed)
    if not dtype.is_integer:
        return random.choice([0.0, -0.0, 1.5, -2.25, 0.1, np.inf, 7.0], 16_000).astype(dtype.numpy)
    ends = (dtype.least, dtype.greatest, 0, 1, 2, 3, dtype.greatest // 3)
    return random.choice(np.array(ends, dtype.numpy), 16_000)
