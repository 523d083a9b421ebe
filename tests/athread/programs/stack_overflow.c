#include "task.h"
#include <slave.h>

#ifdef BAD
enum { SIZE = 8100 };
#else
enum { SIZE = 7600 };
#endif
__thread_local double shift[128];

void kernel(Task *task) {
    double all[SIZE];
    volatile int reply = 0; /* fault */
    int first = ROWS * _MYID;
    athread_get(PE_MODE, task->a[first], all, sizeof(double[ROWS][N]), (void *)&reply, 0, 0, 0);
    while (reply != 1) {}
    for (int i = 0; i < ROWS * N; i++) all[i] = 2 * all[i] + shift[i % 128];
    reply = 0;
    athread_put(PE_MODE, all, task->b[first], sizeof(double[ROWS][N]), (void *)&reply, 0, 0);
    while (reply != 1) {}
}
