/* A becomes L below the diagonal (whose own diagonal is 1) and U above. */
#ifndef EXTENT_n
#define EXTENT_n 1200
#endif
#include "kernel.h"

void kernel_lu(int n, DATA MATRIX(A, n, n))
{
    int i, j, k;

#pragma scop
    for (i = 0; i < BOUND(n); i++) {
        for (j = 0; j < i; j++) {
            for (k = 0; k < j; k++)
                A[i][j] -= A[i][k] * A[k][j];
            A[i][j] /= A[j][j];
        }
        for (j = i; j < BOUND(n); j++)
            for (k = 0; k < i; k++)
                A[i][j] -= A[i][k] * A[k][j];
    }
#pragma endscop
}
