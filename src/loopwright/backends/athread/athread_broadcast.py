"""What the header has for broadcasts along rows and columns of a mesh, in both generations.

On SW26010 vectors go from register to register: the root sends, all others of its row or column
take as many. Nothing says that a vector reaches all of them at once: a core that has all of one
root might send while another one still waits for the last. So they meet in between. On its
successor the root writes into the scratchpads of all, once all have come: until then somebody may
still use what lies there.

A root that has its own copy already loads and sends, as the others receive and store: two slots for
a vector on both sides.
"""

from __future__ import annotations

__all__ = ["BROADCAST_PART"]

_BODY = """
/* The core of number `root` in its @WORD@ gives `rows` blocks of `width` bytes, which lie `pitch`
 * bytes apart, to all other cores of the @WORD@. It has its own copy already. */
static __attribute__((noinline, unused)) void
lw_give_@WORD@(void *target, long target_pitch, const void *source, long source_pitch,
               long rows, long width, long root)
{
    char *to = (char *)target;
    const char *from = (const char *)source;
    const int is_root = @NUMBER@ == root;
    if (rows <= 0 || width <= 0)
        return;
#ifdef LW_ATHREAD_PRO
    lw_fence();
    @SYNC@();
    if (is_root && to == from) {
        /* A part in its place: a broadcast would write to what it reads, in this core. */
        for (long r = 0; r < rows; r++, to += target_pitch)
            for (long k = 0; k < 8; k++)
                if (k != root)
                    athread_rma_iput(to, (void *)&lw_sent, width, @OTHER@, to, (void *)&lw_arrived);
        athread_rma_wait_value((void *)&lw_sent, 7 * (int)rows);
        lw_sent = 0;
        lw_fence();
        return;
    }
    if (is_root) {
        for (long r = 0; r < rows; r++, to += target_pitch, from += source_pitch)
            @RMA@(to, (void *)from, width, (void *)&lw_sent, (void *)&lw_arrived);
        athread_rma_wait_value((void *)&lw_sent, (int)rows);
        lw_sent = 0;
    }
    athread_rma_wait_value((void *)&lw_arrived, (int)rows);
    lw_arrived = 0;
    lw_fence();
#else
    doublev4 a, b, c, d;
    athread_syn(@SCOPE@, 0xff); /* else messages of this root and of the last one may mix */
    if ((width == 32 && rows % 4 == 0) || (width == 64 && rows % 2 == 0)) {
        /* Short rows: four vectors of several at once. */
        const long pitch = is_root ? source_pitch : target_pitch;
        const long second = width == 32 ? pitch : 32;
        const long third = width == 32 ? 2 * pitch : pitch;
        const long fourth = second + third;
        const long next = width == 32 ? 4 * pitch : 2 * pitch;
        if (is_root) {
            for (long r = 0; r < rows; r += 128 / width, from += next) {
                simd_loadu(a, (double *)from);
                simd_loadu(b, (double *)(from + second));
                simd_loadu(c, (double *)(from + third));
                simd_loadu(d, (double *)(from + fourth));
                @PUT@(a, 8);
                @PUT@(b, 8);
                @PUT@(c, 8);
                @PUT@(d, 8);
            }
        } else {
            for (long r = 0; r < rows; r += 128 / width, to += next) {
                @GET@(a);
                @GET@(b);
                @GET@(c);
                @GET@(d);
                simd_storeu(a, (double *)to);
                simd_storeu(b, (double *)(to + second));
                simd_storeu(c, (double *)(to + third));
                simd_storeu(d, (double *)(to + fourth));
            }
        }
    } else if (is_root && width % 128 == 0) {
        for (long r = 0; r < rows; r++, from += source_pitch) {
            for (long x = 0; x < width; x += 128) {
                simd_loadu(a, (double *)(from + x));
                simd_loadu(b, (double *)(from + x + 32));
                simd_loadu(c, (double *)(from + x + 64));
                simd_loadu(d, (double *)(from + x + 96));
                @PUT@(a, 8);
                @PUT@(b, 8);
                @PUT@(c, 8);
                @PUT@(d, 8);
            }
        }
    } else if (is_root) {
        for (long r = 0; r < rows; r++, from += source_pitch) {
            long x = 0;
            for (; x + 128 <= width; x += 128) {
                simd_loadu(a, (double *)(from + x));
                simd_loadu(b, (double *)(from + x + 32));
                simd_loadu(c, (double *)(from + x + 64));
                simd_loadu(d, (double *)(from + x + 96));
                @PUT@(a, 8);
                @PUT@(b, 8);
                @PUT@(c, 8);
                @PUT@(d, 8);
            }
            for (; x + 32 <= width; x += 32) {
                simd_loadu(a, (double *)(from + x));
                @PUT@(a, 8);
            }
            if (x < width) {
                lw_part(lw_tail, from + x, width - x);
                simd_load(a, (double *)lw_tail);
                @PUT@(a, 8);
            }
        }
    } else if (width % 128 == 0) {
        for (long r = 0; r < rows; r++, to += target_pitch) {
            for (long x = 0; x < width; x += 128) {
                @GET@(a);
                @GET@(b);
                @GET@(c);
                @GET@(d);
                simd_storeu(a, (double *)(to + x));
                simd_storeu(b, (double *)(to + x + 32));
                simd_storeu(c, (double *)(to + x + 64));
                simd_storeu(d, (double *)(to + x + 96));
            }
        }
    } else {
        for (long r = 0; r < rows; r++, to += target_pitch) {
            long x = 0;
            for (; x + 128 <= width; x += 128) {
                @GET@(a);
                @GET@(b);
                @GET@(c);
                @GET@(d);
                simd_storeu(a, (double *)(to + x));
                simd_storeu(b, (double *)(to + x + 32));
                simd_storeu(c, (double *)(to + x + 64));
                simd_storeu(d, (double *)(to + x + 96));
            }
            for (; x + 32 <= width; x += 32) {
                @GET@(a);
                simd_storeu(a, (double *)(to + x));
            }
            if (x < width) {
                @GET@(a);
                simd_store(a, (double *)lw_tail);
                lw_part(to + x, lw_tail, width - x);
            }
        }
    }
#endif
}

/* The same, to itself too. */
static __attribute__((noinline, unused)) void
lw_broadcast_@WORD@(void *target, long target_pitch, const void *source, long source_pitch,
                    long rows, long width, long root)
{
#ifndef LW_ATHREAD_PRO
    if (@NUMBER@ == root)
        for (long r = 0; r < rows; r++)
            lw_part((char *)target + r * target_pitch,
                    (const char *)source + r * source_pitch, width);
#endif
    lw_give_@WORD@(target, target_pitch, source, source_pitch, rows, width, root);
}
"""

_HEAD = """
#ifdef LW_SLAVE
#ifdef LW_ATHREAD_PRO
static __thread_local volatile int lw_sent, lw_arrived; /* blocks of broadcasts */
#else
#include <simd.h>

static __thread_local char lw_tail[32] __attribute__((aligned(32))); /* less than a vector */

/* Some bytes, by doubles as far as they go. */
static inline void lw_part(void *to, const void *from, long bytes)
{
    int k = 0;
    if (((unsigned long)to | (unsigned long)from) % 8 == 0)
        for (; 8 * k + 8 <= bytes; k++)
            ((double *)to)[k] = ((const double *)from)[k];
    for (k *= 2; 4 * k < bytes; k++)
        ((float *)to)[k] = ((const float *)from)[k];
}
#endif
"""


def _along(word: str) -> str:
    is_row = word == "row"
    words = {
        "@WORD@": word,
        "@NUMBER@": "lw_core() % 8" if is_row else "lw_core() / 8",
        "@OTHER@": "lw_core() / 8 * 8 + k" if is_row else "k * 8 + lw_core() % 8",
        "@SYNC@": "athread_ssync_row" if is_row else "athread_ssync_col",
        "@RMA@": f"athread_rma_{'row' if is_row else 'col'}_ibcast",
        "@SCOPE@": "ROW_SCOPE" if is_row else "COL_SCOPE",
        "@PUT@": f"simd_put{word[0]}",
        "@GET@": f"simd_get{word[0]}",
    }
    text = _BODY
    for mark, value in words.items():
        text = text.replace(mark, value)
    return text


BROADCAST_PART = _HEAD + _along("row") + _along("column") + "#endif\n"
