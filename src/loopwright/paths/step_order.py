"""The pieces of an elimination in an order for several threads that wait at no barrier.

A matrix is cut into blocks of rows, one for each step. Step k closes the rows of block k, then
updates all others with them. Written down for each strip of rows is the number of steps it has
taken; a thread that is free takes the first of these that may be done:

    close block k             its rows have taken the steps before k
    update rows of block k    towards the closing that is next
    update other rows         those that are furthest behind

So the rows of the next step are closed while those of this step are still being updated. Closed
rows are read where they lie: they take their next step when all others have used them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import pairwise
from typing import Any, TypeVar

from loopwright.lazy_dataclass import dataclass
from loopwright.undisturbed import undisturbed

__all__ = ["StepOrder", "StepPiece", "do_at_once"]

T = TypeVar("T")

# Rows of a strip at least: the fewer, the more evenly the last step is shared out.
_STRIP = 64


@dataclass(frozen=True, slots=True)
class StepPiece:
    """Rows that take a step; `closes` where they are the rows of the step's own block."""

    step: int
    first: int
    end: int
    closes: bool


@dataclass(slots=True)
class _Strip:
    """Some rows of one block, which take every step together."""

    first: int
    end: int
    block: int
    taken: int = 0  # steps
    is_busy: bool = False


class StepOrder:
    """Hands the pieces of n rows, in steps of `block`, to threads that ask for them."""

    def __init__(self, n: int, block: int, threads: int) -> None:
        self.blocks = [(first, min(n, first + block)) for first in range(0, n, block)]
        self._threads = threads
        self._strips = [strip for k, rows in enumerate(self.blocks) for strip in _cut(k, *rows)]
        self._most = max(2 * block, -(-n // (2 * threads)))  # rows of a piece
        self._closed = 0  # blocks
        self._is_closing = False
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    def run(self, do: Callable[[StepPiece], None]) -> None:
        """Do all pieces on so many threads; raises what the first piece that fails raised.

        No piece is being done any more when it returns or raises.
        """
        # Elsewhere than on the thread where a signal may raise while others still write.
        undisturbed(lambda: self._run(do))

    def _run(self, do: Callable[[StepPiece], None]) -> None:
        on_threads(lambda: self._work(do), self._threads, self.fail)
        if self._error is not None:
            raise self._error

    def _work(self, do: Callable[[StepPiece], None]) -> None:
        while (piece := self.take()) is not None:
            do(piece)
            self.finish(piece)

    def fail(self, error: BaseException) -> None:
        """Hand out no more pieces; `run` raises the first error."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def take(self) -> StepPiece | None:
        """The next piece for a thread, which waits until there is one; None at the end."""
        with self._changed:
            while self._error is None:
                piece = self._next()
                if piece is not None:
                    self._is_closing |= piece.closes
                    for strip in self._within(piece):
                        strip.is_busy = True
                    return piece
                if all(strip.taken == len(self.blocks) for strip in self._strips):
                    return None
                self._changed.wait()
            return None

    def finish(self, piece: StepPiece) -> None:
        """Write down that a piece has been done."""
        with self._changed:
            for strip in self._within(piece):
                strip.is_busy = False
                strip.taken = piece.step + 1
            if piece.closes:
                self._closed += 1
                self._is_closing = False
            self._changed.notify_all()

    def _within(self, piece: StepPiece) -> list[_Strip]:
        return [strip for strip in self._strips if piece.first <= strip.first < piece.end]

    def _next(self) -> StepPiece | None:
        """What may be done now, the most urgent first."""
        k, last = self._closed, len(self.blocks) - 1
        if k <= last:
            own = [strip for strip in self._strips if strip.block == k]
            if not self._is_closing and all(s.taken == k and not s.is_busy for s in own):
                return StepPiece(k, *self.blocks[k], closes=True)
            piece = self._update(own, self._most)
            if piece is not None:
                return piece
        for step in range(min(strip.taken for strip in self._strips), k):
            strips = [strip for strip in self._strips if strip.taken == step]
            most = self._most
            if step == last:
                # Nothing comes after it: pieces grow smaller, so that all threads end together.
                left = sum(strip.end - strip.first for strip in strips if not strip.is_busy)
                most = min(most, left // (2 * self._threads))
            piece = self._update(strips, most)
            if piece is not None:
                return piece
        return None

    def _update(self, strips: Iterable[_Strip], most: int) -> StepPiece | None:
        """The first strips that may take a step, neighbours, of at most so many rows or one."""
        group: list[_Strip] = []
        for strip in filter(self._may_go_on, strips):
            if group:
                is_next = group[-1].end == strip.first and group[0].taken == strip.taken
                if not is_next or strip.end - group[0].first > most:
                    break
            group.append(strip)
        if not group:
            return None
        return StepPiece(group[0].taken, group[0].first, group[-1].end, closes=False)

    def _may_go_on(self, strip: _Strip) -> bool:
        """Whether a strip may be updated now, by the closed rows of another block."""
        if strip.is_busy or strip.taken >= self._closed or strip.taken == strip.block:
            return False
        is_in_use = strip.taken == strip.block + 1
        return not is_in_use or all(other.taken >= strip.taken for other in self._strips)


def do_at_once(do: Callable[[T], None], pieces: Iterable[T], threads: int) -> None:
    """Do independent pieces on several threads; raise what the first one that fails raised.

    No piece is being done any more when it returns or raises.
    """
    left, errors = deque(pieces), deque[BaseException]()

    def work() -> None:
        with suppress(IndexError):
            while not errors:
                piece = left.popleft()
                with _Faults(errors.append):
                    do(piece)

    undisturbed(lambda: on_threads(work, threads, errors.append))
    if errors:
        raise errors[0]


def on_threads(work: Callable[[], None], threads: int, fail: Callable[[Any], None]) -> None:
    """Run `work` on `threads` threads, or on as many as the system gives, and wait for all.

    The caller's is one of them. `fail` is given what one of them raises.
    """

    def guarded() -> None:
        with _Faults(fail):
            work()

    others = []
    for _ in range(threads - 1):
        other = threading.Thread(target=guarded, daemon=True, name="loopwright")
        try:
            other.start()
        except RuntimeError:  # no more threads: those that there are do all
            break
        others.append(other)
    guarded()
    for other in others:
        other.join()


@dataclass(frozen=True, slots=True)
class _Faults:
    """Hands on what a thread raises, as a context."""

    fail: Callable[[Any], None]

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        if error is not None:
            self.fail(error)
        return True  # it is raised where the threads are waited for


def _cut(block: int, first: int, end: int) -> list[_Strip]:
    """The rows of a block as strips of about the same size."""
    count = max(1, (end - first) // _STRIP)
    edges = [first + (end - first) * at // count for at in range(count + 1)]
    return [_Strip(*rows, block) for rows in pairwise(edges)]
