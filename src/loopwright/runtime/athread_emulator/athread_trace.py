"""The trace of a run on the emulator: read, counted, priced.

One line for each event (native/faults.c): its kind, the CPE, the work since the event before, what
belongs to the kind, and the place in the source.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from loopwright.diagnostics import InternalError
from loopwright.ir.mesh_machine import MeshMachine
from loopwright.lazy_dataclass import dataclass
from loopwright.machines.dma_model import DmaRequest, request_service_cycles
from loopwright.machines.mesh_timeline import (
    CoreEvent,
    CoreEventKind,
    CoreWork,
    TeamRun,
    each_event,
)
from loopwright.tables import table_lines

__all__ = ["AthreadCounts", "Trace", "count_events", "profile_lines", "read_trace"]

_KINDS = {
    "q": CoreEventKind.REQUEST,
    "w": CoreEventKind.WAIT,
    "b": CoreEventKind.BARRIER,
    "s": CoreEventKind.SEND,
    "r": CoreEventKind.RECEIVE,
    "e": CoreEventKind.END,
}
_FIELDS = {"q": 8, "w": 1, "b": 3, "s": 2, "r": 2, "e": 1}


@dataclass(frozen=True, slots=True)
class Trace:
    """What all teams of a run did, one team after another."""

    teams: tuple[TeamRun, ...]
    ldm_bytes: int  # of the CPE that used most


@dataclass(frozen=True, slots=True)
class AthreadCounts:
    """How often a run did what."""

    teams: int
    requests: int
    blocks: int
    bytes: int
    remote_requests: int  # from LDM to LDM
    flops: int
    global_accesses: int
    barriers: int  # arrivals of CPEs
    messages: int


def read_trace(path: Path) -> Trace:
    """The trace in a file that the emulator wrote."""
    teams: list[TeamRun] = []
    events: dict[int, list[CoreEvent]] = {}
    place, most = "", 0
    with path.open(encoding="utf-8", errors="replace") as file:
        if not file.readline().startswith("T 1 "):
            raise InternalError(f"{path} is no trace of the emulator")
        for line in file:
            kind = line[0]
            if kind == "S":
                place = line.rstrip("\n").split(" ", 2)[2]
            elif kind == "J":
                teams.append(_team(place, events))
                events = {}
            else:
                core, event = _event(line.rstrip("\n"))
                events.setdefault(core, []).append(event)
                most = max(most, event.scratchpad)
    if events:
        teams.append(_team(place, events))
    return Trace(tuple(teams), most)


def _team(place: str, events: dict[int, list[CoreEvent]]) -> TeamRun:
    return TeamRun(place, {core: tuple(found) for core, found in events.items()})


def _event(line: str) -> tuple[int, CoreEvent]:
    kind = line[0]
    parts = line.split(" ", 7 + _FIELDS[kind])
    core, quarters, memory, direct, flops, cycles = map(int, parts[1:7])
    stall = max(0.0, cycles / 4 - max(quarters / 4, memory))
    work = CoreWork(quarters / 4, memory, direct, flops, stall)
    place, rest = parts[-1], parts[7:-1]
    if kind == "q":
        return core, _request(work, place, rest)
    if kind == "b":
        scope, group, count = map(int, rest)
        return core, CoreEvent(_KINDS[kind], work, place, (scope, group), count)
    if kind == "e":
        return core, CoreEvent(_KINDS[kind], work, place, scratchpad=int(rest[0]))
    count = int(rest[1]) if kind in "sr" else 1
    return core, CoreEvent(_KINDS[kind], work, place, int(rest[0]), count)


def _request(work: CoreWork, place: str, rest: list[str]) -> CoreEvent:
    name = rest[1]
    number, blocks, size, gap, offset = (int(rest[i]) for i in (0, 2, 3, 4, 5))
    receivers = max(1, int(rest[7]))
    if name.startswith("rma"):
        return CoreEvent(CoreEventKind.REQUEST, work, place, number, bytes=blocks * size)
    request = DmaRequest(blocks, size, gap, name == "put", offset, receivers)
    return CoreEvent(CoreEventKind.REQUEST, work, place, number, request=request)


def _events(trace: Trace) -> Iterator[tuple[CoreEvent, int]]:
    """Every event, and how often it happens."""
    for team in trace.teams:
        for events in team.cores.values():
            yield from each_event(events)


def count_events(trace: Trace) -> AthreadCounts:
    """Add up what all CPEs did."""
    kinds: Counter[CoreEventKind] = Counter()
    blocks = size = remote = flops = direct = messages = 0
    for event, times in _events(trace):
        kinds[event.kind] += times
        flops += times * event.work.flops
        direct += times * event.work.global_accesses
        messages += times * event.members if event.kind is CoreEventKind.SEND else 0
        if event.request is not None:
            blocks += times * event.request.blocks
            size += times * event.request.bytes
        elif event.kind is CoreEventKind.REQUEST:
            remote += times
    return AthreadCounts(
        teams=len(trace.teams),
        requests=kinds[CoreEventKind.REQUEST] - remote,
        blocks=blocks,
        bytes=size,
        remote_requests=remote,
        flops=flops,
        global_accesses=direct,
        barriers=kinds[CoreEventKind.BARRIER],
        messages=messages,
    )


def profile_lines(trace: Trace, machine: MeshMachine) -> list[str]:
    """A table of the lines that make requests: how many, how large, how much of the queue."""
    rows: dict[tuple[str, DmaRequest], int] = {}
    for event, times in _events(trace):
        if event.request is not None:
            r = event.request
            same = DmaRequest(r.blocks, r.block_bytes, r.gap, r.is_put, 0, r.receivers)
            rows[event.place, same] = rows.get((event.place, same), 0) + times
    head = ("line", "kind", "requests", "blocks", "bytes", "gap", "cycles", "GB/s")
    table = [head]
    for (place, request), count in sorted(rows.items(), key=lambda item: (item[0][0], -item[1])):
        cycles = request_service_cycles(machine, request)
        rate = request.bytes / cycles * machine.frequency_hz / 1e9
        kind = "put" if request.is_put else "broadcast" if request.receivers > 1 else "get"
        table.append(
            (
                place,
                kind,
                str(count),
                str(request.blocks),
                str(request.block_bytes),
                str(request.gap),
                f"{cycles:.0f}",
                f"{rate:.1f}",
            )
        )
    return table_lines(table, numbers=True) if len(table) > 1 else []
