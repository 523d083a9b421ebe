/* C = beta C + alpha A B, row by row. */
#ifndef EXTENT_ni
#define EXTENT_ni 1000
#define EXTENT_nj 1100
#define EXTENT_nk 1200
#endif
#include "kernel.h"

void kernel_gemm(int ni, int nj, int nk, DATA alpha, DATA beta, DATA MATRIX(C, ni, nj),
                 DATA MATRIX(A, ni, nk), DATA MATRIX(B, nk, nj))
{
    int i, j, k;

#pragma scop
    for (i = 0; i < BOUND(ni); i++) {
        for (j = 0; j < BOUND(nj); j++)
            C[i][j] *= beta;
        for (k = 0; k < BOUND(nk); k++)
            for (j = 0; j < BOUND(nj); j++)
                C[i][j] += alpha * A[i][k] * B[k][j];
    }
#pragma endscop
}
