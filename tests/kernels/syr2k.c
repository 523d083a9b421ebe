/* The lower triangle of C = beta C + alpha A B' + alpha B A'. */
#ifndef EXTENT_n
#define EXTENT_n 960
#define EXTENT_m 800
#endif
#include "kernel.h"

void kernel_syr2k(int n, int m, DATA alpha, DATA beta, DATA MATRIX(C, n, n), DATA MATRIX(A, n, m),
                  DATA MATRIX(B, n, m))
{
    int i, j, k;

#pragma scop
    for (i = 0; i < BOUND(n); i++) {
        for (j = 0; j <= i; j++)
            C[i][j] *= beta;
        for (k = 0; k < BOUND(m); k++)
            for (j = 0; j <= i; j++)
                C[i][j] += A[j][k] * alpha * B[i][k] + B[j][k] * alpha * A[i][k];
    }
#pragma endscop
}
