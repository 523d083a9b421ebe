#include "task.h"
#include <slave.h>

__thread_local volatile int reply;
__thread_local double rows[2 * ROWS][N];

/* Two CPEs make the same rows: one stores their even bytes, the other one the odd bytes. */
void kernel(Task *task) {
    int first = 2 * ROWS * (_MYID / 2);
    reply = 0;
    athread_get(PE_MODE, task->a[first], rows, sizeof rows, (void *)&reply, 0, 0, 0);
    while (reply != 1) {}
    for (int i = 0; i < 2 * ROWS; i++)
        for (int j = 0; j < N; j++) rows[i][j] *= 2;
    const unsigned char *from = (const unsigned char *)rows;
    unsigned char *to = (unsigned char *)task->b[first];
    for (int i = _MYID % 2; i < (int)sizeof rows; i += 2) to[i] = from[i]; /* fault or: */
#ifdef BAD
    if (_MYID == 7) to[4] = from[4]; /* fault */
#endif
}
