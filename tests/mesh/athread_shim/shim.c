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
static pthread_barrier_t barrier, rows[8], columns[8];
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
    if (mask != (which == ARRAY_SCOPE ? 0xffff : 0xff))
        fail("a barrier of some cores");
    if (which == ARRAY_SCOPE)
        pthread_barrier_wait(&barrier);
    else
        pthread_barrier_wait(which == ROW_SCOPE ? &rows[shim_id / 8] : &columns[shim_id % 8]);
    return 0;
}

int athread_ssync_array(void)
{
    pthread_barrier_wait(&barrier);
    return 0;
}

/* Messages of 32 bytes: each core has a queue for its row and one for its column. */
#define PLACES 4
static struct {
    double place[PLACES][4];
    int first, count;
} queues[2][CORES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;

static int neighbour(int along_row, int number)
{
    return along_row ? shim_id / 8 * 8 + number : number * 8 + shim_id % 8;
}

void shim_send(int along_row, const void *value, int to)
{
    if (to < 0 || to > 8)
        fail("a message to a core that is none");
    pthread_mutex_lock(&lock);
    for (int k = 0; k < 8; k++) { /* 8 is all of them */
        int other = neighbour(along_row, k);
        if (other == shim_id || (to != 8 && k != to))
            continue;
        while (queues[along_row][other].count == PLACES)
            pthread_cond_wait(&moved, &lock);
        int at = (queues[along_row][other].first + queues[along_row][other].count++) % PLACES;
        memcpy(queues[along_row][other].place[at], value, 32);
        pthread_cond_broadcast(&moved);
    }
    pthread_mutex_unlock(&lock);
}

void shim_receive(int along_row, void *value)
{
    pthread_mutex_lock(&lock);
    while (!queues[along_row][shim_id].count)
        pthread_cond_wait(&moved, &lock);
    memcpy(value, queues[along_row][shim_id].place[queues[along_row][shim_id].first], 32);
    queues[along_row][shim_id].first = (queues[along_row][shim_id].first + 1) % PLACES;
    queues[along_row][shim_id].count--;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&lock);
}

int athread_ssync_row(void)
{
    pthread_barrier_wait(&rows[shim_id / 8]);
    return 0;
}

int athread_ssync_col(void)
{
    pthread_barrier_wait(&columns[shim_id % 8]);
    return 0;
}

/* Scratchpads are memory of threads: a broadcast says how far from the start of its own the target
 * lies, and each core of the row or column takes its copy when it waits. */
static __thread char own[4];
static char *starts[CORES];

static int give(int along_row, char *dst, char *src, unsigned long len, int *sent, int *arrived)
{
    for (int k = 0; k < 8; k++) {
        int other = neighbour(along_row, k);
        memmove(starts[other] + (dst - starts[shim_id]), src, len);
        __atomic_add_fetch((int *)(starts[other] + ((char *)arrived - starts[shim_id])), 1,
                           __ATOMIC_SEQ_CST);
    }
    ++*sent;
    return 0;
}

int athread_rma_row_ibcast(void *dst, void *src, unsigned long len, void *sent, void *arrived)
{
    return give(1, dst, src, len, sent, arrived);
}

int athread_rma_col_ibcast(void *dst, void *src, unsigned long len, void *sent, void *arrived)
{
    return give(0, dst, src, len, sent, arrived);
}

int athread_rma_iput(void *local, void *sent, unsigned long len, int core, void *remote,
                     void *arrived)
{
    memmove(starts[core] + ((char *)remote - starts[shim_id]), local, len);
    __atomic_add_fetch((int *)(starts[core] + ((char *)arrived - starts[shim_id])), 1,
                       __ATOMIC_SEQ_CST);
    ++*(int *)sent;
    return 0;
}

int athread_rma_wait_value(void *reply, int value)
{
    while (__atomic_load_n((int *)reply, __ATOMIC_SEQ_CST) < value)
        ;
    return 0;
}

static void *run(void *number)
{
    shim_id = (int)(long)number;
    starts[shim_id] = own;
    pthread_barrier_wait(&barrier);
    entry(given);
    if (count)
        fail("the end is reached before the end of a request");
    return 0;
}

int athread_init(void)
{
    pthread_barrier_init(&barrier, 0, CORES);
    for (int k = 0; k < 8; k++) {
        pthread_barrier_init(&rows[k], 0, 8);
        pthread_barrier_init(&columns[k], 0, 8);
    }
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
