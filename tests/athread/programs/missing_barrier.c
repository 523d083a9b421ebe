#include "task.h"
#include <slave.h>

__thread_local volatile int reply;
__thread_local double rows[ROWS][N];

/* Each CPE copies its rows, then doubles those that the next one has copied. */
void kernel(Task *task) {
    int first = ROWS * _MYID, next = ROWS * ((_MYID + 1) % 64);
    reply = 0;
    athread_get(PE_MODE, task->a[first], rows, sizeof rows, (void *)&reply, 0, 0, 0);
    while (reply != 1) {}
    reply = 0;
    athread_put(PE_MODE, rows, task->b[first], sizeof rows, (void *)&reply, 0, 0); /* fault or: */
    while (reply != 1) {}
#ifndef BAD
    athread_syn(ARRAY_SCOPE, 0xffff);
#endif
    reply = 0;
    athread_get(PE_MODE, task->b[next], rows, sizeof rows, (void *)&reply, 0, 0, 0); /* fault */
    while (reply != 1) {}
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < N; j++) rows[i][j] *= 2;
    reply = 0;
    athread_put(PE_MODE, rows, task->b[next], sizeof rows, (void *)&reply, 0, 0);
    while (reply != 1) {}
}
