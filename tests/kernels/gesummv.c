/* y = alpha A x + beta B x. */
#ifndef EXTENT_n
#define EXTENT_n 1300
#endif
#include "kernel.h"

void kernel_gesummv(int n, DATA alpha, DATA beta, DATA MATRIX(A, n, n), DATA MATRIX(B, n, n),
                    DATA VECTOR(Ax, n), DATA VECTOR(x, n), DATA VECTOR(y, n))
{
    int i, j;

#pragma scop
    for (i = 0; i < BOUND(n); i++) {
        Ax[i] = REAL(0.0);
        y[i] = REAL(0.0);
        for (j = 0; j < BOUND(n); j++) {
            Ax[i] = A[i][j] * x[j] + Ax[i];
            y[i] = B[i][j] * x[j] + y[i];
        }
        y[i] = alpha * Ax[i] + beta * y[i];
    }
#pragma endscop
}
