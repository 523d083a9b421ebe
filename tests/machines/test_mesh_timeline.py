"""Recorded runs in time: queues, waits, barriers, messages, and what bounds them."""

from __future__ import annotations

import pytest

from loopwright.machines.dma_model import DmaRequest, request_service_cycles
from loopwright.machines.load_mesh import load_mesh
from loopwright.machines.mesh_timeline import (
    CoreEvent,
    CoreEventKind,
    CoreWork,
    TeamRun,
    predict_teams,
)

SW = load_mesh("sw26010")
BLOCK = DmaRequest(1, 8192)
SERVICE = request_service_cycles(SW, BLOCK)


def _request(number: int, work: CoreWork = CoreWork()) -> CoreEvent:  # noqa: B008, it is frozen
    return CoreEvent(CoreEventKind.REQUEST, work, "a.c:1", number, request=BLOCK)


def _wait(number: int, work: CoreWork = CoreWork()) -> CoreEvent:  # noqa: B008
    return CoreEvent(CoreEventKind.WAIT, work, "a.c:2", number)


def _end(work: CoreWork = CoreWork()) -> CoreEvent:  # noqa: B008
    return CoreEvent(CoreEventKind.END, work, "a.c:3")


def _cycles(cores: dict[int, tuple[CoreEvent, ...]]) -> float:
    return predict_teams(SW, [TeamRun("m.c:1", cores)]).cycles - SW.launch_cycles


def test_one_request_takes_its_latency() -> None:
    assert _cycles({0: (_request(1), _wait(1), _end())}) == pytest.approx(350 + SERVICE)


def test_requests_of_many_cores_queue_up() -> None:
    cores = {c: (_request(c), _wait(c), _end()) for c in range(64)}
    found = predict_teams(SW, [TeamRun("m.c:1", cores)])
    assert found.cycles - SW.launch_cycles == pytest.approx(64 * SERVICE)
    assert found.dma_cycles == pytest.approx(64 * SERVICE)
    assert found.bound == ("the queue of DMA requests", pytest.approx(64 * SERVICE / found.cycles))


def test_a_barrier_waits_for_the_last() -> None:
    slow = CoreWork(memory_slots=700)
    barrier = CoreEvent(CoreEventKind.BARRIER, CoreWork(), "a.c:4", (2, 0), 2)
    late = barrier._replace(work=slow)
    assert _cycles({0: (barrier, barrier, _end()), 1: (late, barrier, _end())}) == 700 + 2 * 15


def test_teams_run_in_turn_and_flops_count() -> None:
    work = CoreWork(vector_slots=1e6, memory_slots=10, flops=8_000_000)
    team = TeamRun("m.c:1", {c: (_end(work),) for c in range(64)})
    found = predict_teams(SW, [team, team])
    assert found.cycles == pytest.approx(2 * (1e6 + 36000))
    assert found.share_of_peak == pytest.approx(1e6 / 1.036e6)
    assert found.bound[0] == "arithmetic"


def test_direct_access_is_slow() -> None:
    work = CoreWork(memory_slots=1000, global_accesses=1000)
    found = predict_teams(SW, [TeamRun("m.c:1", {0: (_end(work),)})])
    assert found.cycles == pytest.approx(36000 + 281000)
    assert found.bound[0] == "direct access to main memory"
