/* C = A * B on the CPEs of a Sunway core group. Run it anywhere, on the emulator:
 *
 *     loopwright athread run examples/athread/gemm_master.c examples/athread/gemm_slave.c --profile
 */
#include <athread.h>
#include "gemm.h"

extern void SLAVE_FUN(gemm)(void *);

int main(void) {
    athread_init();
    Matrices task = {aligned_alloc(128, sizeof(double[N][N])), aligned_alloc(128, sizeof(double[N][N])),
                     aligned_alloc(128, sizeof(double[N][N]))};
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            task.a[i][j] = (i + 2 * j) % 7;
            task.b[i][j] = (3 * i - j) % 5;
        }
    athread_spawn(gemm, &task);
    athread_join();
    int wrong = 0;
    for (int i = 0; i < N; i += 17)
        for (int j = 0; j < N; j += 13) {
            double sum = 0;
            for (int k = 0; k < N; k++) sum += task.a[i][k] * task.b[k][j];
            wrong += task.c[i][j] != sum;
        }
    printf("%d elements differ\n", wrong);
    athread_halt();
    return wrong != 0;
}
