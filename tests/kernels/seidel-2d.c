/* The mean of nine neighbours, in place. */
#ifndef EXTENT_tsteps
#define EXTENT_tsteps 40
#define EXTENT_n 2000
#endif
#include "kernel.h"

void kernel_seidel_2d(int tsteps, int n, DATA MATRIX(A, n, n))
{
    int t, i, j;

#pragma scop
    for (t = 0; t <= BOUND(tsteps) - 1; t++)
        for (i = 1; i <= BOUND(n) - 2; i++)
            for (j = 1; j <= BOUND(n) - 2; j++)
                A[i][j] = (A[i - 1][j - 1] + A[i - 1][j] + A[i - 1][j + 1]
                           + A[i][j - 1] + A[i][j] + A[i][j + 1]
                           + A[i + 1][j - 1] + A[i + 1][j] + A[i + 1][j + 1]) / REAL(9.0);
#pragma endscop
}
