/* DMA by descriptors, the low level of SW26010. */
#ifndef LW_DMA_H
#define LW_DMA_H

#include "athread_types.h"

/* An integer type, since programs begin with `dma_desc d = 0`; what it says is kept beside it. */
typedef unsigned __int128 dma_desc;

struct lw_descriptor {
    unsigned size : 24, op : 4, mode : 4;
    unsigned bsize : 24, mask : 8;
    unsigned reply; /* as the LDM's own address of it, see lw_dma_reply */
    unsigned stepsize;
};

#define LW_DESCRIPTOR(d) ((struct lw_descriptor *)(d))
#define dma_set_op(d, x) ((void)(LW_DESCRIPTOR(d)->op = (x)))
#define dma_set_mode(d, x) ((void)(LW_DESCRIPTOR(d)->mode = (x)))
#define dma_set_size(d, x) ((void)(LW_DESCRIPTOR(d)->size = (x)))
#define dma_set_bsize(d, x) ((void)(LW_DESCRIPTOR(d)->bsize = (x)))
#define dma_set_stepsize(d, x) ((void)(LW_DESCRIPTOR(d)->stepsize = (x)))
#define dma_set_mask(d, x) ((void)(LW_DESCRIPTOR(d)->mask = (x)))
#define dma_set_reply(d, x) ((void)(LW_DESCRIPTOR(d)->reply = lw_dma_reply((void *)(x))))

unsigned lw_dma_reply(void *reply);
void lw_dma(dma_desc descriptor, void *memory, void *ldm);
#define dma(d, memory, ldm) lw_dma(d, (void *)(memory), (void *)(ldm))
void dma_wait(volatile void *reply, int value);

#endif
