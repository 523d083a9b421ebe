#include "task.h"
#include <slave.h>

/* SW26010-Pro: block size before gap, RMA. The first column of CPEs brings rows to its row. */
enum { W = 16 };
__thread_local_fix double all[16][N], box[16][W];
__thread_kernel("compute") athread_rply_t arrived;

void kernel(Task *task) {
    athread_rply_t reply = 0, sent = 0;
    double(*rows)[N] = ldm_malloc(sizeof(double[16][N]));
    arrived = 0;
    athread_ssync_array();
    if (_COL == 0) {
        athread_dma_iget(rows, task->a[16 * _ROW], sizeof(double[16][N]), &reply);
        athread_dma_wait_value(&reply, 1);
        athread_rma_row_ibcast(all, rows, sizeof all, &sent, &arrived);
        athread_rma_wait_value(&sent, 1);
    }
#ifdef BAD
    if (_COL == 0)
#endif
        athread_rma_wait_value(&arrived, 1);
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < W; j++)
            box[i][j] = 2 * all[i][W * _COL + j]; /* fault */
    athread_dma_put_stride(&task->b[16 * _ROW][W * _COL], box, sizeof box, W * 8, (N - W) * 8);
    ldm_free(rows, sizeof(double[16][N]));
}
