/* y = A' (A x). */
#ifndef EXTENT_m
#define EXTENT_m 1900
#define EXTENT_n 2100
#endif
#include "kernel.h"

void kernel_atax(int m, int n, DATA MATRIX(A, m, n), DATA VECTOR(x, n), DATA VECTOR(y, n),
                 DATA VECTOR(Ax, m))
{
    int i, j;

#pragma scop
    for (i = 0; i < BOUND(n); i++)
        y[i] = 0;
    for (i = 0; i < BOUND(m); i++) {
        Ax[i] = REAL(0.0);
        for (j = 0; j < BOUND(n); j++)
            Ax[i] = Ax[i] + A[i][j] * x[j];
        for (j = 0; j < BOUND(n); j++)
            y[j] = y[j] + A[i][j] * Ax[i];
    }
#pragma endscop
}
