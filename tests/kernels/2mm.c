/* D = beta D + (alpha A B) C, inner products one after another. */
#ifndef EXTENT_ni
#define EXTENT_ni 640
#define EXTENT_nj 720
#define EXTENT_nk 880
#define EXTENT_nl 960
#endif
#include "kernel.h"

void kernel_2mm(int ni, int nj, int nk, int nl, DATA alpha, DATA beta, DATA MATRIX(AB, ni, nj),
                DATA MATRIX(A, ni, nk), DATA MATRIX(B, nk, nj), DATA MATRIX(C, nj, nl),
                DATA MATRIX(D, ni, nl))
{
    int i, j, k;

#pragma scop
    for (i = 0; i < BOUND(ni); i++)
        for (j = 0; j < BOUND(nj); j++) {
            AB[i][j] = REAL(0.0);
            for (k = 0; k < BOUND(nk); ++k)
                AB[i][j] += alpha * A[i][k] * B[k][j];
        }
    for (i = 0; i < BOUND(ni); i++)
        for (j = 0; j < BOUND(nl); j++) {
            D[i][j] *= beta;
            for (k = 0; k < BOUND(nj); ++k)
                D[i][j] += AB[i][k] * C[k][j];
        }
#pragma endscop
}
