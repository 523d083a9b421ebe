#include "task.h"
#include <slave.h>

__thread_local volatile int reply;
__thread_local double rows[ROWS][N];

void kernel(Task *task) {
    int first = ROWS * _MYID;
    reply = 0;
    athread_get(PE_MODE, task->a[first], rows, sizeof rows, (void *)&reply, 0, 0, 0);
    while (reply != 1) {}
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < N; j++) rows[i][j] *= 2;
    reply = 0;
    athread_put(PE_MODE, rows, task->b[first], sizeof rows, (void *)&reply, 0, 0); /* fault */
#ifndef BAD
    while (reply != 1) {}
#endif
}
