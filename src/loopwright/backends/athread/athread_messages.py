"""What the header has for boxes that cores in a circle hand on, by register communication.

The circle is the first row forwards, the second one backwards and so on; the last core is in the
first column, as is the first one. One neighbour alone sends to a core, so that vectors come in
their order. Four of them wait in registers at most: a core that sends more waits until the next
one takes them.
"""

from __future__ import annotations

__all__ = ["MESSAGE_PART"]

_HEAD = """
#ifdef LW_SLAVE
#ifdef LW_ATHREAD_PRO
#error "boxes are handed on by register communication, which SW26010-Pro does not have"
#endif
#include <simd.h>

static __thread_local char lw_end[32] __attribute__((aligned(32))); /* less than a vector */

/* The core behind this one in a circle, or before it (step -1). */
static inline int lw_beside(int step, int rows, int columns)
{
    const int row = lw_core() / columns, column = lw_core() % columns;
    const int to = row % 2 ? column - step : column + step;
    if (rows == 1)
        return (column + step + columns) % columns;
    if (to >= 0 && to < columns)
        return row * columns + to;
    return (row + step + rows) % rows * columns + column;
}
"""
_WAYS = """
static __attribute__((noinline, unused)) void
lw_hand_on_by_@WORD@(const char *from, long bytes, int next)
{
    doublev4 a, b, c, d;
    long x = 0;
    for (; x + 128 <= bytes; x += 128) {
        simd_loadu(a, (double *)(from + x));
        simd_loadu(b, (double *)(from + x + 32));
        simd_loadu(c, (double *)(from + x + 64));
        simd_loadu(d, (double *)(from + x + 96));
        simd_put@W@(a, next);
        simd_put@W@(b, next);
        simd_put@W@(c, next);
        simd_put@W@(d, next);
    }
    for (; x + 32 <= bytes; x += 32) {
        simd_loadu(a, (double *)(from + x));
        simd_put@W@(a, next);
    }
    if (x < bytes) {
        for (int k = 0; x + 4 * k < bytes; k++)
            ((float *)lw_end)[k] = ((const float *)(from + x))[k];
        simd_load(a, (double *)lw_end);
        simd_put@W@(a, next);
    }
}

static __attribute__((noinline, unused)) void lw_take_over_by_@WORD@(char *to, long bytes)
{
    doublev4 a, b, c, d;
    long x = 0;
    for (; x + 128 <= bytes; x += 128) {
        simd_get@W@(a);
        simd_get@W@(b);
        simd_get@W@(c);
        simd_get@W@(d);
        simd_storeu(a, (double *)(to + x));
        simd_storeu(b, (double *)(to + x + 32));
        simd_storeu(c, (double *)(to + x + 64));
        simd_storeu(d, (double *)(to + x + 96));
    }
    for (; x + 32 <= bytes; x += 32) {
        simd_get@W@(a);
        simd_storeu(a, (double *)(to + x));
    }
    if (x < bytes) {
        simd_get@W@(a);
        simd_store(a, (double *)lw_end);
        for (int k = 0; x + 4 * k < bytes; k++)
            ((float *)(to + x))[k] = ((const float *)lw_end)[k];
    }
}
"""
_END = """
/* Bytes of this core's scratchpad to the next core of the circle. */
static __attribute__((noinline, unused)) void
lw_hand_on(const void *from, long bytes, int rows, int columns)
{
    const int next = lw_beside(1, rows, columns);
    if (next / 8 == lw_core() / 8)
        lw_hand_on_by_row((const char *)from, bytes, next % 8);
    else
        lw_hand_on_by_column((const char *)from, bytes, next / 8);
}

/* What the core before this one hands on. */
static __attribute__((noinline, unused)) void
lw_take_over(void *to, long bytes, int rows, int columns)
{
    if (lw_beside(-1, rows, columns) / 8 == lw_core() / 8)
        lw_take_over_by_row((char *)to, bytes);
    else
        lw_take_over_by_column((char *)to, bytes);
}
#endif
"""


def _by(word: str) -> str:
    return _WAYS.replace("@WORD@", word).replace("@W@", word[0])


MESSAGE_PART = _HEAD + _by("row") + _by("column") + _END
