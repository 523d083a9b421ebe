/* B = alpha A' B, where A is lower triangular with ones on its diagonal. */
#ifndef EXTENT_m
#define EXTENT_m 850
#define EXTENT_n 1000
#endif
#include "kernel.h"

void kernel_trmm(int m, int n, DATA alpha, DATA MATRIX(A, m, m), DATA MATRIX(B, m, n))
{
    int i, j, k;

#pragma scop
    for (i = 0; i < BOUND(m); i++)
        for (j = 0; j < BOUND(n); j++) {
            for (k = i + 1; k < BOUND(m); k++)
                B[i][j] += A[k][i] * B[k][j];
            B[i][j] = alpha * B[i][j];
        }
#pragma endscop
}
