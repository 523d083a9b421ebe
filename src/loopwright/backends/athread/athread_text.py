"""What is the same in all files for a mesh: the header's functions for DMA, waits and barriers.

They are written for both generations of the interface: SW26010's, and that of its successor, which
is chosen by the macro LW_ATHREAD_PRO. Without either, under LW_NO_ATHREAD, the host runs all.
"""

from __future__ import annotations

from loopwright.backends.athread.athread_profile import CORE_CLOCK

__all__ = ["HEADER_END", "HEADER_START", "SLAVE_PART"]

HEADER_START = """#ifndef @GUARD@
#define @GUARD@

/* LW_ATHREAD_PRO: the interface of SW26010-Pro. LW_NO_ATHREAD: no compute cores, the host runs all
 * loops in source order. LW_PROFILE: cycles are counted and printed at the end. */
"""
HEADER_END = """#endif
"""
# A put has left the scratchpad when its reply counts; whoever reads the array is behind a barrier.
SLAVE_PART = """
#ifdef LW_SLAVE
#include <slave.h>
#ifndef LW_ATHREAD_PRO
#include <dma.h>
#endif

#ifdef __ATHREAD_EMULATOR__ /* it tells the line of the call */
#define LW_INLINE static __attribute__((noinline, unused))
#else
#define LW_INLINE static inline
#endif

static __thread_local volatile int lw_reply, lw_reply_ahead; /* requests that have ended */
static __thread_local int lw_parts, lw_ahead;                /* requests that were started */

LW_INLINE void lw_fence(void)
{
#if defined(__sw_64__) || defined(__sw_slave__)
    __asm__ volatile("memb" ::: "memory");
#else
    __asm__ volatile("" ::: "memory");
#endif
}

@CLOCK@
/* All waits for DMA are here. */
LW_INLINE void lw_wait(volatile int *reply, int count)
{
#ifdef LW_ATHREAD_PRO
    LW_TIMED(dma, athread_dma_wait_value((void *)reply, count));
#else
    LW_TIMED(dma, dma_wait(reply, count));
#endif
    lw_fence();
}

LW_INLINE void lw_barrier(void)
{
    lw_fence();
#ifdef LW_ATHREAD_PRO
    LW_TIMED(barriers, athread_ssync_array());
#else
    LW_TIMED(barriers, athread_syn(ARRAY_SCOPE, 0xffff));
#endif
}

LW_INLINE int lw_core(void)
{
#ifdef LW_ATHREAD_PRO
    return _PEN;
#else
    return _MYID;
#endif
}

/* One request: `rows` blocks of `width` bytes, `gap` bytes apart in main memory, without gaps in
 * the scratchpad. Returns how many requests that is: none of no bytes. */
LW_INLINE int lw_start_get(void *ldm, const void *memory, long rows, long width, long gap,
                               volatile int *reply)
{
    if (rows <= 0 || width <= 0)
        return 0;
    if (rows == 1 || gap == 0) { /* one block */
        width *= rows;
        rows = 1;
        gap = 0;
    }
#ifdef LW_ATHREAD_PRO
    if (rows == 1)
        athread_dma_iget(ldm, (void *)memory, width, (void *)reply);
    else
        athread_dma_iget_stride(ldm, (void *)memory, rows * width, width, gap, (void *)reply);
#else
    athread_get(PE_MODE, (void *)memory, ldm, (int)(rows * width), (void *)reply, 0, (int)gap,
                rows == 1 ? 0 : (int)width);
#endif
    return 1;
}

LW_INLINE void lw_get_ahead(void *ldm, const void *memory, long rows, long width, long gap)
{
    lw_ahead += lw_start_get(ldm, memory, rows, width, gap, &lw_reply_ahead);
}

/* Whatever was started ahead has come. */
LW_INLINE void lw_wait_ahead(void)
{
    lw_wait(&lw_reply_ahead, lw_ahead);
    lw_reply_ahead = 0;
    lw_ahead = 0;
}

/* Requests that are waited for together: `lw_end_parts`. */
LW_INLINE void lw_get_part(void *ldm, const void *memory, long rows, long width, long gap)
{
    lw_parts += lw_start_get(ldm, memory, rows, width, gap, &lw_reply);
}

LW_INLINE int lw_start_put(void *memory, const void *ldm, long rows, long width, long gap,
                               volatile int *reply)
{
    if (rows <= 0 || width <= 0)
        return 0;
    if (rows == 1 || gap == 0) {
        width *= rows;
        rows = 1;
        gap = 0;
    }
    lw_fence();
#ifdef LW_ATHREAD_PRO
    if (rows == 1)
        athread_dma_iput(memory, (void *)ldm, width, (void *)reply);
    else
        athread_dma_iput_stride(memory, (void *)ldm, rows * width, width, gap, (void *)reply);
#else
    athread_put(PE_MODE, (void *)ldm, memory, (int)(rows * width), (void *)reply, (int)gap,
                rows == 1 ? 0 : (int)width);
#endif
    return 1;
}

LW_INLINE void lw_put_part(void *memory, const void *ldm, long rows, long width, long gap)
{
    lw_parts += lw_start_put(memory, ldm, rows, width, gap, &lw_reply);
}

/* Until `lw_wait_ahead` nobody changes what is put. */
LW_INLINE void lw_put_ahead(void *memory, const void *ldm, long rows, long width, long gap)
{
    lw_ahead += lw_start_put(memory, ldm, rows, width, gap, &lw_reply_ahead);
}

LW_INLINE void lw_end_parts(void)
{
    lw_wait(&lw_reply, lw_parts);
    lw_reply = 0;
    lw_parts = 0;
}

/* What this core has put is in main memory before it gets anything more. */
LW_INLINE void lw_after_puts(void)
{
    athread_dma_barrier();
}

LW_INLINE void lw_get(void *ldm, const void *memory, long rows, long width, long gap)
{
    lw_get_part(ldm, memory, rows, width, gap);
    lw_end_parts();
}

/* What this core has put is in main memory: a request behind it has ended. */
LW_INLINE void lw_land(const void *memory)
{
    static __thread_local int word;
    lw_after_puts();
    lw_get(&word, memory, 1, sizeof word, 0);
}

LW_INLINE void lw_put(void *memory, const void *ldm, long rows, long width, long gap)
{
    lw_put_part(memory, ldm, rows, width, gap);
    lw_end_parts();
}
#endif
""".replace("@CLOCK@\n", CORE_CLOCK.lstrip())
