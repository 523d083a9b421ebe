#include "task.h"
#include <slave.h>

__thread_local volatile int reply;
__thread_local double rows[ROWS][N];

#ifdef BAD
static double factor; /* in main memory, one for all */
#else
static __thread_local double factor;
#endif

void kernel(Task *task) {
    int first = ROWS * _MYID;
    factor = 2; /* fault */
    reply = 0;
    athread_get(PE_MODE, task->a[first], rows, sizeof rows, (void *)&reply, 0, 0, 0);
    while (reply != 1) {}
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < N; j++) rows[i][j] *= factor;
    reply = 0;
    athread_put(PE_MODE, rows, task->b[first], sizeof rows, (void *)&reply, 0, 0);
    while (reply != 1) {}
}
