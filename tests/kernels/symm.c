/* C = beta C + alpha A B, where A is symmetric and only its lower triangle is read. */
#ifndef EXTENT_m
#define EXTENT_m 800
#define EXTENT_n 960
#endif
#include "kernel.h"

void kernel_symm(int m, int n, DATA alpha, DATA beta, DATA MATRIX(C, m, n), DATA MATRIX(A, m, m),
                 DATA MATRIX(B, m, n))
{
    int i, j, k;
    DATA above;

#pragma scop
    for (i = 0; i < BOUND(m); i++)
        for (j = 0; j < BOUND(n); j++) {
            above = 0;
            for (k = 0; k < i; k++) {
                C[k][j] += alpha * B[i][j] * A[i][k];
                above += B[k][j] * A[i][k];
            }
            C[i][j] = beta * C[i][j] + alpha * B[i][j] * A[i][i] + alpha * above;
        }
#pragma endscop
}
