/* The mean of three neighbours, two buffers that take turns. */
#ifndef EXTENT_tsteps
#define EXTENT_tsteps 500
#define EXTENT_n 200000
#endif
#include "kernel.h"

void kernel_jacobi_1d(int tsteps, int n, DATA VECTOR(A, n), DATA VECTOR(B, n))
{
    int t, i;

#pragma scop
    for (t = 0; t < BOUND(tsteps); t++) {
        for (i = 1; i < BOUND(n) - 1; i++)
            B[i] = 0.33333 * (A[i - 1] + A[i] + A[i + 1]);
        for (i = 1; i < BOUND(n) - 1; i++)
            A[i] = 0.33333 * (B[i - 1] + B[i] + B[i + 1]);
    }
#pragma endscop
}
