/* A = L U in place, right-looking: each pivot updates all that is left of the matrix. */
#ifndef EXTENT_n
#define EXTENT_n 900
#endif
#include "kernel.h"

void kernel_lu_right_looking(int n, DATA MATRIX(A, n, n))
{
    int i, j, k;

#pragma scop
    for (k = 0; k < BOUND(n); k++) {
        for (i = k + 1; i < BOUND(n); i++)
            A[i][k] = A[i][k] / A[k][k];
        for (i = k + 1; i < BOUND(n); i++)
            for (j = k + 1; j < BOUND(n); j++)
                A[i][j] = A[i][j] - A[i][k] * A[k][j];
    }
#pragma endscop
}
