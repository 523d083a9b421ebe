#include "task.h"
#include <slave.h>

__thread_local volatile int reply;
__thread_local double rows[ROWS][N];

/* The factor goes down the columns. */
void kernel(Task *task) {
    int first = ROWS * _MYID;
    doublev4 factor = 2;
    if (_ROW == 0) {
        asm volatile("putc %0,%1\n" ::"r"(factor), "r"(8));
#ifdef BAD
        simd_putc(factor, 4); /* fault */
#endif
    } else {
        asm volatile("getc %0\n" : "=r"(factor));
    }
    reply = 0;
    athread_get(PE_MODE, task->a[first], rows, sizeof rows, (void *)&reply, 0, 0, 0);
    while (reply != 1) {}
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < N; j++) rows[i][j] *= simd_vextf0(factor);
    reply = 0;
    athread_put(PE_MODE, rows, task->b[first], sizeof rows, (void *)&reply, 0, 0);
    while (reply != 1) {}
}
