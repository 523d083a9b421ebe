#include "task.h"
#include <slave.h>

/* The low level of SW26010; replies on the stack, two buffers. */
void kernel(Task *task) {
    double rows[ROWS][N];
    volatile int got[ROWS], put = 0;
    dma_desc get = 0, back = 0;
    dma_set_op(&get, DMA_GET);
    dma_set_mode(&get, PE_MODE);
    dma_set_size(&get, N * sizeof(double));
    dma_set_op(&back, DMA_PUT);
    dma_set_mode(&back, PE_MODE);
    dma_set_size(&back, N * sizeof(double));
    dma_set_reply(&back, &put);
    for (int i = 0; i < ROWS; i++) {
        got[i] = 0;
        dma_set_reply(&get, &got[i]);
        dma(get, task->a[ROWS * _MYID + i], rows[i]);
    }
    for (int i = 0; i < ROWS; i++) {
#ifdef BAD
        dma_wait(&got[0], 1);
#else
        dma_wait(&got[i], 1);
#endif
        for (int j = 0; j < N; j++)
            rows[i][j] *= 2; /* fault */
        dma(back, (long)task->b[ROWS * _MYID + i], (long)rows[i]);
    }
    dma_wait(&put, ROWS);
}
