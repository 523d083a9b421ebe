#include "task.h"
#include <slave.h>

__thread_local volatile int reply;
__thread_local double rows[ROWS][N];

void kernel(Task *task) {
    int first = ROWS * _MYID;
    reply = 0;
    athread_get(PE_MODE, task->a[first], rows, sizeof rows, (void *)&reply, 0, 0, 0);
    while (reply != 1) {}
#ifdef BAD
    double *row = &rows[0][1];
#else
    double *row = &rows[0][0];
#endif
    for (int j = 0; j < ROWS * N; j += 4) {
        doublev4 v;
        simd_load(v, row + j); /* fault */
        v = simd_vaddd(v, v);
        simd_store(v, row + j);
    }
    reply = 0;
    athread_put(PE_MODE, rows, task->b[first], sizeof rows, (void *)&reply, 0, 0);
    while (reply != 1) {}
}
