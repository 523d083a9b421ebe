"""Parts of panels that cores give to each other: factors made before, own copies kept, tiles."""

from __future__ import annotations

import pytest

from loopwright.ir.loops import For, LoopNest, MeshBroadcast, Stmt, Store
from loopwright.ir.program import Program
from loopwright.ir.text import nest_text
from loopwright.ir.visit import loads, rebuild, statements
from loopwright.lower.build import seq
from loopwright.lower.passes import lower_schedule
from loopwright.transform.mesh_mapping import MapToMesh
from loopwright.transform.plan import apply_plan
from loopwright.transform.share_box import ShareBox
from loopwright.transform.stage_box import StageBox
from loopwright.transform.step import Step
from loopwright.transform.tiling import Tile
from loopwright.validate import check_translation
from programs import Do, nest, program

PLAN: tuple[Step, ...] = (
    Tile(("i", "j", "k"), (4, 8, 4)),
    Tile(("i", "j", "k"), (4, 8, 2)),
    MapToMesh("i_t", "row", 2, 2),
    MapToMesh("j_t", "column", 2, 2),
    StageBox("C", "j_t", (), 1),
    ShareBox("A", "k_t", "k_t_2", (), "row"),
    ShareBox("B", "k_t", "k_t_2", (), "column"),
)


def scaled(term: str, *extra: str, steps: int | str = "q") -> Program:
    """C += a product with a factor."""
    arrays = {
        "A": "in float64 [n, q]", "B": "in float64 [q, m]", "C": "inout float64 [n, m]",
        "alpha": "in float64 []", "x": "in float64 [q]",
    }  # fmt: skip
    update = Do("C[i, j]", f"C[i, j] + {term}")
    body = nest((("i", "n"), ("j", "m"), ("k", steps)), update)
    return program("f", arrays, body, *(Do(*e.split(" = ")) for e in extra), params="n m q")


def lowered(source: Program) -> LoopNest:
    made = lower_schedule(apply_plan(source, PLAN))
    sizes = [dict(zip("nmq", each, strict=True)) for each in ((5, 9, 3), (11, 19, 9), (0, 3, 2))]
    assert check_translation(source, made, sizes) == ()
    return made


def stores_with(made: LoopNest, name: str) -> list[str]:
    """The buffers that values with a scalar are stored to."""
    return [
        stmt.buffer
        for stmt in statements(made.body)
        if isinstance(stmt, Store) and any(load.array == name for load in loads(stmt.value))
    ]


def test_a_factor_is_made_by_the_core_that_brings_the_element() -> None:
    made = lowered(scaled("alpha * A[i, k] * B[k, j]"))
    assert "for A_part_0 in range(" in nest_text(made)
    # Registers hold alpha for the loops over a part, and nothing else is made with it.
    factors = [f for f in stores_with(made, "alpha") if not f.startswith("factor")]
    assert factors == []
    assert len(stores_with(made, "alpha")) == 2  # by vectors, and the rest of a row
    assert not any(s.buffer == "A_box" and "factor" in str(s) for s in _stores(made))


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    "term",
    [
        "x[k] * A[i, k] * B[k, j]",  # another factor for each step
        "alpha * A[i, k] * (A[i, k] + B[k, j])",  # used in two ways
        "alpha * (A[i, k] * B[k, j])",  # no factor of an element
    ],
)
def test_what_is_no_factor_of_an_element_stays(term: str) -> None:
    assert "_part_0 in range(" not in nest_text(lowered(scaled(term)))


def _stores(made: LoopNest) -> list[Store]:
    return [stmt for stmt in statements(made.body) if isinstance(stmt, Store)]


def test_roots_keep_their_own_copies() -> None:
    made = lowered(scaled("A[i, k] * B[k, j]"))
    given = [s for s in statements(made.body) if isinstance(s, MeshBroadcast)]
    assert len(given) == 2
    assert all(one.is_kept for one in given)

    def without_copies(stmt: Stmt) -> Stmt:
        if isinstance(stmt, For) and stmt.var.startswith("A_box_") and "from" not in stmt.var:
            return seq()
        return stmt

    broken = LoopNest(made.name, made.buffers, made.scalars, rebuild(made.body, without_copies))
    source = scaled("A[i, k] * B[k, j]")
    found = check_translation(source, broken, [{"n": 11, "m": 19, "q": 9}])
    assert found
    assert "is read before it is written" in found[0].found


# -- sizes ----------------------------------------------------------------------------------------
