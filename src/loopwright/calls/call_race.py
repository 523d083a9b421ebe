"""A race between two codes of one call, run by the calls themselves.

    watched   calls run by the plan and are timed: short ones are never raced, and a race begins
              when there were eight calls that took 50 ms together
    making    a thread of its own makes the rival, another order; calls still run by the plan
    racing    calls run by the plan and by the rival in turn; no call runs twice, and nothing is
              copied: only times are compared
    settled   the faster one serves all further calls, and the race is out of their way

A rival may name another, which then meets the faster of the two: it is made, and races, likewise.

A trial may take long where the plan is good: it waits until the calls so far have taken as long as
the model expects it to take, so that a race costs at most about as much as was computed before.

There is no lock, which a handler of a signal might find taken by its own thread: calls that overlap
are noticed by their numbers, and their times do not count.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any, Protocol, TypeAlias

from loopwright import options
from loopwright.diagnostics import LoopwrightError, WrongTypeError
from loopwright.faults import FAULTS, survive
from loopwright.lazy_dataclass import dataclass
from loopwright.log import log
from loopwright.tuning.time_comparison import (
    FEWEST_PAIRS,
    LEAST_RACE_GAIN,
    TimeComparison,
    compared,
)
from loopwright.undisturbed import release_import_lock

__all__ = ["CallRace", "Rival", "Run", "checked_race", "in_background"]

Run: TypeAlias = Callable[..., None]

_SHORT = 20e-6  # seconds of calls that are never raced
_CALLS, _SECONDS = 8, 50e-3  # calls, and what they took together, before a race
_MOST_WATCHED = 4096  # calls after which a race that has not begun never will
_MOST_RACED = 200  # calls after which a race that nobody has won is over
_WARM_UP = 1  # times of each code that do not count
_MOST_PAIRS = 3 * FEWEST_PAIRS
_HOPELESS = 4.0  # times as long as the slowest call by the plan: the first trial is the last
_APART = 1.5  # two pairs are enough where all times of one code are so much longer
_TURNS = (0, 1, 1, 0)  # plan, rival, rival, plan: what drifts meets both alike
_clock = time.perf_counter
# What may go wrong in the background: nobody waits for it, and calls go on by the plan.
FAILURES = (EOFError, ImportError, LoopwrightError, MemoryError, OSError, RuntimeError, *FAULTS)
_MOST_THREADS = 4  # that make rivals or wait for their turn


@dataclass(frozen=True, slots=True)
class Rival:
    """The code that a plan is raced against."""

    run: Run
    name: str  # for people
    ratio: float  # how many times as long as the plan the model expects it to take
    keep: Callable[[TimeComparison], None]  # remembers how the rival did, the plan being the base
    # Makes the next one, once `keep` was called; None: this is the last, or there is no other.
    then: Callable[[], Rival | None] | None = None


def checked_race(race: object) -> bool | None:
    """What a user passes as race=; refuses all else than True, False and None."""
    if race is None or isinstance(race, bool):
        return race
    raise WrongTypeError("race is True, False or None", found=repr(race)[:60])


class Settle(Protocol):
    """Told the code that serves all further calls."""

    def __call__(self, run: Run, *, told: str) -> None: ...


class Start(Protocol):
    """Has work done in the background; False where that cannot be."""

    def __call__(self, work: Callable[[], None], *, at_exit: bool = False) -> bool: ...


class CallRace:
    """Serves calls while it is open which of two codes is the faster.

    `prepare` makes the rival, in another thread; None where there is none. `settle` is called once.
    """

    def __init__(
        self,
        plan: Run,
        prepare: Callable[[], Rival | None],
        settle: Settle,
        *,
        clock: Callable[[], float] | None = None,
        start: Start | None = None,
    ) -> None:
        self._plan = plan  # or the rival that has replaced it
        self._prepare: Callable[[], Rival | None] = prepare
        self._champion = "the plan"  # its name
        self._told: list[str] = []  # of the races so far
        self._undecided: list[Rival] = []  # whoever takes it out decides this race
        self._settle = settle
        self._clock = _clock if clock is None else clock
        self._start = in_background if start is None else start
        self._rival: Rival | None = None
        self._maker = 0  # the process whose thread makes the rival; 0: none does
        self._tickets = count()
        self._begun = self._ended = -1  # tickets
        self._calls = 0
        self._spent = 0.0
        self._shortest = math.inf
        self._recent: deque[float] = deque(maxlen=_CALLS)  # times of the plan
        self._trials = 0
        self._times: tuple[list[float], list[float]] = ([], [])  # plan, rival
        self._open = [True]  # whoever takes it out settles the race

    @property
    def is_settled(self) -> bool:
        return not self._open

    def __call__(self, *args: Any) -> None:
        """Run one of the codes, and time it."""
        rival = self._rival
        side = 0 if rival is None else self._turn(rival)
        ticket = next(self._tickets)
        is_alone = self._ended == ticket - 1
        self._begun = ticket
        run = self._plan if rival is None or not side else rival.run
        start = self._clock()
        try:
            run(*args)
        except BaseException:
            self._ended = ticket
            raise
        seconds = self._clock() - start
        is_alone = is_alone and self._begun == ticket
        self._ended = ticket
        if rival is None:
            self._watch(seconds, is_alone)
        else:
            self._race(rival, side, seconds, is_alone)

    # -- before the race --------------------------------------------------------------------------

    def _watch(self, seconds: float, is_alone: bool) -> None:
        self._calls += 1
        if self._maker:
            if self._maker != os.getpid():
                self._end("its maker stayed behind in the parent process")
            return
        if is_alone:
            self._spent += seconds
            self._shortest = min(self._shortest, seconds)
            self._recent.append(seconds)
        if self._shortest < _SHORT and self._calls >= 2:
            self._end("calls are short")
        elif self._calls >= _MOST_WATCHED:
            self._end("there was no time for it")
        elif self._calls >= _CALLS and self._spent >= _SECONDS:
            self._maker = os.getpid()
            if not self._start(self._make):
                self._maker = 0  # another call tries again

    def _make(self) -> None:
        """Make the rival; whatever goes wrong costs the race only."""
        told = "the rival could not be made"
        found: Rival | None = None
        try:
            found = self._prepare()
            told = "there is nothing to race"
        except FAILURES as error:
            _tell(error)
        finally:
            if found is None:
                self._end("" if self._told else told)
            else:
                self._undecided = [found]
        self._rival = found

    def _make_next(self, rival: Rival, outcome: TimeComparison) -> None:
        """Remember a race, and make the rival of the next one."""
        try:
            rival.keep(outcome)
        finally:
            self._make()

    # -- the race ---------------------------------------------------------------------------------

    def _turn(self, rival: Rival) -> int:
        """Which code serves the next call: 0 the plan, 1 the rival."""
        if self._calls < rival.ratio:
            return 0
        own, other = self._times
        return _TURNS[(len(own) + len(other)) % len(_TURNS)]

    def _race(self, rival: Rival, side: int, seconds: float, is_alone: bool) -> None:
        self._calls += 1
        if self._calls <= rival.ratio or rival is not self._rival:
            return  # too early, or another call has ended this race
        self._trials += 1
        if is_alone:
            self._times[side].append(seconds)
            winner = _winner(self._times, max(self._recent, default=math.inf))
            if winner is not None:
                self._finish(rival, winner)
                return
        if self._trials >= _MOST_RACED:
            self._end("there were many calls at once")

    def _finish(self, rival: Rival, winner: int) -> None:
        own, other = self._times
        first = _WARM_UP if min(len(own), len(other)) > _WARM_UP else 0
        base, times = own[first:] or list(self._recent), other[first:]
        found = compared(base, times, LEAST_RACE_GAIN)
        if found is None:
            self._end("the clock stood still")
            return
        outcome = TimeComparison(
            found.base_seconds, found.seconds, found.gain, found.noise, bool(winner)
        )
        try:
            self._undecided.pop()
        except IndexError:
            return
        before = self._champion
        self._champion = rival.name if winner else before
        told = f"{self._champion} is kept: {1e3 * outcome.base_seconds:.3g} ms by {before}, "
        self._told.append(f"{told}{1e3 * outcome.seconds:.3g} ms by {rival.name}")
        self._plan = rival.run if winner else self._plan
        if rival.then is None:
            if self._end(""):
                self._start(lambda: rival.keep(outcome), at_exit=True)
            return
        self._prepare = rival.then
        self._recent.extend(times if winner else own)
        self._times, self._trials, self._rival = ([], []), 0, None
        if not self._start(lambda: self._make_next(rival, outcome)):
            self._start(lambda: rival.keep(outcome), at_exit=True)
            self._end("")

    def _end(self, told: str) -> bool:
        """Let what is the plan now serve all further calls; False where that is done already."""
        try:
            self._open.pop()
        except IndexError:
            return False
        whole = "; ".join(filter(None, (*self._told, told)))
        log("tune", lambda: f"race: {whole}")
        self._settle(self._plan, told=whole)
        return True


def _winner(times: tuple[list[float], list[float]], slowest: float) -> int | None:
    """Which of two codes is the faster: 0 the plan, 1 the rival; None: more calls must tell.

    The rival wins where it is faster by more than 2% and the noise of the pairs; so does the plan.
    After the last pair the plan does.
    """
    own, other = times
    if len(other) == 1 and other[0] > _HOPELESS * slowest:
        return 0
    pairs = min(len(own), len(other)) - _WARM_UP
    if len(own) != len(other) or pairs < 2:
        return None
    own, other = own[_WARM_UP:], other[_WARM_UP:]
    if min(other) > _APART * max(own):
        return 0
    if min(own) > _APART * max(other):
        return 1
    if pairs % FEWEST_PAIRS:
        return None
    for side, (base, mine) in enumerate(((other, own), (own, other))):
        found = compared(base, mine, LEAST_RACE_GAIN)
        if found is not None and found.is_faster:
            return side
    return 0 if pairs >= _MOST_PAIRS else None


def _tell(error: Exception) -> None:
    """Log what went wrong, and count a fault of ours as others are counted."""
    reason = f"{type(error).__name__}: {error}"
    log("tune", lambda: f"race: {reason}")
    if isinstance(error, FAULTS) and not options.current().strict:
        with contextlib.suppress(LoopwrightError):
            survive(error, "the race of a call")


# -- threads that make rivals ---------------------------------------------------------------------
# One works at a time. A fork waits for it: a child must not inherit locks (of imports, of LLVM)
# that are held by a thread which it does not have. At the end of the process Python joins the
# threads; those that have not begun to make a rival do nothing then.

_working = threading.Lock()
_waiting: list[object] = []
_PATIENCE = 30.0  # seconds that a fork waits at most


def in_background(work: Callable[[], None], *, at_exit: bool = False) -> bool:
    """Have a thread do some work, with `at_exit` also while the interpreter shuts down.

    False where none can be started.
    """
    if len(_waiting) >= _MOST_THREADS:
        return False
    _guard_forks()
    token = object()
    _waiting.append(token)

    def body() -> None:
        try:
            with _working:
                if at_exit or threading.main_thread().is_alive():
                    work()
        except FAILURES as error:
            _tell(error)
        finally:
            _waiting.remove(token)

    release_import_lock()  # the work imports
    try:
        threading.Thread(target=body, name="loopwright race", daemon=False).start()
    except RuntimeError:
        _waiting.remove(token)
        return False
    return True


@functools.cache
def _guard_forks() -> None:
    """Have forks wait for the thread that works.

    Functions that are registered last are called first before a fork. Code has run by now, so that
    the lock of LLVM was registered before and is taken after the thread has let go of it.
    """
    is_held = [False]

    def before() -> None:
        is_held[0] = _working.acquire(timeout=_PATIENCE)

    def in_parent() -> None:
        if is_held[0]:
            _working.release()

    os.register_at_fork(before=before, after_in_parent=in_parent, after_in_child=_forget_threads)


def _forget_threads() -> None:
    """A child has none of the parent's threads."""
    global _working
    _working = threading.Lock()
    _waiting.clear()
