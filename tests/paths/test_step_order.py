"""Pieces of an elimination: every order that threads may take them in closes the matrix."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from loopwright.diagnostics import UsageError
from loopwright.paths import step_order
from loopwright.paths.elimination import eliminate
from loopwright.paths.step_order import StepOrder, StepPiece, do_at_once
from loopwright.semirings import SEMIRINGS


def drawn_order(n: int, block: int, threads: int, seed: int) -> list[tuple[str, StepPiece]]:
    """Begins and ends of all pieces, with threads that are done in a random order."""
    order, rng = StepOrder(n, block, threads), np.random.default_rng(seed)
    running: list[StepPiece] = []
    found: list[tuple[str, StepPiece]] = []
    while True:
        piece = order._next() if len(running) < threads else None
        if piece is not None:
            assert order.take() == piece
            running.append(piece)
            found.append(("begin", piece))
        elif running:
            piece = running.pop(int(rng.integers(len(running))))
            order.finish(piece)
            found.append(("end", piece))
        else:
            assert order.take() is None
            return found


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize(("n", "block"), [(1, 1), (40, 8), (43, 10), (12, 12)])
def test_rows_take_every_step_once_and_with_closed_rows(
    monkeypatch: pytest.MonkeyPatch, n: int, block: int, threads: int
) -> None:
    monkeypatch.setattr(step_order, "_STRIP", 3)
    for seed in range(20):
        taken = np.zeros(n, int)
        reads: list[StepPiece] = []
        writes: list[StepPiece] = []
        for event, piece in drawn_order(n, block, threads, seed):
            mine = range(piece.first, piece.end)
            own = range(piece.step * block, min(n, piece.step * block + block))
            if event == "begin":
                assert (taken[mine] == piece.step).all()
                assert piece.closes == (mine == own)
                if not piece.closes:
                    # Closed rows that are read have taken their own step and no further one.
                    assert (taken[own] == piece.step + 1).all()
                    assert not any(p.first in own or p.end - 1 in own for p in writes)
                    reads.append(piece)
                assert not any(p.step * block in mine for p in reads if p is not piece)
                writes.append(piece)
            else:
                taken[mine] += 1
                writes.remove(piece)
                if not piece.closes:
                    reads.remove(piece)
        assert (taken == -(-n // block)).all()


@pytest.mark.drawn(3)
@pytest.mark.parametrize("ring", ["min_plus", "max_min", "max_times"])
@pytest.mark.parametrize("threads", [2, 3, 5])
def test_threads_close_as_one_does(
    monkeypatch: pytest.MonkeyPatch, ring: str, threads: int
) -> None:
    monkeypatch.setattr(step_order, "_STRIP", 3)
    given = np.random.default_rng(3).integers(1, 5, (200, 200)) * 0.25
    for block in (7, 10):
        alone, together = given.copy(), given.copy()
        eliminate(alone, SEMIRINGS[ring], 1, block)
        eliminate(together, SEMIRINGS[ring], threads, block)
        np.testing.assert_array_equal(together, alone)


def test_a_fault_ends_all_threads() -> None:
    def check(square: np.ndarray, first: int) -> None:
        if first == 40:
            raise UsageError("a fault")

    before = threading.active_count()
    with pytest.raises(UsageError, match="a fault"):
        eliminate(np.ones((200, 200)), SEMIRINGS["min_plus"], 3, 8, check)
    assert threading.active_count() <= before


def test_a_system_without_threads_leaves_all_to_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    given = np.random.default_rng(3).integers(1, 5, (90, 90)) * 1.0
    alone, together = given.copy(), given.copy()
    eliminate(alone, SEMIRINGS["min_plus"], 1, 8)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    eliminate(together, SEMIRINGS["min_plus"], 2, 8)
    np.testing.assert_array_equal(together, alone)


def test_a_piece_that_fails_ends_the_others() -> None:
    def fail(piece: int) -> None:
        raise MemoryError(f"piece {piece}")

    with pytest.raises(MemoryError, match="piece"):
        do_at_once(fail, range(20), 2)
