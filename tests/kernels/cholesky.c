/* The lower triangle of A becomes L where A = L L'. */
#ifndef EXTENT_n
#define EXTENT_n 1600
#endif
#include "kernel.h"

void kernel_cholesky(int n, DATA MATRIX(A, n, n))
{
    int i, j, k;

#pragma scop
    for (i = 0; i < BOUND(n); i++) {
        for (j = 0; j < i; j++) {
            for (k = 0; k < j; k++)
                A[i][j] -= A[i][k] * A[j][k];
            A[i][j] /= A[j][j];
        }
        for (k = 0; k < i; k++)
            A[i][i] -= A[i][k] * A[i][k];
        A[i][i] = SQRT(A[i][i]);
    }
#pragma endscop
}
