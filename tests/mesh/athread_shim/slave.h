/* A stand-in for Athread: every core is a thread, a request moves its bytes when it is waited for. */
#ifndef SHIM_SLAVE_H
#define SHIM_SLAVE_H
#define __thread_local __thread
typedef enum { PE_MODE, BCAST_MODE, ROW_MODE, BROW_MODE, RANK_MODE } dma_mode;
typedef enum { ROW_SCOPE, COL_SCOPE, ARRAY_SCOPE } scope;
extern __thread int shim_id;
#define _MYID shim_id
#define _PEN shim_id
int athread_get(dma_mode mode, void *src, void *dest, int len, void *reply, char mask, int stride,
                int bsize);
int athread_put(dma_mode mode, void *src, void *dest, int len, void *reply, int stride, int bsize);
int athread_syn(scope which, int mask);
#define athread_dma_barrier() ((void)0) /* puts are waited for */
int athread_dma_iget(void *dst, void *src, unsigned long len, void *reply);
int athread_dma_iput(void *dst, void *src, unsigned long len, void *reply);
int athread_dma_iget_stride(void *dst, void *src, unsigned long len, unsigned long bsize,
                            unsigned long stride, void *reply);
int athread_dma_iput_stride(void *dst, void *src, unsigned long len, unsigned long bsize,
                            unsigned long stride, void *reply);
int athread_dma_wait_value(void *reply, int value);
int athread_ssync_array(void);
int athread_ssync_row(void);
int athread_ssync_col(void);
int athread_rma_iput(void *local, void *sent, unsigned long len, int core, void *remote,
                     void *arrived);
int athread_rma_row_ibcast(void *dst, void *src, unsigned long len, void *sent, void *arrived);
int athread_rma_col_ibcast(void *dst, void *src, unsigned long len, void *sent, void *arrived);
int athread_rma_wait_value(void *reply, int value);
#endif
