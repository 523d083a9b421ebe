/* The mean of five neighbours, two buffers that take turns. */
#ifndef EXTENT_tsteps
#define EXTENT_tsteps 200
#define EXTENT_n 1300
#endif
#include "kernel.h"

void kernel_jacobi_2d(int tsteps, int n, DATA MATRIX(A, n, n), DATA MATRIX(B, n, n))
{
    int t, i, j;

#pragma scop
    for (t = 0; t < BOUND(tsteps); t++) {
        for (i = 1; i < BOUND(n) - 1; i++)
            for (j = 1; j < BOUND(n) - 1; j++)
                B[i][j] = REAL(0.2)
                          * (A[i][j] + A[i][j - 1] + A[i][1 + j] + A[1 + i][j] + A[i - 1][j]);
        for (i = 1; i < BOUND(n) - 1; i++)
            for (j = 1; j < BOUND(n) - 1; j++)
                A[i][j] = REAL(0.2)
                          * (B[i][j] + B[i][j - 1] + B[i][1 + j] + B[1 + i][j] + B[i - 1][j]);
    }
#pragma endscop
}
