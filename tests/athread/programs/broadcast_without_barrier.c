#include "task.h"
#include <slave.h>

__thread_local volatile int reply;
__thread_local double rows[ROWS][N];

__thread_local double factors[4];

/* One CPE brings four factors to all. */
void kernel(Task *task) {
    static double twos[4] = {2, 2, 2, 2};
    int first = ROWS * _MYID;
    athread_syn(ARRAY_SCOPE, 0xffff);
    if (_MYID == 0) {
        reply = 0;
        athread_get(BCAST_MODE, twos, factors, sizeof factors, (void *)&reply, 0xff, 0, 0);
        while (reply != 1) {}
    }
#ifndef BAD
    athread_syn(ARRAY_SCOPE, 0xffff);
#endif
    reply = 0;
    athread_get(PE_MODE, task->a[first], rows, sizeof rows, (void *)&reply, 0, 0, 0);
    while (reply != 1) {}
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < N; j++)
            rows[i][j] *= factors[j % 4]; /* fault */
    reply = 0;
    athread_put(PE_MODE, rows, task->b[first], sizeof rows, (void *)&reply, 0, 0);
    while (reply != 1) {}
}
