#include "task.h"
#include <slave.h>

enum { W = 16 }; /* columns of a CPE; it takes 16 rows of them */
__thread_local volatile int reply;
__thread_local double box[16][W];

void kernel(Task *task) {
    int i = 16 * _ROW, j = W * _COL, block = W * 8, gap = (N - W) * 8;
    reply = 0;
#ifdef BAD
    athread_get(PE_MODE, &task->a[i][j], box, sizeof box, (void *)&reply, 0, block, gap); /* fault */
#else
    athread_get(PE_MODE, &task->a[i][j], box, sizeof box, (void *)&reply, 0, gap, block);
#endif
    while (reply != 1) {}
    for (int k = 0; k < 16 * W; k++) (&box[0][0])[k] *= 2;
    reply = 0;
    athread_put(PE_MODE, box, &task->b[i][j], sizeof box, (void *)&reply, gap, block);
    while (reply != 1) {}
}
