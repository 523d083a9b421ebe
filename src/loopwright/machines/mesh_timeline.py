"""The time that a core group would take for a recorded run: cores, their queue of DMA, barriers.

Each core has a list of events in the order of its program, with the work that it did before each.
Requests are served in the order in which they are made, by one queue; a core that waits for a
request goes on when it is done. The result is what overlaps overlapped, as the program arranges it.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from loopwright.ir.mesh_machine import MeshMachine
from loopwright.lazy_dataclass import dataclass
from loopwright.machines.dma_model import DmaRequest, request_service_cycles

__all__ = ["CoreEvent", "CoreEventKind", "CoreWork", "MeshPrediction", "TeamRun", "predict_teams"]

# Bytes that a pair of cores moves in a cycle by remote access: 64 KiB on SW39000 (sw_test reports).
_REMOTE_BYTES_PER_CYCLE = 24.5


class CoreEventKind(Enum):
    """What a core does between two pieces of work."""

    REQUEST = "request"  # key: its number
    WAIT = "wait"  # for the request of number `key`
    BARRIER = "barrier"  # key: which group
    SEND = "send"  # key: number of the message
    RECEIVE = "receive"
    END = "end"


class CoreWork(NamedTuple):
    """Work of a core, as its pipelines count it."""

    vector_slots: float = 0.0  # of the pipeline of floating-point numbers
    memory_slots: int = 0  # of the pipeline of loads, stores and branches
    global_accesses: int = 0  # to main memory without DMA
    flops: int = 0


class CoreEvent(NamedTuple):
    """One event of a core."""

    kind: CoreEventKind
    work: CoreWork  # since the event before
    place: str  # file:line
    key: int | tuple[int, int] = 0
    members: int = 1  # of a barrier
    request: DmaRequest | None = None  # None: from core to core
    bytes: int = 0  # of a request from core to core
    scratchpad: int = 0  # bytes of it that were used at most, at the end


class TeamRun(NamedTuple):
    """What the cores did between one spawn and its join."""

    place: str  # of the spawn
    cores: dict[int, tuple[CoreEvent, ...]]


@dataclass(frozen=True, slots=True)
class MeshPrediction:
    """Predicted cycles of a run, and where they go."""

    cycles: float
    launch_cycles: float
    dma_cycles: float  # in which the queue was busy
    vector_cycles: float  # of the core with most, as are the next two
    memory_cycles: float
    global_cycles: float
    flops: int
    seconds: float
    peak_flops: float

    @property
    def flops_per_second(self) -> float:
        """Floating operations in a second of the group."""
        return self.flops / self.seconds if self.seconds else 0.0

    @property
    def share_of_peak(self) -> float:
        """Of what the group can do at most."""
        return self.flops_per_second / self.peak_flops

    @property
    def bound(self) -> tuple[str, float]:
        """What takes the largest part of the time, and that part."""
        parts = {
            "the queue of DMA requests": self.dma_cycles,
            "arithmetic": self.vector_cycles,
            "loads, stores and branches": self.memory_cycles,
            "direct access to main memory": self.global_cycles,
            "starting the cores": self.launch_cycles,
        }
        name = max(parts, key=lambda key: parts[key])
        share = parts[name] / self.cycles if self.cycles else 0.0
        return (
            (name, share)
            if share >= 0.5
            else ("waiting: latency, barriers, uneven work", 1 - share)
        )


def predict_teams(machine: MeshMachine, teams: Sequence[TeamRun]) -> MeshPrediction:
    """Predict the time of teams that run one after another."""
    runs = [_Timeline(machine, team).run() for team in teams]
    launch = machine.launch_cycles * len(teams)
    cycles = launch + sum(run.end for run in runs)
    return MeshPrediction(
        cycles=cycles,
        launch_cycles=launch,
        dma_cycles=sum(run.queue_busy for run in runs),
        vector_cycles=sum(run.most[0] for run in runs),
        memory_cycles=sum(run.most[1] for run in runs),
        global_cycles=sum(run.most[2] for run in runs),
        flops=sum(run.flops for run in runs),
        seconds=cycles / machine.frequency_hz,
        peak_flops=machine.peak_flops("float64"),
    )


class _Timeline:
    """One team: the event of the earliest core is taken, until all have ended."""

    def __init__(self, machine: MeshMachine, team: TeamRun) -> None:
        self._machine = machine
        self._cores = team.cores
        self._next = dict.fromkeys(team.cores, 0)
        self._ready: list[tuple[float, int]] = []
        self._queue_free = 0.0
        self._done: dict[tuple[str, int], float] = {}  # requests and messages: when they arrive
        self._waiting: defaultdict[tuple[str, int], list[tuple[float, int]]] = defaultdict(list)
        self._arrived: defaultdict[object, list[tuple[float, int]]] = defaultdict(list)
        self.queue_busy = 0.0
        self.end = 0.0
        self.flops = sum(e.work.flops for events in team.cores.values() for e in events)
        access = machine.global_access_cycles or machine.dma_latency or 0.0
        self._access = access
        totals = [
            (
                sum(e.work.vector_slots for e in events),
                float(sum(e.work.memory_slots for e in events)),
                access * sum(e.work.global_accesses for e in events),
            )
            for events in team.cores.values()
        ]
        self.most = tuple(max(column, default=0.0) for column in zip(*totals, strict=True))

    def run(self) -> _Timeline:
        for core in self._cores:
            self._advance(core, 0.0)
        while self._ready:
            now, core = heapq.heappop(self._ready)
            self._act(core, now)
        return self

    def _advance(self, core: int, now: float) -> None:
        """Let a core work until its next event."""
        events, at = self._cores[core], self._next[core]
        if at == len(events):
            self.end = max(self.end, now)
            return
        work = events[at].work
        slots = max(work.vector_slots, float(work.memory_slots))
        cycles = slots + work.global_accesses * self._access
        heapq.heappush(self._ready, (now + cycles, core))

    def _act(self, core: int, now: float) -> None:
        event = self._cores[core][self._next[core]]
        self._next[core] += 1
        kind, machine = event.kind, self._machine
        if kind is CoreEventKind.REQUEST:
            self._arrive(("request", _number(event)), self._served(event, now))
            self._advance(core, now + 1)
        elif kind is CoreEventKind.SEND:
            self._arrive(("message", _number(event)), now + machine.exchange_latency)
            self._advance(core, now + 1)
        elif kind in (CoreEventKind.WAIT, CoreEventKind.RECEIVE):
            name = "request" if kind is CoreEventKind.WAIT else "message"
            key = (name, _number(event))
            if key in self._done:
                self._advance(core, max(now, self._done[key]))
            else:
                self._waiting[key].append((now, core))
        elif kind is CoreEventKind.BARRIER:
            group = self._arrived[event.key]
            group.append((now, core))
            if len(group) == event.members:
                last = max(time for time, _ in group) + (machine.barrier_cycles or 0.0)
                for _, member in self._arrived.pop(event.key):
                    self._advance(member, last)
        else:
            self._advance(core, now)

    def _served(self, event: CoreEvent, now: float) -> float:
        """When the data of a request are there; the queue takes it as soon as it is free."""
        machine, request = self._machine, event.request
        if request is None:
            return now + machine.exchange_latency + event.bytes / _REMOTE_BYTES_PER_CYCLE
        service = request_service_cycles(machine, request)
        self._queue_free = max(self._queue_free, now) + service
        self.queue_busy += service
        return max(self._queue_free, now + (machine.dma_latency or 0.0) + service)

    def _arrive(self, key: tuple[str, int], when: float) -> None:
        self._done[key] = when
        for since, core in self._waiting.pop(key, ()):
            self._advance(core, max(since, when))


def _number(event: CoreEvent) -> int:
    assert isinstance(event.key, int)
    return event.key
