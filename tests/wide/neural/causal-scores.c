/* Scores of a causal attention and their softmax; the part above the diagonal is zero. */
#include "kernel.h"
#ifndef EXTENT_n
#define EXTENT_n 700
#define EXTENT_d 64
#endif

void kernel_causal_scores(int n, int d, DATA MATRIX(q, n, d), DATA MATRIX(k, n, d),
                          DATA MATRIX(p, n, n))
{
    int i, j, c;

#pragma scop
    for (i = 0; i < BOUND(n); i++) {
        DATA sum = REAL(0.0);
        for (j = 0; j <= i; j++) {
            DATA s = REAL(0.0);
            for (c = 0; c < BOUND(d); c++)
                s += q[i][c] * k[j][c];
            p[i][j] = EXP(s * REAL(0.125));
            sum += p[i][j];
        }
        for (j = 0; j <= i; j++)
            p[i][j] = p[i][j] / sum;
        for (j = i + 1; j < BOUND(n); j++)
            p[i][j] = REAL(0.0);
    }
#pragma endscop
}
