"""Random affine programs under random plans mean what they say, whoever runs them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drawn import HUNTS, in_all
from kernels.build import system_compiler
from loopwright.analysis.subscript_bounds import bounds_violation
from loopwright.frontends.extract import extract
from loopwright.frontends.source_tree import ForLoop, IfElse, Node, SourceTree
from loopwright.frontends.tree_text import tree_text
from loopwright.ir.check import check_program
from loopwright.ir.expr import Binary
from loopwright.ir.islkit import GaveUp, attempt
from loopwright.ir.loops import Alloc, Block, For, If, Let, LoopNest, Stmt, Store
from loopwright.ir.schedule import Schedule
from loopwright.ir.visit import statements
from property import random_translations
from property.affine_programs import assigns, random_program, shrink
from property.random_translations import (
    Translation,
    differences,
    differences_in_c,
    draw_case,
    draw_translations,
    smallest,
)

SEEDS = range(180 if HUNTS else 12 if in_all() else 6)
# Parts of extrema, arrays with two kinds of copies, iterations parted into loops; the last one made
# isl's dataflow analysis end the process.
ONCE_DIFFERENT = (194, 1458, 1367, 1781, 20543)
FIRST_IN_BOUNDS = 1000
IN_BOUNDS = 40


def translations(seed: int) -> list[Translation]:
    case = draw_case(seed)
    return [] if case is None else list(draw_translations(case, 1))


@pytest.mark.parametrize("first", SEEDS[::6])
def test_random_plans_make_no_difference(first: int) -> None:
    drawn = [found for seed in range(first, first + 6) for found in translations(seed)]
    assert len(drawn) >= 6
    for translation in drawn:
        assert differences(translation) == (), str(translation)
    if system_compiler() is not None:
        assert [(str(t), str(d)) for t, d in differences_in_c(drawn)] == []


@pytest.mark.parametrize("seed", ONCE_DIFFERENT)
def test_what_once_made_a_difference(seed: int) -> None:
    for translation in translations(seed):
        assert differences(translation) == (), str(translation)


def test_programs_stay_inside_their_arrays() -> None:
    """No size of at least zero makes any of them leave an array."""
    proven = 0
    for seed in range(FIRST_IN_BOUNDS, FIRST_IN_BOUNDS + IN_BOUNDS):
        program = extract(random_program(seed))
        check_program(program)
        try:
            with attempt(200_000):
                assert bounds_violation(program).is_empty(), seed
                proven += 1
        except GaveUp:
            continue
    assert proven > IN_BOUNDS // 2


def test_a_seed_is_a_program() -> None:
    texts = [tree_text(random_program(seed)) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_programs_are_varied() -> None:
    """Each thing the generator is for occurs within a few seeds."""
    trees = [random_program(seed) for seed in range(80)]
    text = "\n".join(map(tree_text, trees))
    for part in (" if ", "else:", ", -1)", ", 2)", ", -2)", " % ", " // ", "min(", "int32(", "t[]"):
        assert part in text, part
    counts = {len(list(assigns(tree.body))) for tree in trees}
    assert {1, 2, 3, 4, 5, 6} <= counts
    assert max(map(depth, trees)) == 4


def depth(tree: SourceTree) -> int:
    def below(nodes: tuple[Node, ...]) -> int:
        deepest = 0
        for node in nodes:
            match node:
                case ForLoop(body=body):
                    deepest = max(deepest, 1 + below(body))
                case IfElse(body=body, orelse=orelse):
                    deepest = max(deepest, below(body), below(orelse))
        return deepest

    return below(tree.body)


def test_failing_programs_shrink() -> None:
    """Whatever fails is cut down to what is needed for it."""
    tree = next(t for t in map(random_program, range(500)) if has_product(t) and depth(t) > 1)
    least = shrink(tree, has_product)
    assert has_product(least)
    assert len(list(assigns(least.body))) == 1
    assert len(tree_text(least)) < len(tree_text(tree))


def has_product(tree: SourceTree) -> bool:
    return any(isinstance(a.value, Binary) and a.value.op == "mul" for a in assigns(tree.body))


def test_a_difference_is_found_and_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a fault in the compiler: in every nest of several stores the last one is lost."""
    plain = random_translations.lower_schedule

    def faulty(schedule: Schedule) -> LoopNest:
        nest = plain(schedule)
        stores = [stmt for stmt in statements(nest.body) if isinstance(stmt, Store)]
        is_lost = {id(stores[-1])} if len(stores) > 1 else set()
        body = rebuild_but(nest.body, is_lost)
        return replace(nest, body=body)

    monkeypatch.setattr(random_translations, "lower_schedule", faulty)
    broken = next(
        translation
        for seed in range(10, 30)
        for translation in translations(seed)
        if len(translation.case.program.statements) > 3 and differences(translation)
    )
    least = smallest(broken)
    assert differences(least)
    assert len(least.case.program.statements) <= 3, "of more than three"


def rebuild_but(stmt: Stmt, lost: set[int]) -> Stmt:
    """`stmt` without the stores of these identities, which rebuilding does not keep."""
    if id(stmt) in lost:
        return Block(())
    match stmt:
        case Block(body=body):
            return Block(tuple(rebuild_but(child, lost) for child in body))
        case For(body=body) | Let(body=body) | Alloc(body=body):
            return replace(stmt, body=rebuild_but(body, lost))
        case If(body=body, orelse=orelse):
            other = None if orelse is None else rebuild_but(orelse, lost)
            return If(stmt.cond, rebuild_but(body, lost), other)
    return stmt
