"""What the header has for broadcasts along rows and columns of a mesh, in both generations.

On SW26010 vectors go from register to register: the root sends, all others of its row or column
take as many. Nothing says that a vector reaches all of them at once: a core that has all of one
root might send while another one still waits for the last. So they meet in between. On its
successor the root writes into the scratchpads of all, once all have come: until then somebody may
still use what lies there.
"""

from __future__ import annotations

__all__ = ["BROADCAST_PART"]

_BODY = """
/* The core of number `root` in its @WORD@ gives `rows` blocks of `width` bytes, which lie `pitch`
 * bytes apart, to all cores of the @WORD@, itself included. */
static __attribute__((noinline, unused)) void
lw_broadcast_@WORD@(void *target, long target_pitch, const void *source, long source_pitch,
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
    doublev4 v, w;
    athread_syn(@SCOPE@, 0xff); /* else messages of this root and of the last one may mix */
    if (is_root && width == 64) { /* short rows, many of them */
        for (long r = 0; r < rows; r++, to += target_pitch, from += source_pitch) {
            simd_loadu(v, (double *)from);
            simd_loadu(w, (double *)(from + 32));
            @PUT@(v, 8);
            @PUT@(w, 8);
            simd_storeu(v, (double *)to);
            simd_storeu(w, (double *)(to + 32));
        }
    } else if (is_root) {
        for (long r = 0; r < rows; r++, to += target_pitch, from += source_pitch) {
            long x = 0;
            for (; x + 64 <= width; x += 64) {
                simd_loadu(v, (double *)(from + x));
                simd_loadu(w, (double *)(from + x + 32));
                @PUT@(v, 8);
                @PUT@(w, 8);
                simd_storeu(v, (double *)(to + x));
                simd_storeu(w, (double *)(to + x + 32));
            }
            if (x + 32 <= width) {
                simd_loadu(v, (double *)(from + x));
                @PUT@(v, 8);
                simd_storeu(v, (double *)(to + x));
                x += 32;
            }
            if (x < width) {
                lw_part(lw_tail, from + x, width - x);
                simd_load(v, (double *)lw_tail);
                @PUT@(v, 8);
                lw_part(to + x, lw_tail, width - x);
            }
        }
    } else if (width == 64) {
        for (long r = 0; r < rows; r++, to += target_pitch) {
            @GET@(v);
            @GET@(w);
            simd_storeu(v, (double *)to);
            simd_storeu(w, (double *)(to + 32));
        }
    } else {
        for (long r = 0; r < rows; r++, to += target_pitch) {
            long x = 0;
            for (; x + 64 <= width; x += 64) {
                @GET@(v);
                @GET@(w);
                simd_storeu(v, (double *)(to + x));
                simd_storeu(w, (double *)(to + x + 32));
            }
            if (x + 32 <= width) {
                @GET@(v);
                simd_storeu(v, (double *)(to + x));
                x += 32;
            }
            if (x < width) {
                @GET@(v);
                simd_store(v, (double *)lw_tail);
                lw_part(to + x, lw_tail, width - x);
            }
        }
    }
#endif
}
"""

_HEAD = """
#ifdef LW_SLAVE
#ifdef LW_ATHREAD_PRO
static __thread_local volatile int lw_sent, lw_arrived; /* blocks of broadcasts */
#else
#include <simd.h>

static __thread_local char lw_tail[32] __attribute__((aligned(32))); /* less than a vector */

/* Less than a vector, by doubles as far as they go. */
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
