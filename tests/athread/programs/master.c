#include "task.h"
#include <athread.h>
extern void SLAVE_FUN(kernel)(void *);

int main(void) {
    athread_init();
    Task task = {aligned_alloc(128, sizeof(double[N][N])), aligned_alloc(128, sizeof(double[N][N])), 0};
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            task.a[i][j] = i + 0.5 * j;
            task.b[i][j] = -1;
        }
    athread_spawn(kernel, &task);
#ifdef EARLY
    if (task.b[0][0] == 0) printf("zero\n"); /* fault on the host */
#endif
    athread_join();
    if (task.left) printf("%g\n", *task.left); /* fault on the host */
    int wrong = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) wrong += task.b[i][j] != 2 * task.a[i][j];
    printf("%d wrong\n", wrong);
    athread_halt();
    return wrong != 0;
}
