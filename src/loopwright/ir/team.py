"""The thread team in memory: what emitted code and the thread pool agree on.

A team is a block of int64 words that all threads of a call see:

    word 0   number of threads          word 1   address of the shared scratch memory
    word 2   address of the private scratch of thread 0      word 3   bytes from one to the next
    word 4   claim(team, thread, count, last): the next piece of a parallel loop for this thread
    word 5   meet(team, thread): wait until every piece claimed so far is done
    word 6   barrier(team, thread): wait until every thread of the team has come here
    word 7   1 when the kernel's work may be done by those threads that come: see below

A team of one thread has only words 0 to 3.

The iterations of a parallel loop are cut into PIECES_PER_THREAD pieces per thread at most, and
threads claim pieces. A thread begins with its own, which are the same at every call as long as
nobody is late, so that data stay in its caches; then it takes what other threads have left. So a
thread that starts late, or never, costs the others nothing but its part of the work.
"""

from __future__ import annotations

__all__ = ["ALONE_WORDS", "BARRIER", "CLAIM", "IS_OPEN", "MEET", "PIECES_PER_THREAD"]

CLAIM, MEET, BARRIER, IS_OPEN = 4, 5, 6, 7
ALONE_WORDS = 4
PIECES_PER_THREAD = 8
