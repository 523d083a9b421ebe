/* The lower triangle of C = beta C + alpha A A'. */
#ifndef EXTENT_n
#define EXTENT_n 1200
#define EXTENT_m 1000
#endif
#include "kernel.h"

void kernel_syrk(int n, int m, DATA alpha, DATA beta, DATA MATRIX(C, n, n), DATA MATRIX(A, n, m))
{
    int i, j, k;

#pragma scop
    for (i = 0; i < BOUND(n); i++) {
        for (j = 0; j <= i; j++)
            C[i][j] *= beta;
        for (k = 0; k < BOUND(m); k++)
            for (j = 0; j <= i; j++)
                C[i][j] += alpha * A[i][k] * A[j][k];
    }
#pragma endscop
}
