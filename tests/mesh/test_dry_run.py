"""Predictions without a run: the same requests as an emulated run has, and the same time."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from kernels.corpus import KERNELS, SYMBOLIC, make_inputs, write_source
from loopwright.backends.athread.athread_module import MeshFunction
from loopwright.calls.mesh_prediction import team_of_function
from loopwright.calls.splice import optimise_region
from loopwright.cli import main
from loopwright.diagnostics import UsageError
from loopwright.frontends.c import read_c
from loopwright.machines.dma_model import DmaRequest
from loopwright.machines.load_mesh import load_mesh
from loopwright.machines.mesh_timeline import (
    CoreEvent,
    CoreEventKind,
    CoreWork,
    Repeated,
    TeamRun,
    each_event,
    predict_teams,
)
from loopwright.planner.mesh_plans.mesh import mesh_planner
from loopwright.runtime.athread_emulator.athread_run import run_athread
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
def function(name: str, *, reassoc: bool = False) -> MeshFunction:
    with TemporaryDirectory() as folder:
        file = read_c(write_source(KERNELS[name], Path(folder), mode=SYMBOLIC))
    (region,) = file.regions
    found = optimise_region(file, region, mesh_planner, SW, target="athread", reassoc=reassoc).mesh
    assert found is not None
    return found


def sizes(name: str, size: int) -> dict[str, int]:
    """Sizes that are no multiples of tiles."""
    kernel = KERNELS[name]
    return {
        word: max(kernel.least.get(word, 0), 3 if "step" in word else size + 6 * at)
        for at, word in enumerate(kernel.sizes)
    }


def emulated(
    name: str, given: dict[str, int], folder: Path, *, reassoc: bool = False
) -> tuple[TeamRun, ...]:
    """What the cores did in an emulated run of the generated files."""
    kernel = KERNELS[name]
    source = write_source(kernel, folder, mode=SYMBOLIC)
    out = folder / "out"
    words = ["--reassoc"] if reassoc else []
    assert main(["cc", str(source), "--target", "athread", "-o", str(out), *words]) == 0
    inputs = make_inputs(kernel, given)
    types, values = [], []
    for word, value in inputs.items():
        is_array = hasattr(value, "nbytes") and value.ndim
        types.append("void *" if is_array else "int" if word in kernel.sizes else "double")
        values.append(f"calloc({value.nbytes + 128}, 1)" if is_array else str(value))
    call = folder / "main.c"
    call.write_text(
        f"#include <stdlib.h>\nvoid {kernel.function}({', '.join(types)});\n"
        f"int main(void) {{ {kernel.function}({', '.join(values)}); return 0; }}\n"
    )
    masters = [str(call), str(out / f"{name}.c"), str(out / f"{name}_master.c")]
    flags = [f"-I{out}", f"-I{folder}", "-DLW_LEAST_WORK=0", "-ffp-contract=off"]
    slaves = [str(out / f"{name}_slave.c")]
    done = run_athread(masters, slaves, SW, flags=flags, profile=True, timeout=600)
    assert done.trace is not None
    return done.trace.teams


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
def test_requests_are_those_of_an_emulated_run(name: str, reassoc: bool, tmp_path: Path) -> None:
    given = sizes(name, 150 if reassoc else 50)
    teams = emulated(name, given, tmp_path, reassoc=reassoc)
    dry = (team_of_function(function(name, reassoc=reassoc), given, SW),)
    assert requests(dry) == requests(teams)
    recorded, predicted = (predict_teams(SW, runs) for runs in (teams, dry))
    assert predicted.flops == recorded.flops
    assert predicted.dma_cycles == pytest.approx(recorded.dma_cycles)
    assert predicted.vector_cycles == pytest.approx(recorded.vector_cycles, rel=0.01)
    # The emulated code tests minima in loop conditions, which a compiler may move out of loops.
    assert predicted.memory_cycles == pytest.approx(recorded.memory_cycles, rel=0.3)
    plain = predict_teams(SW, [_without_stalls(team) for team in dry])
    assert plain.cycles == pytest.approx(recorded.cycles, rel=0.2)


CONVOLUTION = """\
float x[5][20][22], w[9][5][3][3], y[9][18][20];
void convolve(void)
{
#pragma scop
    for (int o = 0; o < 9; o++)
        for (int i = 0; i < 18; i++)
            for (int j = 0; j < 20; j++) {
                y[o][i][j] = 0.0f;
                for (int c = 0; c < 5; c++)
                    for (int p = 0; p < 3; p++)
                        for (int q = 0; q < 3; q++)
                            y[o][i][j] += x[c][i + p][j + q] * w[o][c][p][q];
            }
#pragma endscop
}
int main(void) { convolve(); return 0; }
"""


@pytest.mark.only_in_all("the requests of one more emulated run")
@needs_compiler
def test_requests_of_boxes_of_four_dimensions(tmp_path: Path) -> None:
    """Whole windows of weights lie one behind another: a request for each box of them."""
    source, out = tmp_path / "conv.c", tmp_path / "out"
    source.write_text(CONVOLUTION)
    assert main(["cc", str(source), "--target", "athread", "-o", str(out)]) == 0
    masters = [str(out / name) for name in ("conv.c", "conv_master.c")]
    flags = [f"-I{out}", "-DLW_LEAST_WORK=0"]
    slaves = [str(out / "conv_slave.c")]
    done = run_athread(masters, slaves, SW, flags=flags, profile=True, timeout=600)
    assert done.trace is not None
    file = read_c(source)
    found = optimise_region(file, file.regions[0], mesh_planner, SW, target="athread").mesh
    assert found is not None
    team = team_of_function(found, {}, SW)
    assert requests((team,)) == requests(done.trace.teams)
    weights = [
        event.request
        for events in team.cores.values()
        for event, _ in each_event(events)
        if event.request is not None and event.place == "w"
    ]
    assert weights
    assert {request.blocks for request in weights} == {1}
    assert min(request.block_bytes for request in weights) >= 5 * 3 * 3 * 4


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


def _part(work: float) -> Repeated:
    block = DmaRequest(16, 512, 4096)
    wait = CoreEvent(CoreEventKind.WAIT, CoreWork(work), "", -1)
    ask = CoreEvent(CoreEventKind.REQUEST, CoreWork(), "", -1, request=block)
    return Repeated(400, (wait, ask))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("work", [10.0, 30_000.0, 70_000.0])
def test_cores_of_different_pace_are_counted_well(work: float) -> None:
    parts = {core: (_part(work * (1 + core % 5 / 40)),) for core in range(64)}
    team = TeamRun("m.c:1", parts)
    counted, played = predict_teams(SW, [team]), predict_teams(SW, [_written_out(team)])
    assert counted.cycles == pytest.approx(played.cycles, rel=0.01)
    assert counted.dma_cycles == pytest.approx(played.dma_cycles, rel=1e-6)


def test_a_missing_size_is_named() -> None:
    with pytest.raises(UsageError) as error:
        team_of_function(function("gemm"), {"ni": 64, "nj": 64}, SW)
    assert str(error.value) == "the value of 'nk' is missing\ntry: values of ni, nj, nk"
