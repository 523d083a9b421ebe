#include "task.h"
#include <slave.h>

/* Each CPE has two rows, and of row i the columns up to a bound that differs: its neighbour in the
 * same two rows has the others. A put of the box around its part takes some of the neighbour's. */
__thread_local volatile int reply;
__thread_local double box[4][N];

void kernel(Task *task) {
    int pair = _MYID / 2, is_right = _MYID % 2, first = 4 * pair;
    reply = 0;
    athread_get(PE_MODE, task->a[first], box, sizeof box, (void *)&reply, 0, 0, 0);
    while (reply != 1) {}
    for (int i = 0; i < 4; i++) {
        int cut = 16 * (i + 1), from = is_right ? cut : 0, to = is_right ? N : cut;
        for (int j = from; j < to; j++) box[i][j] *= 2;
    }
    reply = 0;
#ifdef BAD
    int from = is_right ? 16 : 0, to = is_right ? N : 64, count = 1;
    for (int i = 0; i < 4; i++)
        for (int j = from; j < to; j++) (&box[0][0])[i * (to - from) + j - from] = box[i][j];
    athread_put(PE_MODE, box, &task->b[first][from], 4 * (to - from) * 8, (void *)&reply, /* fault */
                (N - (to - from)) * 8, (to - from) * 8);
#else
    int count = 4;
    for (int i = 0; i < 4; i++) {
        int cut = 16 * (i + 1), from = is_right ? cut : 0, to = is_right ? N : cut;
        athread_put(PE_MODE, &box[i][from], &task->b[first + i][from], (to - from) * 8,
                    (void *)&reply, 0, 0);
    }
#endif
    while (reply != count) {}
}
