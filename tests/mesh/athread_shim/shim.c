/* See slave.h. What a core does wrong ends the process with a message. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "athread.h"
#include "slave.h"

#define CORES 64
#define MOST 4096

struct request {
    char *ldm, *memory;
    long size, block, gap;
    volatile int *reply;
    int is_put;
};

static pthread_t threads[CORES];
static pthread_barrier_t barrier;
static void (*entry)(void *);
static void *given;
int shim_spawns; /* for tests: how often cores were started */
__thread int shim_id;
static __thread struct request waiting[MOST];
static __thread int count;

static void fail(const char *told)
{
    fprintf(stderr, "core %d: %s\n", shim_id, told);
    abort();
}

static int request(char *ldm, char *memory, long size, long block, long gap, void *reply,
                   int is_put)
{
    if (block == 0)
        block = size, gap = 0;
    if (size <= 0 || block <= 0 || size % block || gap < 0 || (size | block | gap) % 4)
        fail("a request of such sizes is none");
    if ((unsigned long)ldm % 4 || (unsigned long)memory % 4)
        fail("a request is not aligned");
    if (count == MOST)
        fail("too many requests");
    waiting[count++] = (struct request){ldm, memory, size, block, gap, reply, is_put};
    if (!is_put)
        memset(ldm, 0xff, size); /* not there yet */
    return 0;
}

static void done(volatile int *reply, int value)
{
    int kept = 0;
    for (int k = 0; k < count; k++) {
        struct request r = waiting[k];
        if (r.reply != reply) {
            waiting[kept++] = r;
            continue;
        }
        for (long at = 0, row = 0; at < r.size; at += r.block, row += r.block + r.gap)
            if (r.is_put)
                memcpy(r.memory + row, r.ldm + at, r.block);
            else
                memcpy(r.ldm + at, r.memory + row, r.block);
        ++*reply;
    }
    count = kept;
    if (*reply != value)
        fail("a wait for another number of requests than were made");
}

int athread_get(dma_mode mode, void *src, void *dest, int len, void *reply, char mask, int stride,
                int bsize)
{
    (void)mode, (void)mask;
    return request(dest, src, len, bsize, stride, reply, 0);
}

int athread_put(dma_mode mode, void *src, void *dest, int len, void *reply, int stride, int bsize)
{
    (void)mode;
    return request(src, dest, len, bsize, stride, reply, 1);
}

int athread_dma_iget(void *dst, void *src, unsigned long len, void *reply)
{
    return request(dst, src, len, 0, 0, reply, 0);
}

int athread_dma_iput(void *dst, void *src, unsigned long len, void *reply)
{
    return request(src, dst, len, 0, 0, reply, 1);
}

int athread_dma_iget_stride(void *dst, void *src, unsigned long len, unsigned long bsize,
                            unsigned long stride, void *reply)
{
    return request(dst, src, len, bsize, stride, reply, 0);
}

int athread_dma_iput_stride(void *dst, void *src, unsigned long len, unsigned long bsize,
                            unsigned long stride, void *reply)
{
    return request(src, dst, len, bsize, stride, reply, 1);
}

void dma_wait(volatile void *reply, int value)
{
    done(reply, value);
}

int athread_dma_wait_value(void *reply, int value)
{
    done(reply, value);
    return 0;
}

int athread_syn(scope which, int mask)
{
    if (which != ARRAY_SCOPE || mask != 0xffff)
        fail("a barrier of some cores");
    pthread_barrier_wait(&barrier);
    return 0;
}

int athread_ssync_array(void)
{
    pthread_barrier_wait(&barrier);
    return 0;
}

static void *run(void *number)
{
    shim_id = (int)(long)number;
    entry(given);
    if (count)
        fail("the end is reached before the end of a request");
    return 0;
}

int athread_init(void)
{
    pthread_barrier_init(&barrier, 0, CORES);
    return 0;
}

void shim_spawn(void (*function)(void *), void *argument)
{
    shim_spawns++;
    entry = function;
    given = argument;
    for (long k = 0; k < CORES; k++)
        if (pthread_create(&threads[k], 0, run, (void *)k))
            abort();
}

int athread_join(void)
{
    for (int k = 0; k < CORES; k++)
        pthread_join(threads[k], 0);
    return 0;
}

int athread_halt(void)
{
    return 0;
}
