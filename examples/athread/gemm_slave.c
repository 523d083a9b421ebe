/* Each CPE keeps its tile of C in its LDM, and gets the tiles of A and B for the next K steps while
 * it computes with those of the last: two buffers, each with a reply of its own. */
#include <slave.h>
#include "gemm.h"

__thread_local Matrices m;
__thread_local double a[2][T][K], b[2][K][T], c[T][T];
__thread_local volatile int got[2], put;

static void get(int buffer, int k) {
    got[buffer] = 0;
    athread_get(PE_MODE, &m.a[T * _ROW][k], a[buffer], sizeof a[0], (void *)&got[buffer], 0,
                (N - K) * 8, K * 8);
    athread_get(PE_MODE, &m.b[k][T * _COL], b[buffer], sizeof b[0], (void *)&got[buffer], 0,
                (N - T) * 8, T * 8);
}

void gemm(Matrices *task) {
    got[0] = 0;
    athread_get(PE_MODE, task, &m, sizeof m, (void *)&got[0], 0, 0, 0);
    while (got[0] != 1) {}

    doublev4 zero = 0;
    for (int i = 0; i < T; i++)
        for (int j = 0; j < T; j += 4) simd_store(zero, &c[i][j]);
    get(0, 0);
    for (int step = 0; step < N / K; step++) {
        int now = step % 2;
        if (step + 1 < N / K) get(1 - now, K * (step + 1));
        while (got[now] != 2) {}
        asm volatile("memb");
        for (int i = 0; i < T; i++)
            for (int j = 0; j < T; j += 4) {
                doublev4 sum, row;
                simd_load(sum, &c[i][j]);
                for (int k = 0; k < K; k++) {
                    simd_load(row, &b[now][k][j]);
                    sum = simd_vmad((doublev4)a[now][i][k], row, sum);
                }
                simd_store(sum, &c[i][j]);
            }
    }
    put = 0;
    athread_put(PE_MODE, c, &m.c[T * _ROW][T * _COL], sizeof c, (void *)&put, (N - T) * 8, T * 8);
    while (put != 1) {}
}
