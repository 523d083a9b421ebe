"""Predictions without a run: the same requests as an emulated run has, and the same time."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from athread.emulated import Emulated
from athread.kernel_runs import call_of
from athread.test_generated_passes import program_named
from kernels.corpus import KERNELS
from loopwright.backends.athread.athread_module import MeshFunction
from loopwright.calls.mesh_prediction import team_of_function
from loopwright.diagnostics import UsageError
from loopwright.machines.dma_model import DmaRequest
from loopwright.machines.load_mesh import load_mesh
from loopwright.machines.mesh_timeline import (
    CoreEvent,
    Repeated,
    TeamRun,
    each_event,
    predict_teams,
)
from needed_tools import needs_compiler

SW = load_mesh("sw26010")
NAMES = (
    "gemm", "syrk", "gemver", "jacobi-2d", "gesummv", "symm", "syr2k", "trmm", "2mm", "3mm", "atax",
    "bicg", "doitgen", "mvt",
)  # fmt: skip

SUMS = ("mvt", "atax", "gemver", "bicg")  # partial sums, where their order is free
# Of every nine one runs: the first of all, and the first with partial sums.
RUNS = (
    *((name, False) for name in NAMES[:10]),
    *((name, True) for name in SUMS),
    *((name, False) for name in NAMES[10:]),
)


@cache
def built(name: str, *, reassoc: bool = False) -> Emulated:
    """A kernel built for the emulator."""
    program = program_named(name, is_constant=False, reassoc=reassoc)
    folder = TemporaryDirectory()
    found = Emulated({name: program}, SW, (8, 8), Path(folder.name))
    _FOLDERS.append(folder)
    return found


_FOLDERS: list[TemporaryDirectory[str]] = []  # which go with this process


def function(name: str) -> MeshFunction:
    return built(name).function(name)


def sizes(name: str, size: int) -> dict[str, int]:
    """Sizes that are no multiples of tiles."""
    kernel = KERNELS[name]
    return {
        word: max(kernel.least.get(word, 0), 3 if "step" in word else size + 6 * at)
        for at, word in enumerate(kernel.sizes)
    }


def requests(teams: tuple[TeamRun, ...]) -> Counter[tuple[int, DmaRequest]]:
    """How often each core makes which request."""
    found: Counter[tuple[int, DmaRequest]] = Counter()
    for team in teams:
        for core, events in team.cores.items():
            for event, times in each_event(events):
                if (r := event.request) is not None:
                    found[core, DmaRequest(r.blocks, r.block_bytes, r.gap, r.is_put)] += times
    return found


@needs_compiler
@pytest.mark.drawn(18)
@pytest.mark.parametrize(("name", "reassoc"), RUNS)
def test_requests_are_those_of_an_emulated_run(name: str, reassoc: bool) -> None:
    given = sizes(name, 150 if reassoc else 50)
    build = built(name, reassoc=reassoc)
    done = build.run([call_of(name, given)[0]], profile=True)
    assert done.trace is not None
    teams = done.trace.teams
    dry = (team_of_function(build.function(name), given, SW),)
    assert requests(dry) == requests(teams)
    recorded, predicted = (predict_teams(SW, runs) for runs in (teams, dry))
    assert predicted.flops == recorded.flops
    assert predicted.dma_cycles == pytest.approx(recorded.dma_cycles)
    assert predicted.vector_cycles == pytest.approx(recorded.vector_cycles, rel=0.01)
    # The emulated code tests minima in loop conditions, which a compiler may move out of loops.
    assert predicted.memory_cycles == pytest.approx(recorded.memory_cycles, rel=0.3)
    plain = predict_teams(SW, [_without_stalls(team) for team in dry])
    assert plain.cycles == pytest.approx(recorded.cycles, rel=0.2)


def _without_stalls(team: TeamRun) -> TeamRun:
    """The same run of a machine whose sums have no latency, as the emulator counts."""

    def change(events: tuple[CoreEvent | Repeated, ...]) -> tuple[CoreEvent | Repeated, ...]:
        return tuple(
            Repeated(e.rounds, change(e.events))
            if isinstance(e, Repeated)
            else e._replace(work=e.work._replace(stall_cycles=0.0))
            for e in events
        )

    return TeamRun(team.place, {core: change(events) for core, events in team.cores.items()})


def _written_out(team: TeamRun) -> TeamRun:
    """The same run without repeated parts."""

    def flat(events: tuple[CoreEvent | Repeated, ...]) -> list[CoreEvent | Repeated]:
        found: list[CoreEvent | Repeated] = []
        for event in events:
            found += flat(event.events) * event.rounds if isinstance(event, Repeated) else [event]
        return found

    return TeamRun(team.place, {core: tuple(flat(events)) for core, events in team.cores.items()})


@pytest.mark.drawn(4)
@pytest.mark.parametrize("name", ["gemm", "syrk", "doitgen", "jacobi-2d"])
def test_repetitions_that_are_counted_take_the_time_of_those_that_are_played(name: str) -> None:
    given = {word: 8 if "step" in word else value for word, value in sizes(name, 130).items()}
    if name == "doitgen":
        given |= {"nr": 20, "nq": 20}
    team = team_of_function(function(name), given, SW)
    counted, played = predict_teams(SW, [team]), predict_teams(SW, [_written_out(team)])
    assert counted.cycles == pytest.approx(played.cycles, rel=0.01)
    assert counted.dma_cycles == pytest.approx(played.dma_cycles, rel=1e-6)
    assert (counted.flops, counted.memory_cycles) == (played.flops, played.memory_cycles)


def test_a_missing_size_is_named() -> None:
    with pytest.raises(UsageError) as error:
        team_of_function(function("gemm"), {"ni": 64, "nj": 64}, SW)
    assert str(error.value) == "the value of 'nk' is missing\ntry: values of ni, nj, nk"
