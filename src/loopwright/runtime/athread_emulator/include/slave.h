/* The CPE side of Athread, for the emulator: what a slave source includes.
 *
 * Both generations are here, told apart by the names of their functions. `stride` is the gap in
 * bytes between two blocks in main memory; the side of the LDM is packed.
 */
#ifndef LW_SLAVE_H
#define LW_SLAVE_H

#include "athread_types.h"

#if defined(__APPLE__)
#define LW_LDM __attribute__((section("__DATA,lw_ldm"), used))
#else
#define LW_LDM __attribute__((section("lw_ldm"), used))
#endif
#define __thread_local LW_LDM
#define __thread_local_fix LW_LDM
#define __thread_kernel(name) LW_LDM
#define __ldm LW_LDM

/* -- who a CPE is ------------------------------------------------------------------------------ */

int athread_get_id(int core); /* -1: of the calling CPE */
long lw_csr(int number);      /* 0 number of the CPE, 1 row, 2 column, 4 cycles */
#define _MYID ((int)lw_csr(0))
#define _PEN ((char)lw_csr(0))
#define _ROW ((char)lw_csr(1))
#define _COL ((char)lw_csr(2))
#define _CGN ((char)0)
unsigned long athread_stime_cycle(void);
unsigned long athread_time_cycle(void);

/* -- LDM --------------------------------------------------------------------------------------- */

void *ldm_malloc(size_t bytes);
void ldm_free(void *start, size_t bytes);
long get_allocatable_size(void);

/* -- DMA of SW26010 ---------------------------------------------------------------------------- */

int athread_get(dma_mode mode, void *src, void *dest, int len, void *reply, char mask, int stride,
                int bsize);
int athread_put(dma_mode mode, void *src, void *dest, int len, void *reply, int stride, int bsize);

/* -- DMA of SW26010-Pro: block size before gap ---------------------------------------------------- */

int athread_dma_get(void *dst, void *src, size_t len);
int athread_dma_put(void *dst, void *src, size_t len);
int athread_dma_get_stride(void *dst, void *src, size_t len, size_t bsize, size_t stride);
int athread_dma_put_stride(void *dst, void *src, size_t len, size_t bsize, size_t stride);
int athread_dma_iget(void *dst, void *src, size_t len, void *reply);
int athread_dma_iput(void *dst, void *src, size_t len, void *reply);
int athread_dma_iget_stride(void *dst, void *src, size_t len, size_t bsize, size_t stride,
                            void *reply);
int athread_dma_iput_stride(void *dst, void *src, size_t len, size_t bsize, size_t stride,
                            void *reply);
int athread_dma_ibcast(void *dst, void *src, size_t len, void *reply);
int athread_dma_row_ibcast(void *dst, void *src, size_t len, void *reply);
int athread_dma_col_ibcast(void *dst, void *src, size_t len, void *reply);
int athread_dma_ibcast_stride(void *dst, void *src, size_t len, size_t bsize, size_t stride,
                              void *reply);
int athread_dma_row_ibcast_stride(void *dst, void *src, size_t len, size_t bsize, size_t stride,
                                  void *reply);
int athread_dma_col_ibcast_stride(void *dst, void *src, size_t len, size_t bsize, size_t stride,
                                  void *reply);
int athread_dma_bcast_coll(void *dst, void *src, size_t len);
int athread_dma_wait_value(void *reply, int value);

/* -- RMA of SW26010-Pro: from LDM to LDM ------------------------------------------------------------ */

int athread_rma_iput(void *local, void *local_reply, size_t len, int core, void *remote,
                     void *remote_reply);
int athread_rma_iget(void *local, void *local_reply, size_t len, int core, void *remote,
                     void *remote_reply);
int athread_rma_row_ibcast(void *dst, void *src, size_t len, void *local_reply,
                           void *remote_reply);
int athread_rma_col_ibcast(void *dst, void *src, size_t len, void *local_reply,
                           void *remote_reply);
int athread_rma_ibcast(void *dst, void *src, size_t len, void *local_reply, void *remote_reply);
int athread_rma_wait_value(void *reply, int value);

/* -- barriers and fences ----------------------------------------------------------------------------- */

int athread_syn(scope which, int mask);
int athread_ssync(scope which, int mask);
int athread_ssync_array(void);
int athread_ssync_row(void);
int athread_ssync_col(void);
#define sync_array() athread_ssync_array()
void athread_memory_barrier(void);
int athread_dma_barrier(void); /* earlier requests of this CPE have ended before later ones begin */

#include "dma.h"
#include "simd.h"

#endif
