"""Text of files for a mesh that counts cycles, compiled under LW_PROFILE only.

Every core reads its cycle counter where a region begins and ends, and around waits for DMA and
barriers. The host adds up what the cores have put back, and prints it at the end of the program, or
whenever `lw_profile_NAME` is called.
"""

from __future__ import annotations

__all__ = ["CORE_CLOCK", "CORE_TIMES", "HOST_TIMES", "TIMES_FIELD", "profile_function"]

# Before the blocks of arguments, which have a field of it.
CORE_TIMES = """#ifdef LW_PROFILE
struct lw_times { /* cycles of a core */
    long all, dma, barriers, unused;
};
#endif
"""
TIMES_FIELD = ("#ifdef LW_PROFILE", "struct lw_times *lw_times; /* of all cores */", "#endif")

# Of the cores, before the functions that wait.
CORE_CLOCK = """
#ifdef LW_PROFILE
static __thread_local struct lw_times lw_now;

LW_INLINE long lw_clock(void)
{
    unsigned long now;
#ifdef LW_ATHREAD_PRO
    now = athread_stime_cycle();
#else
    __asm__ volatile("rcsr %0, 4" : "=r"(now));
#endif
    return (long)now;
}
#define LW_TIMED(part, ...)                                                                    \\
    do {                                                                                       \\
        const long lw_from = lw_clock();                                                       \\
        __VA_ARGS__;                                                                           \\
        lw_now.part += lw_clock() - lw_from;                                                   \\
    } while (0)
#define LW_BEGIN_TIMES() (lw_now.dma = lw_now.barriers = 0, lw_now.all = -lw_clock())
#define LW_END_TIMES()                                                                         \\
    (lw_now.all += lw_clock(), lw_put(&lw_a.lw_times[lw_core()], &lw_now, 1, sizeof lw_now, 0))
#else
#define LW_TIMED(part, ...) __VA_ARGS__
#define LW_BEGIN_TIMES() ((void)0)
#define LW_END_TIMES() ((void)0)
#endif
"""

# Of the host, before its functions.
HOST_TIMES = """#ifdef LW_PROFILE
#include <stdio.h>

struct lw_region { /* what its calls have taken so far */
    const char *place;
    long calls, on_host;
    long cycles;               /* of the host, from start to end of the cores */
    struct lw_times cores[64]; /* sums of all calls */
    struct lw_region *next;
};
static struct lw_region *lw_regions;
void @PRINT@(void);

static long lw_clock(void)
{
    unsigned long now;
#ifdef LW_ATHREAD_PRO
    now = athread_time_cycle();
#else
    __asm__ volatile("rtc %0" : "=r"(now));
#endif
    return (long)now;
}

static void lw_count(struct lw_region *region, const struct lw_times *times, long cycles)
{
    int core;
    if (!region->calls++) {
        if (!lw_regions)
            atexit(@PRINT@);
        region->next = lw_regions;
        lw_regions = region;
    }
    if (!times) {
        region->on_host++;
        return;
    }
    region->cycles += cycles;
    for (core = 0; core < 64; core++) {
        region->cores[core].all += times[core].all;
        region->cores[core].dma += times[core].dma;
        region->cores[core].barriers += times[core].barriers;
    }
}

void @PRINT@(void)
{
    const struct lw_region *region;
    int core;
    fprintf(stderr, "%-24s %7s %7s %14s %14s %6s %8s\\n", "region", "calls", "on host",
            "cycles of host", "longest core", "DMA", "barriers");
    for (region = lw_regions; region; region = region->next) {
        double all = 0, dma = 0, barriers = 0, longest = 0;
        for (core = 0; core < 64; core++) {
            all += region->cores[core].all;
            dma += region->cores[core].dma;
            barriers += region->cores[core].barriers;
            if (region->cores[core].all > longest)
                longest = region->cores[core].all;
        }
        if (all <= 0)
            all = 1;
        fprintf(stderr, "%-24s %7ld %7ld %14ld %14.0f %5.1f%% %7.1f%%\\n", region->place,
                region->calls, region->on_host, region->cycles, longest, 100 * dma / all,
                100 * barriers / all);
    }
}
#define LW_REGION(place) static struct lw_region lw_region = {place}
#define LW_BEGIN_TIMES()                                                                           \
    struct lw_times lw_times[64] = {{0}};                                                          \
    const long lw_from = (lw_a.lw_times = lw_times, lw_clock())
#define LW_END_TIMES() lw_count(&lw_region, lw_times, lw_clock() - lw_from)
#define LW_NOT_STARTED() lw_count(&lw_region, 0, 0)
#else
#define LW_REGION(place) (void)0
#define LW_BEGIN_TIMES() (void)0
#define LW_END_TIMES() (void)0
#define LW_NOT_STARTED() (void)0
#endif
"""


def profile_function(stem: str) -> str:
    """The name of the function that prints what the regions of a file have taken."""
    return f"lw_profile_{stem}"
