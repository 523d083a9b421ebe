"""Plans: replay, JSON there and back, and everything that is refused on the way in."""

from __future__ import annotations

import json

import pytest

from contract_steps import contract_loops
from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.ir.grid_kernel import ElementsVariant, GridVariant
from loopwright.transform.blocked_closure import BlockClosure, MapClosure
from loopwright.transform.copy_live_in import CopyLiveIn
from loopwright.transform.diagonals import Diagonals
from loopwright.transform.distance_splitting import SplitByDistance
from loopwright.transform.forward_scalar import ForwardScalar
from loopwright.transform.gather_in_place import GatherInPlace
from loopwright.transform.grid_mapping import MapToBlocks, MapToThreads
from loopwright.transform.hand_on import HandOn
from loopwright.transform.index_set_splitting import SeparateBox, SplitIndexSet
from loopwright.transform.interchange import Interchange
from loopwright.transform.interval_rows import WalkRows
from loopwright.transform.keep_in_local import KeepInLocal
from loopwright.transform.loop_fusion import Distribute, DistributeStatements, Fuse
from loopwright.transform.loop_marks import (
    Align,
    Parallel,
    ParallelChunks,
    PrefetchRows,
    ShareFrom,
    Simd,
    Unroll,
    Vectorize,
)
from loopwright.transform.map_contraction import MapContraction, MapWholeContraction
from loopwright.transform.map_reduction import MapReduction
from loopwright.transform.mesh_mapping import MapToMesh
from loopwright.transform.outer_vectors import OuterVectors
from loopwright.transform.partial_sums import PartialSums
from loopwright.transform.plan import STEPS, Plan, apply_plan
from loopwright.transform.privatize import ExpandArray, Privatize
from loopwright.transform.read_in_place import ReadInPlace
from loopwright.transform.register_limits import CapRegisters, KeepInMemory
from loopwright.transform.register_promotion import PromoteToRegisters
from loopwright.transform.reschedule import Reschedule
from loopwright.transform.scalar_expansion import ExpandScalar, SplitLiveRanges
from loopwright.transform.share_box import ShareBox
from loopwright.transform.skew import Skew
from loopwright.transform.split_update import SplitUpdate
from loopwright.transform.stage import StageArray
from loopwright.transform.stage_box import StageBox
from loopwright.transform.step import Text
from loopwright.transform.stream_time import StreamTime
from loopwright.transform.tiling import StripMine, Tile, TileWithin
from loopwright.transform.time_tiles import TileTime, TileTimeInBlocks
from loopwright.transform.unroll_and_jam import UnrollAndJam
from loopwright.transform.update_order import ExchangeTerms, UpdateLast
from programs import matmul

ONE_OF_EACH = Plan(
    (
        KeepInMemory(),
        CapRegisters(64),
        BlockClosure("S1", 64, 4, 4, 2, 0),
        MapClosure("S1", 64, 128, 128, 8, 8, 8, 2),
        Fuse("i", "j"),
        Distribute("i"),
        DistributeStatements("i", ("S0", "S1"), (1, 1)),
        Interchange(("j", "i")),
        Tile(("i", "j"), (32, 64)),
        StripMine("k", 8),
        SeparateBox(("i", "j"), ("i",), ("S0",), 1),
        SplitIndexSet("k", "i", "k_t", 12),
        SplitByDistance("i", 32),
        contract_loops("i", "j", "k", packing=("along_p", "gather"), broadcast="lane", shares=2),
        MapContraction(("i", "j", "k"), 64, 64, 8, 8, 8, 3, 2),
        MapWholeContraction((GridVariant(64, 64, 8, 8, 8, True, False, is_split=True),), 3),
        MapWholeContraction((ElementsVariant(2, 1, 32),), 1),
        UnrollAndJam("i", 4),
        OuterVectors("i", 2, 4),
        Diagonals("i", "j", 64, 64),
        Skew("t", 2, (0, 1), (1, 1), 8, 2),
        Reschedule(Text("domain: '{ S0[i] }'")),
        ForwardScalar("t"),
        GatherInPlace("best"),
        WalkRows("len", "i"),
        SplitUpdate("S0", 1),
        ExchangeTerms("S0"),
        UpdateLast("S0"),
        SplitLiveRanges("t"),
        ExpandScalar("t", ("i",)),
        PartialSums("S0", "i", 64),
        ExpandArray("t", ("i",)),
        CopyLiveIn("A", ("S0_1",)),
        ReadInPlace("A_old"),
        KeepInLocal("A", "t"),
        Privatize("t", "k"),
        Parallel("i_t"),
        ParallelChunks("j_t", 2),
        ShareFrom("t", 4096),
        MapToBlocks("i_t", "y"),
        MapToThreads("i", "x", 128),
        MapReduction("k", "j", 256),
        StageArray("A", "k_t", "shared", 2),
        MapToMesh("i_t", "row", 8, 8),
        HandOn("i_t", ("y",), ("j_t",), 8, 8),
        StageBox("A", "k_t", ("S0_1", "S0_2"), 2),
        TileTime(4, (32, 64), 8, 8),
        TileTimeInBlocks(3, (40, 60), 8, 32, 2),
        StreamTime(2, (120, 12, 24), 8, 8),
        TileWithin(("i", "j"), (3, 4), (8, 4)),
        ShareBox("A", "k_t", "k_t_2", ("S0_2",), "row"),
        Vectorize("j", 4),
        Simd("j"),
        Align("j", 2),
        Unroll("k", 2),
        PromoteToRegisters("S0", "k"),
        PrefetchRows("k", 8),
    )
)


def test_json_there_and_back() -> None:
    assert {type(step) for step in ONE_OF_EACH} == set(STEPS)
    assert Plan.loads(ONE_OF_EACH.dumps()) == ONE_OF_EACH
    assert Plan.from_json(ONE_OF_EACH.to_json()) == ONE_OF_EACH
    assert json.loads(ONE_OF_EACH.dumps()) == ONE_OF_EACH.to_json()
    assert Plan.loads(Plan().dumps()) == Plan()


def test_json_is_readable() -> None:
    plan = Plan((Tile(("i", "j"), (32, 64)), Parallel("i_t")))
    assert plan.dumps() == (
        '{"version": 3, "steps": [\n'
        '  {"kind": "tile", "loops": ["i", "j"], "sizes": [32, 64]},\n'
        '  {"kind": "parallel", "loop": "i_t"}\n'
        "]}"
    )
    assert str(plan) == "tile(loops=('i', 'j'), sizes=(32, 64))\nparallel(loop='i_t')"
    assert str(Plan()) == "(no steps)"
    assert len(plan) == 2


KINDS = ", ".join(step.kind for step in STEPS)


def steps(*items: object) -> str:
    return json.dumps({"version": 3, "steps": items})


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (
            "[1",
            "a plan is JSON text\nnote: found Expecting ',' delimiter: line 1 column 3 (char 2)",
        ),
        ("[]", 'a plan is a JSON object\nnote: found []\ntry: {"version": 3, "steps": [...]}'),
        (
            '{"version": 2, "steps": []}',
            "unknown version of plan\nnote: found 2\ntry: 3",
        ),
        (
            '{"version": 3, "steps": {}}',
            "steps is a list of at most 1000\nnote: found {}",
        ),
        (steps(3), "a step is a JSON object\nnote: found 3"),
        (
            steps({"kind": "exec", "code": "import os"}),
            f"unknown kind of step\nnote: found 'exec'\ntry: one of {KINDS}",
        ),
        (
            steps({"kind": "parallel"}),
            "step 'parallel' has other fields\ntry: loop",
        ),
        (
            steps({"kind": "parallel", "loop": "i", "x": 1}),
            "step 'parallel' has other fields\nnote: found loop, x\ntry: loop",
        ),
        (
            steps({"kind": "parallel", "loop": "i; system()"}),
            "step 'parallel': field 'loop' is a name\nnote: found 'i; system()'",
        ),
        (
            steps({"kind": "unroll", "loop": "i", "factor": True}),
            "step 'unroll': field 'factor' is a whole number\nnote: found True",
        ),
        (
            steps({"kind": "unroll", "loop": "i", "factor": 2**40}),
            f"step 'unroll': field 'factor' is a whole number\nnote: found {2**40}",
        ),
        (
            steps({"kind": "tile", "loops": ["i"], "sizes": [1.5]}),
            "step 'tile': field 'sizes' is a list of whole numbers\nnote: found [1.5]",
        ),
        (
            steps({"kind": "tile", "loops": "ij", "sizes": [1, 2]}),
            "step 'tile': field 'loops' is a list of names\nnote: found 'ij'",
        ),
        (
            steps({"kind": "tile", "loops": ["i"], "sizes": [0]}),
            "tile takes sizes of at least 1\nnote: found tile(loops=('i',), sizes=(0,))",
        ),
    ],
)
def test_bad_data_is_refused(data: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        Plan.loads(data)
    assert str(caught.value) == told


def test_deep_data_is_refused() -> None:
    with pytest.raises(UsageError):
        Plan.loads("[" * 200_000)


def test_first_illegal_step_ends_the_plan() -> None:
    with pytest.raises(IllegalStep) as caught:
        apply_plan(matmul(), Plan((StripMine("k", 4), Parallel("k"), Parallel("x"))))
    assert caught.value.step == Parallel("k")
