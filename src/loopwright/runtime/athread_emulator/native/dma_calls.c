/* The functions of Athread that move data: DMA of both generations, and RMA of the newer one. */

#include "emulator.h"

enum { PE = 0, BCAST = 1, BROW = 3 }; /* of dma_mode */

static Kind kind_of_mode(const char *name, int mode, int *which) {
    if (mode == PE) return GET;
    if (mode != BCAST && mode != BROW)
        fault(lw_call_site, "calls %s in a mode that is not emulated: PE_MODE, BCAST_MODE and "
              "BROW_MODE are", name);
    *which = mode == BCAST ? WHOLE_TEAM : ROW_OF_TEAM;
    return BROADCAST;
}

int athread_get(int mode, void *src, void *dest, int len, void *reply, char mask, int stride,
                int bsize) {
    int which = 0;
    need_cpe("athread_get");
    Kind kind = kind_of_mode("athread_get", mode, &which);
    (void)mask;
    transfer("athread_get", kind, src, dest, len, bsize, stride, reply, targets_of(which));
    return 0;
}

int athread_put(int mode, void *src, void *dest, int len, void *reply, int stride, int bsize) {
    need_cpe("athread_put");
    if (mode != PE) fault(lw_call_site, "calls athread_put in another mode than PE_MODE");
    transfer("athread_put", PUT, dest, src, len, bsize, stride, reply, 0);
    return 0;
}

void *lw_reply_of(unsigned word);

struct lw_descriptor {
    unsigned size : 24, op : 4, mode : 4;
    unsigned bsize : 24, mask : 8;
    unsigned reply, stepsize;
};

void lw_dma(unsigned __int128 descriptor, void *memory, void *ldm) {
    struct lw_descriptor d;
    memcpy(&d, &descriptor, sizeof d);
    int which = 0;
    need_cpe("dma");
    if (d.op == 5) return; /* a barrier of transfers: all waits are by replies here */
    if (d.op > 1) fault(lw_call_site, "calls dma with operation %u, which is not emulated", d.op);
    Kind kind = kind_of_mode("dma", (int)d.mode, &which);
    transfer(d.op ? "dma (get)" : "dma (put)", d.op ? kind : PUT, memory, ldm, (long)d.size,
             d.stepsize ? (long)d.bsize : 0, (long)(int)d.stepsize, lw_reply_of(d.reply),
             targets_of(which));
}

void dma_wait(volatile void *reply, int value) {
    wait_for("dma_wait", (volatile int *)reply, value);
}

/* Those that wait by themselves, on a reply that is nobody else's. */
static LDM_VARIABLE volatile int own_reply;

static int blocking(const char *name, Kind kind, void *memory, void *ldm, long len, long bsize,
                    long stride) {
    int site = told_site(lw_call_site);
    need_cpe(name);
    own_reply = 0;
    transfer(name, kind, memory, ldm, len, bsize, stride, &own_reply, 0);
    lw_call_site = site;
    wait_for(name, &own_reply, 1);
    return 0;
}

int athread_dma_get(void *dst, void *src, size_t len) {
    return blocking("athread_dma_get", GET, src, dst, (long)len, 0, 0);
}

int athread_dma_put(void *dst, void *src, size_t len) {
    return blocking("athread_dma_put", PUT, dst, src, (long)len, 0, 0);
}

int athread_dma_get_stride(void *dst, void *src, size_t len, size_t bsize, size_t stride) {
    return blocking("athread_dma_get_stride", GET, src, dst, (long)len, (long)bsize, (long)stride);
}

int athread_dma_put_stride(void *dst, void *src, size_t len, size_t bsize, size_t stride) {
    return blocking("athread_dma_put_stride", PUT, dst, src, (long)len, (long)bsize, (long)stride);
}

static int started_transfer(const char *name, Kind kind, int which, void *memory, void *ldm,
                            size_t len, size_t bsize, size_t stride, void *reply) {
    need_cpe(name);
    transfer(name, kind, memory, ldm, (long)len, (long)bsize, (long)stride, reply,
             targets_of(which));
    return 0;
}

int athread_dma_iget(void *dst, void *src, size_t len, void *reply) {
    return started_transfer("athread_dma_iget", GET, 0, src, dst, len, 0, 0, reply);
}

int athread_dma_iput(void *dst, void *src, size_t len, void *reply) {
    return started_transfer("athread_dma_iput", PUT, 0, dst, src, len, 0, 0, reply);
}

int athread_dma_iget_stride(void *dst, void *src, size_t len, size_t bsize, size_t stride,
                            void *reply) {
    return started_transfer("athread_dma_iget_stride", GET, 0, src, dst, len, bsize, stride, reply);
}

int athread_dma_iput_stride(void *dst, void *src, size_t len, size_t bsize, size_t stride,
                            void *reply) {
    return started_transfer("athread_dma_iput_stride", PUT, 0, dst, src, len, bsize, stride, reply);
}

#define BROADCASTS(name, which)                                                                    \
    int name(void *dst, void *src, size_t len, void *reply) {                                      \
        return started_transfer(#name, BROADCAST, which, src, dst, len, 0, 0, reply);              \
    }                                                                                              \
    int name##_stride(void *dst, void *src, size_t len, size_t bsize, size_t stride,               \
                      void *reply) {                                                               \
        return started_transfer(#name "_stride", BROADCAST, which, src, dst, len, bsize, stride,   \
                                reply);                                                            \
    }
BROADCASTS(athread_dma_ibcast, WHOLE_TEAM)
BROADCASTS(athread_dma_row_ibcast, ROW_OF_TEAM)
BROADCASTS(athread_dma_col_ibcast, COLUMN_OF_TEAM)

int athread_ssync_array(void);

int athread_dma_bcast_coll(void *dst, void *src, size_t len) {
    int site = told_site(lw_call_site);
    Cpe *cpe = need_cpe("athread_dma_bcast_coll");
    athread_ssync_array();
    lw_call_site = site;
    if (cpe->id == __builtin_ctzll(team_members())) {
        own_reply = 0;
        transfer("athread_dma_bcast_coll", BROADCAST, src, dst, (long)len, 0, 0, &own_reply,
                 team_members());
        lw_call_site = site;
        wait_for("athread_dma_bcast_coll", &own_reply, 1);
        lw_call_site = site;
    }
    return athread_ssync_array();
}

int athread_dma_wait_value(void *reply, int value) {
    wait_for("athread_dma_wait_value", reply, value);
    return 0;
}

static uint64_t core_bit(const char *name, int core) {
    if (core < 0 || core >= cpe_count() || !(team_members() >> core & 1))
        fault(lw_call_site, "calls %s with CPE %d, which is not of the team", name, core);
    return 1ull << core;
}

int athread_rma_iput(void *local, void *local_reply, size_t len, int core, void *other,
                     void *remote_reply) {
    need_cpe("athread_rma_iput");
    return remote("athread_rma_iput", REMOTE_PUT, local, local_reply, (long)len, other,
                  remote_reply, core_bit("athread_rma_iput", core));
}

int athread_rma_iget(void *local, void *local_reply, size_t len, int core, void *other,
                     void *remote_reply) {
    need_cpe("athread_rma_iget");
    return remote("athread_rma_iget", REMOTE_GET, local, local_reply, (long)len, other,
                  remote_reply, core_bit("athread_rma_iget", core));
}

#define REMOTE_BROADCASTS(name, which)                                                             \
    int name(void *dst, void *src, size_t len, void *local_reply, void *remote_reply) {            \
        need_cpe(#name);                                                                           \
        return remote(#name, REMOTE_BROADCAST, dst, local_reply, (long)len, src, remote_reply,     \
                      targets_of(which));                                                          \
    }
REMOTE_BROADCASTS(athread_rma_row_ibcast, ROW_OF_TEAM)
REMOTE_BROADCASTS(athread_rma_col_ibcast, COLUMN_OF_TEAM)
REMOTE_BROADCASTS(athread_rma_ibcast, WHOLE_TEAM)

int athread_rma_wait_value(void *reply, int value) {
    wait_for("athread_rma_wait_value", reply, value);
    return 0;
}
