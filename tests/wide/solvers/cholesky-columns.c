/* Cholesky column by column: column j is corrected by all columns before it, then scaled. */
#ifndef EXTENT_n
#define EXTENT_n 700
#endif
#include "kernel.h"

void kernel_cholesky_columns(int n, DATA MATRIX(A, n, n))
{
#pragma scop
    for (int j = 0; j < BOUND(n); j++) {
        for (int k = 0; k < j; k++)
            for (int i = j; i < BOUND(n); i++)
                A[i][j] -= A[i][k] * A[j][k];
        A[j][j] = SQRT(A[j][j]);
        for (int i = j + 1; i < BOUND(n); i++)
            A[i][j] /= A[j][j];
    }
#pragma endscop
}
