/* What both sides of Athread share. */
#ifndef LW_ATHREAD_TYPES_H
#define LW_ATHREAD_TYPES_H

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { PE_MODE, BCAST_MODE, ROW_MODE, BROW_MODE, RANK_MODE } dma_mode;
typedef enum { DMA_PUT, DMA_GET, DMA_PUT_P, DMA_GET_P, DMA_BARRIER = 5 } DMA_OP;
typedef enum { ROW_SCOPE, COL_SCOPE, ARRAY_SCOPE } scope;
typedef volatile int athread_rply_t;

#endif
