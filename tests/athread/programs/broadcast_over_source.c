#include "task.h"
#include <slave.h>

/* The first CPE of a row gives what it has to the others, each at its own place: the data stay
 * where they are in the LDM that they come from. */
__thread_local_fix double box[3][N];
__thread_local athread_rply_t arrived;

void kernel(Task *task) {
    for (int i = 16 * _ROW; i < 16 * _ROW + 16; i++) {
        athread_rply_t sent = 0;
        arrived = 0;
        athread_ssync_array();
        if (_COL == 0) {
            athread_dma_get(box[0], task->a[i], sizeof box[0]);
#ifdef BAD
            athread_rma_row_ibcast(&box[0][4], box[0], sizeof box[0], &sent, &arrived); /* fault */
#else
            athread_rma_row_ibcast(box[0], box[0], sizeof box[0], &sent, &arrived);
#endif
            box[1][0] = box[0][0]; /* to be read, not to be changed */
            athread_rma_wait_value(&sent, 1);
        }
        athread_rma_wait_value(&arrived, 1);
        for (int j = 0; j < 16; j++)
            box[2][j] = 2 * box[0][16 * _COL + j];
        athread_dma_put(&task->b[i][16 * _COL], box[2], 16 * sizeof(double));
    }
}
