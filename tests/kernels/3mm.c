/* G = (A B) (C D), inner products one after another. */
#ifndef EXTENT_ni
#define EXTENT_ni 560
#define EXTENT_nj 630
#define EXTENT_nk 700
#define EXTENT_nl 770
#define EXTENT_nm 840
#endif
#include "kernel.h"

void kernel_3mm(int ni, int nj, int nk, int nl, int nm, DATA MATRIX(AB, ni, nj),
                DATA MATRIX(A, ni, nk), DATA MATRIX(B, nk, nj), DATA MATRIX(CD, nj, nl),
                DATA MATRIX(C, nj, nm), DATA MATRIX(D, nm, nl), DATA MATRIX(G, ni, nl))
{
    int i, j, k;

#pragma scop
    for (i = 0; i < BOUND(ni); i++)
        for (j = 0; j < BOUND(nj); j++) {
            AB[i][j] = REAL(0.0);
            for (k = 0; k < BOUND(nk); ++k)
                AB[i][j] += A[i][k] * B[k][j];
        }
    for (i = 0; i < BOUND(nj); i++)
        for (j = 0; j < BOUND(nl); j++) {
            CD[i][j] = REAL(0.0);
            for (k = 0; k < BOUND(nm); ++k)
                CD[i][j] += C[i][k] * D[k][j];
        }
    for (i = 0; i < BOUND(ni); i++)
        for (j = 0; j < BOUND(nl); j++) {
            G[i][j] = REAL(0.0);
            for (k = 0; k < BOUND(nj); ++k)
                G[i][j] += AB[i][k] * CD[k][j];
        }
#pragma endscop
}
