#include "task.h"
#include <slave.h>

__thread_local volatile int reply;
__thread_local double rows[ROWS][N];

void kernel(Task *task) {
    int first = ROWS * _MYID;
    char *from = (char *)task->a[first];
#ifdef BAD
    from += 2;
#endif
    reply = 0;
    athread_get(PE_MODE, from, rows, sizeof rows, (void *)&reply, 0, 0, 0); /* fault */
    while (reply != 1) {}
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < N; j++) rows[i][j] *= 2;
    reply = 0;
    athread_put(PE_MODE, rows, task->b[first], sizeof rows, (void *)&reply, 0, 0);
    while (reply != 1) {}
}
