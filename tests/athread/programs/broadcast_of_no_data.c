#include "task.h"
#include <slave.h>

/* What a CPE gives to its row has to be there: the get has ended. */
__thread_local_fix double box[N], all[N], out[16];
__thread_local athread_rply_t arrived;

void kernel(Task *task) {
    for (int i = 16 * _ROW; i < 16 * _ROW + 16; i++) {
        athread_rply_t sent = 0, reply = 0;
        arrived = 0;
        athread_ssync_array();
        if (_COL == 0) {
            athread_dma_iget(box, task->a[i], sizeof box, &reply);
#ifndef BAD
            athread_dma_wait_value(&reply, 1);
#endif
            athread_rma_row_ibcast(all, box, sizeof box, &sent, &arrived); /* fault */
            athread_rma_wait_value(&sent, 1);
        }
        athread_rma_wait_value(&arrived, 1);
        for (int j = 0; j < 16; j++)
            out[j] = 2 * all[16 * _COL + j];
        athread_dma_put(&task->b[i][16 * _COL], out, sizeof out);
    }
}
