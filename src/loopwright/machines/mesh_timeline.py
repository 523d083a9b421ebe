"""The time that a core group would take for a recorded run: cores, their queue of DMA, barriers.

Each core has a list of events in the order of its program, with the work that it did before each.
Requests are served in the order in which they are made, by one queue; a core that waits for a
request goes on when it is done. The result is what overlaps overlapped, as the program arranges it.

A list may have parts that are repeated (`Repeated`), and then not every repetition is played. When
the group is in a state in which it was before, relative to the time, it goes through the same
states again. When every core has found its pace, rounds of equal length to 1% though not of the
same length on all cores, they all keep it until one of them leaves its part. So the time of
large sizes is found nearly as fast as that of small ones. After half a million events the rest is
reckoned: the queue and the slowest core have as much idle time for their work as they had so far.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from loopwright.ir.mesh_machine import MeshMachine
from loopwright.lazy_dataclass import dataclass
from loopwright.machines.dma_model import DmaRequest, request_service_cycles

__all__ = [
    "FROM_BEFORE",
    "OWN_COLUMN",
    "OWN_ROW",
    "TO_NEXT",
    "CoreEvent",
    "CoreEventKind",
    "CoreWork",
    "MeshPrediction",
    "Repeated",
    "TeamRun",
    "each_event",
    "predict_teams",
]

# Bytes that a pair of cores moves in a cycle by remote access: 64 KiB on SW39000 (sw_test reports).
_REMOTE_BYTES_PER_CYCLE = 24.5


class CoreEventKind(Enum):
    """What a core does between two pieces of work."""

    # A key below 0 is a counter of the core's own: a wait is for all that were counted there.
    REQUEST = "request"  # key: its number
    WAIT = "wait"  # for the request of number `key`
    BARRIER = "barrier"  # key: which group; the row or column of the core for OWN_ROW, OWN_COLUMN
    EXCHANGE = "exchange"  # a group, by its key, passes registers: who has them all goes on
    WORK = "work"  # nothing but the work before it
    SEND = "send"  # key: number of the message, or of a run of some
    RECEIVE = "receive"
    END = "end"


OWN_ROW, OWN_COLUMN = (0, -1), (1, -1)
# First parts of keys of a core and the next one, or the one before, in a circle of so many cores.
TO_NEXT, FROM_BEFORE = -2, -3


class CoreWork(NamedTuple):
    """Work of a core, as its pipelines count it."""

    vector_slots: float = 0.0  # of the pipeline of floating-point numbers
    memory_slots: int = 0  # of the pipeline of loads, stores and branches
    global_accesses: int = 0  # to main memory without DMA
    flops: int = 0
    # Beyond the slots of the fuller pipeline: chains of sums, loops that fill either one.
    stall_cycles: float = 0.0


class CoreEvent(NamedTuple):
    """One event of a core."""

    kind: CoreEventKind
    work: CoreWork  # since the event before
    place: str  # file:line
    key: int | tuple[int, int] = 0
    members: int = 1  # of a barrier, or messages of a run
    request: DmaRequest | None = None  # None: from core to core
    bytes: int = 0  # of a request from core to core
    scratchpad: int = 0  # bytes of it that were used at most, at the end


class Repeated(NamedTuple):
    """Events of a core, so many times in turn."""

    rounds: int
    events: tuple[CoreEvent | Repeated, ...]


class TeamRun(NamedTuple):
    """What the cores did between one spawn and its join."""

    place: str  # of the spawn
    cores: Mapping[int, tuple[CoreEvent | Repeated, ...]]


def each_event(
    events: Iterable[CoreEvent | Repeated], times: int = 1
) -> Iterator[tuple[CoreEvent, int]]:
    """Every event that is written down, with how often it happens."""
    for event in events:
        if isinstance(event, Repeated):
            yield from each_event(event.events, times * event.rounds)
        else:
            yield event, times


@dataclass(frozen=True, slots=True)
class MeshPrediction:
    """Predicted cycles of a run, and where they go."""

    cycles: float
    launch_cycles: float
    dma_cycles: float  # in which the queue was busy
    vector_cycles: float  # of the core with most, as are the next three
    memory_cycles: float
    global_cycles: float
    stall_cycles: float
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
            "pipelines that wait for each other": self.stall_cycles,
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
        stall_cycles=sum(run.most[3] for run in runs),
        flops=sum(run.flops for run in runs),
        seconds=cycles / machine.frequency_hz,
        peak_flops=machine.peak_flops("float64"),
    )


class _Cursor:
    """Where a core is in its events: parts that are repeated inside of one another."""

    __slots__ = ("at", "events", "left", "starts")

    def __init__(self, events: tuple[CoreEvent | Repeated, ...]) -> None:
        self.events = [events]
        self.at = [0]  # the next event, for each part
        self.left = [1]  # rounds of it, this one included
        self.starts: list[list[float]] = [[]]  # when its last rounds began

    def next(self, now: float) -> tuple[CoreEvent | None, bool]:
        """The next event, and whether a round of a part has begun; None at the end."""
        is_new_round = False
        while self.events:
            here = self.at[-1]
            if here == len(self.events[-1]):
                if self.left[-1] > 1:
                    self.left[-1] -= 1
                    self.at[-1] = 0
                    starts = self.starts[-1]
                    starts.append(now)
                    if len(starts) > 4 * _PACE:
                        del starts[: -2 * _PACE - 1]
                    is_new_round = True
                else:
                    self.events.pop()
                    self.at.pop()
                    self.left.pop()
                    self.starts.pop()
                continue
            event = self.events[-1][here]
            self.at[-1] = here + 1
            if isinstance(event, CoreEvent):
                return event, is_new_round
            if event.rounds > 0 and event.events:
                self.events.append(event.events)
                self.at.append(0)
                self.left.append(event.rounds)
                self.starts.append([])
        return None, is_new_round

    def pace(self) -> tuple[int, float] | None:
        """The part of which most is left, of those with an even pace, and cycles of a round."""
        best = None
        for level, starts in enumerate(self.starts):
            if len(starts) <= 2 * _PACE or self.left[level] < 2:
                continue
            late = (starts[-1] - starts[-1 - _PACE]) / _PACE
            early = (starts[-1 - _PACE] - starts[-1 - 2 * _PACE]) / _PACE
            is_longer = best is None or self.left[level] * late > self.left[best[0]] * best[1]
            if late > 0 and abs(late - early) <= 0.01 * late and is_longer:
                best = level, late
        return best

    @property
    def place(self) -> tuple[tuple[int, int], ...]:
        """Where it is, without how many rounds are left."""
        return tuple((id(part), at) for part, at in zip(self.events, self.at, strict=True))


_MEETINGS = (
    CoreEventKind.BARRIER,
    CoreEventKind.EXCHANGE,
    CoreEventKind.SEND,
    CoreEventKind.RECEIVE,
)


class _Seen(NamedTuple):
    """When a state was met, and what was left to do."""

    now: float
    queue_busy: float
    left: dict[int, tuple[int, ...]]


_MOST_SEEN = 512  # states that are kept to be met again
_PACE = 4  # rounds of a part that are compared with as many before
_MOST_EVENTS = 500_000  # of a team that are played
_LEAST_ROUNDS = 6  # that are worth to be counted and not played


class _Timeline:
    """One team: the event of the earliest core is taken, until all have ended."""

    def __init__(self, machine: MeshMachine, team: TeamRun) -> None:
        self._machine = machine
        self._cursors = {core: _Cursor(events) for core, events in team.cores.items()}
        self._event: dict[int, CoreEvent] = {}  # that each core works towards
        self._ready: list[tuple[float, int]] = []
        self._queue_free = 0.0
        self._done: dict[tuple[str, int, int], float] = {}  # when requests and messages arrive
        self._waiting: defaultdict[tuple[str, int, int], list[tuple[float, int]]]
        self._waiting = defaultdict(list)
        self._arrived: defaultdict[object, list[tuple[float, int]]] = defaultdict(list)
        self._leader = -1  # whose rounds are times to compare states
        self._is_new_round = False
        self._rounds = 0  # of the leader
        self._met: dict[int, int] = {}  # meetings in a part, by its identity
        self._seen: dict[object, _Seen] = {}
        self._service: dict[DmaRequest, float] = {}
        self.queue_busy = 0.0
        self.end = 0.0
        self.flops = 0
        self._access = machine.global_access_cycles or machine.dma_latency or 0.0
        # Cores that do the same share their events: they are added up once.
        known: dict[int, tuple[float, float, float, float, int, float]] = {}
        for events in team.cores.values():
            if id(events) not in known:
                known[id(events)] = self._totals(events)
            self.flops += known[id(events)][4]
        self._total = {core: known[id(events)][5] for core, events in team.cores.items()}
        self.most = tuple(
            max((found[k] for found in known.values()), default=0.0) for k in range(4)
        )

    def _totals(
        self, events: tuple[CoreEvent | Repeated, ...]
    ) -> tuple[float, float, float, float, int, float]:
        """Cycles of both pipelines, of direct access and of stalls, flops, and all cycles."""
        vector = memory = direct = stalls = cycles = 0.0
        flops = 0
        for event, times in each_event(events):
            work = event.work
            vector += times * work.vector_slots
            memory += times * work.memory_slots
            direct += times * work.global_accesses * self._access
            stalls += times * work.stall_cycles
            flops += times * work.flops
            cycles += times * self._cycles(work)
        return vector, memory, direct, stalls, flops, cycles

    def run(self) -> _Timeline:
        for core in self._cursors:
            self._advance(core, 0.0)
        for _ in range(_MOST_EVENTS):
            if not self._ready:
                assert not self._cursors, "a core waits for what never comes"
                return self
            if self._is_new_round:
                self._is_new_round = False
                self._rounds += 1
                if not self._skip_rounds() and self._rounds % _PACE == 0:
                    self._keep_pace()
            now, core = heapq.heappop(self._ready)
            self._act(core, now)
        self._reckon()
        return self

    def _reckon(self) -> None:
        """The end of a run that is too long to be played."""
        now = self._ready[0][0]
        left = {core: self._left(cursor) for core, cursor in self._cursors.items()}
        busy = sum(queue for queue, _ in left.values())
        work = max(cycles for _, cycles in left.values())
        done = max(self._total[core] - cycles for core, (_, cycles) in left.items())
        idle = now / max(self.queue_busy, done, 1.0)
        self.end = max(self.end, now + idle * max(busy, work))
        self.queue_busy += busy

    def _left(self, cursor: _Cursor) -> tuple[float, float]:
        """Cycles of the queue and of a core for what it has not done yet."""
        busy = work = 0.0
        for part, at, rounds in zip(cursor.events, cursor.at, cursor.left, strict=True):
            for events, times in ((part[at:], 1), (part, rounds - 1)):
                if times and events:
                    busy += times * self._busy_of(events)
                    work += times * self._cycles_of(events)
        return busy, work

    def _cycles_of(self, events: tuple[CoreEvent | Repeated, ...]) -> float:
        """Cycles of a core's work, without waiting."""
        return sum(times * self._cycles(event.work) for event, times in each_event(events))

    def _cycles(self, work: CoreWork) -> float:
        slots = max(work.vector_slots, float(work.memory_slots)) + work.stall_cycles
        return slots + work.global_accesses * self._access

    def _advance(self, core: int, now: float) -> None:
        """Let a core work until its next event."""
        cursor = self._cursors[core]
        event, is_new_round = cursor.next(now)
        if event is None:
            self.end = max(self.end, now)
            del self._cursors[core]
            if core == self._leader:
                self._leader = -1
            return
        if is_new_round and self._leader in (-1, core):
            self._leader = core
            self._is_new_round = True
        elif core == self._leader and len(cursor.left) == 1:
            self._leader = -1
        self._event[core] = event
        heapq.heappush(self._ready, (now + self._cycles(event.work), core))

    def _act(self, core: int, now: float) -> None:
        event, machine = self._event[core], self._machine
        kind = event.kind
        if kind is CoreEventKind.REQUEST:
            self._arrive(_key("request", core, event), self._served(event, now))
            self._advance(core, now + 1)
        elif kind is CoreEventKind.SEND:
            # A message takes a slot of memory, which its work counts; the last one arrives last.
            self._arrive(_key("message", core, event), now + machine.exchange_latency)
            self._advance(core, now)
        elif kind in (CoreEventKind.WAIT, CoreEventKind.RECEIVE):
            key = _key("request" if kind is CoreEventKind.WAIT else "message", core, event)
            if key in self._done:
                self._advance(core, max(now, self._done[key]))
            elif key[1] >= 0:
                self._advance(core, now)  # nothing was counted
            else:
                self._waiting[key].append((now, core))
        elif kind in (CoreEventKind.BARRIER, CoreEventKind.EXCHANGE):
            where = kind, self._group(core, event)
            group = self._arrived[where]
            group.append((now, core))
            if len(group) == event.members:
                is_barrier = kind is CoreEventKind.BARRIER
                cost = (machine.barrier_cycles or 0.0) if is_barrier else machine.exchange_latency
                last = max(time for time, _ in group) + cost
                for _, member in self._arrived.pop(where):
                    self._advance(member, last)
        else:
            self._advance(core, now)

    def _group(self, core: int, event: CoreEvent) -> object:
        """Those that meet: all who name them so, or a row or column of the mesh."""
        row, column = divmod(core, self._machine.columns)
        if event.key == OWN_ROW:
            return 0, row
        if isinstance(event.key, tuple) and event.key[0] in (TO_NEXT, FROM_BEFORE):
            word, cores = event.key
            back = self._machine.columns - 1 - column
            number = row * self._machine.columns + (back if row % 2 else column)
            return TO_NEXT, (number - (word == FROM_BEFORE)) % cores
        return (1, column) if event.key == OWN_COLUMN else event.key

    def _served(self, event: CoreEvent, now: float) -> float:
        """When the data of a request are there; the queue takes it as soon as it is free."""
        machine, request = self._machine, event.request
        if request is None:
            return now + machine.exchange_latency + event.bytes / _REMOTE_BYTES_PER_CYCLE
        service = self._service_of(request)
        self._queue_free = max(self._queue_free, now) + service
        self.queue_busy += service
        return max(self._queue_free, now + (machine.dma_latency or 0.0) + service)

    def _service_of(self, request: DmaRequest) -> float:
        found = self._service.get(request)
        if found is None:
            found = self._service[request] = request_service_cycles(self._machine, request)
        return found

    def _arrive(self, key: tuple[str, int, int], when: float) -> None:
        if key[1] >= 0:  # a counter of the core's: all requests that it counts
            when = max(when, self._done.get(key, 0.0))
        self._done[key] = when
        for since, core in self._waiting.pop(key, ()):
            self._advance(core, max(since, when))

    # -- repetitions ------------------------------------------------------------------------------

    def _skip_rounds(self) -> bool:
        """Where the group is in a state in which it was before: count the rounds in between.

        Of every core the same part is repeated until one of them comes to its last round.
        """
        now = self._ready[0][0]
        state = self._state(now)
        left = {core: tuple(cursor.left) for core, cursor in self._cursors.items()}
        before = self._seen.get(state)
        if len(self._seen) >= _MOST_SEEN:
            self._seen.clear()
        self._seen[state] = _Seen(now, self.queue_busy, left)
        if before is None or before.now >= now:
            return False
        rounds: list[tuple[int, int, int]] = []
        for core, counts in left.items():
            pairs = zip(before.left[core], counts, strict=True)
            levels = [k for k, (then, still) in enumerate(pairs) if then != still]
            if len(levels) > 1:
                return False
            rounds += [(core, k, before.left[core][k] - counts[k]) for k in levels]
        if not rounds or any(done < 0 for _, _, done in rounds):
            return False
        skipped = min((left[core][k] - 1) // done for core, k, done in rounds)
        if skipped < 1:
            return False
        for core, k, done in rounds:
            self._cursors[core].left[k] -= skipped * done
        self.queue_busy += skipped * (self.queue_busy - before.queue_busy)
        delays = dict.fromkeys(self._cursors, skipped * (now - before.now))
        self._postpone(delays, {core: k for core, k, _ in rounds})
        self._queue_free += skipped * (now - before.now)
        return True

    def _keep_pace(self) -> None:
        """Where every core that is not held up has an even pace: count rounds at that pace.

        Where cores meet in the rounds, all of them are in such a part and go as many rounds.
        """
        cursors = self._cursors
        paces: dict[int, tuple[int, float]] = {}
        for _, core in self._ready:
            found = cursors[core].pace()
            if found is None:
                return
            paces[core] = found
        meetings = {self._meetings(cursors[core].events[k]) for core, (k, _) in paces.items()}
        is_joint = meetings != {0}
        if is_joint:
            for core, cursor in cursors.items():
                found = paces.get(core) or cursor.pace()
                if found is None:
                    return
                paces[core] = found
                meetings.add(self._meetings(cursor.events[found[0]]))
            most, least = (f(pace for _, pace in paces.values()) for f in (max, min))
            if len(meetings) > 1 or most - least > 0.001 * most:
                return
        longest = max(pace for _, pace in paces.values())
        span = min((cursors[core].left[k] - 1) * pace for core, (k, pace) in paces.items())
        if span < _LEAST_ROUNDS * longest:
            return
        delays = dict.fromkeys(cursors, 0.0)
        for core, (k, pace) in paces.items():
            rounds = int(span / (longest if is_joint else pace))
            cursors[core].left[k] -= rounds
            delays[core] = rounds * (longest if is_joint else pace)
            self.queue_busy += rounds * self._busy_of(cursors[core].events[k])
        self._postpone(delays, {core: k for core, (k, _) in paces.items()})
        self._queue_free += span

    def _meetings(self, part: tuple[CoreEvent | Repeated, ...]) -> int:
        """How often a core meets others in one round of a part."""
        if id(part) not in self._met:
            self._met[id(part)] = sum(
                times for event, times in each_event(part) if event.kind in _MEETINGS
            )
        return self._met[id(part)]

    def _busy_of(self, part: tuple[CoreEvent | Repeated, ...]) -> float:
        """Cycles of the queue for one round of a part."""
        return sum(
            times * self._service_of(event.request)
            for event, times in each_event(part)
            if event.request is not None
        )

    def _state(self, now: float) -> object:
        """The state of the group, relative to a time: equal ones have the same future."""

        def since(when: float) -> float:
            return round(max(when - now, 0.0), 2)

        return (
            tuple((core, cursor.place) for core, cursor in self._cursors.items()),
            tuple(sorted((core, since(when)) for when, core in self._ready)),
            tuple((key, tuple(found)) for key, found in self._waiting.items() if found),
            tuple(
                (key, tuple((core, since(when)) for when, core in group))
                for key, group in self._arrived.items()
                if group
            ),
            tuple((key, since(when)) for key, when in self._done.items()),
            since(self._queue_free),
        )

    def _postpone(self, by: Mapping[int, float], levels: Mapping[int, int]) -> None:
        """Let what the cores have on their way happen later; `levels` are the parts they are in."""
        self._ready = [(when + by[core], core) for when, core in self._ready]
        heapq.heapify(self._ready)
        self._done = {key: when + by.get(key[1], 0.0) for key, when in self._done.items()}
        for found in (*self._waiting.values(), *self._arrived.values()):
            found[:] = [(when + by[core], core) for when, core in found]
        for core, cursor in self._cursors.items():
            for starts in cursor.starts[levels.get(core, len(cursor.starts)) :]:
                starts[:] = [when + by[core] for when in starts]


def _key(name: str, core: int, event: CoreEvent) -> tuple[str, int, int]:
    """A number that all cores know, or a core's own counter, which is below 0."""
    assert isinstance(event.key, int)
    return (name, core, event.key) if event.key < 0 else (name, -1, event.key)
