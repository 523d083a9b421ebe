"""Plan: the steps from a Program to a Schedule, as data that can be stored and replayed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from loopwright.diagnostics import UsageError
from loopwright.ir.schedule import Schedule
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.apply import apply_plan, apply_step, apply_steps, initial_schedule
from loopwright.transform.blocked_closure import BlockClosure, MapClosure
from loopwright.transform.contract import Contract
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
from loopwright.transform.step import Step, step_from_json
from loopwright.transform.stream_time import StreamTime
from loopwright.transform.tiling import StripMine, Tile, TileWithin
from loopwright.transform.time_tiles import TileTime, TileTimeInBlocks
from loopwright.transform.unroll_and_jam import UnrollAndJam
from loopwright.transform.update_order import ExchangeTerms, UpdateLast

__all__ = [
    "STEPS",
    "Plan",
    "apply_plan",
    "apply_step",
    "apply_steps",
    "candidates",
    "initial_schedule",
]

# Every kind of step, in the order in which searches try them.
STEPS: tuple[type[Step], ...] = (
    KeepInMemory,
    CapRegisters,
    BlockClosure,
    MapClosure,
    Fuse,
    Distribute,
    DistributeStatements,
    Interchange,
    Tile,
    TileWithin,
    StripMine,
    SeparateBox,
    SplitIndexSet,
    SplitByDistance,
    Contract,
    MapContraction,
    MapWholeContraction,
    UnrollAndJam,
    OuterVectors,
    Diagonals,
    Skew,
    Reschedule,
    ForwardScalar,
    GatherInPlace,
    WalkRows,
    SplitUpdate,
    ExchangeTerms,
    UpdateLast,
    SplitLiveRanges,
    ExpandScalar,
    PartialSums,
    ExpandArray,
    CopyLiveIn,
    ReadInPlace,
    KeepInLocal,
    Privatize,
    Parallel,
    ParallelChunks,
    ShareFrom,
    MapToBlocks,
    MapToThreads,
    MapReduction,
    StageArray,
    MapToMesh,
    HandOn,
    StageBox,
    ShareBox,
    TileTime,
    TileTimeInBlocks,
    StreamTime,
    Vectorize,
    Simd,
    Align,
    Unroll,
    PromoteToRegisters,
    PrefetchRows,
)
_KINDS = {step.kind: step for step in STEPS}
_VERSION = 3
_MOST_STEPS = 1000


@dataclass(frozen=True, slots=True)
class Plan:
    """Decisions in the order they are taken."""

    steps: tuple[Step, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON data."""
        return {"version": _VERSION, "steps": [step.to_json() for step in self.steps]}

    @classmethod
    def from_json(cls, data: object) -> Plan:
        """The plan that `data` describes; data of any other shape is refused."""
        if not isinstance(data, dict) or data.keys() != {"version", "steps"}:
            hint = f'{{"version": {_VERSION}, "steps": [...]}}'
            raise UsageError("a plan is a JSON object", found=repr(data)[:80], hint=hint)
        if data["version"] != _VERSION:
            raise UsageError("unknown version of plan", repr(data["version"])[:80], str(_VERSION))
        steps = data["steps"]
        if not isinstance(steps, list) or len(steps) > _MOST_STEPS:
            raise UsageError(f"steps is a list of at most {_MOST_STEPS}", found=repr(steps)[:80])
        return cls(tuple(step_from_json(step, _KINDS) for step in steps))

    def dumps(self) -> str:
        """The plan as JSON text, one step a line."""
        steps = ",\n  ".join(json.dumps(step.to_json()) for step in self.steps)
        body = f"[\n  {steps}\n]" if self.steps else "[]"
        return f'{{"version": {_VERSION}, "steps": {body}}}'

    @classmethod
    def loads(cls, text: str) -> Plan:
        """The plan that JSON text describes."""
        try:
            return cls.from_json(json.loads(text))
        except (json.JSONDecodeError, RecursionError) as error:
            raise UsageError("a plan is JSON text", found=str(error)) from error

    @property
    def whole_contract(self) -> Contract | None:
        """The only step, where that runs the whole program as one contraction."""
        match self.steps:
            case (Contract(loops=()) as step,):
                return step
        return None

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps)) or "(no steps)"


def candidates(schedule: Schedule) -> Iterator[Step]:
    """Steps of every kind that fit the shape of `schedule`; `apply` may still refuse them."""
    for kind in STEPS:
        yield from kind.candidates(schedule)
