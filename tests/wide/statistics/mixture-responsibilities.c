/* Expectation and maximisation of a mixture of Gaussians with diagonal covariances: shares of the
   components in every point, computed safely in logarithms, then the new means. */
#ifndef EXTENT_n
#define EXTENT_n 40000
#define EXTENT_k 12
#define EXTENT_d 8
#endif
#include "kernel.h"

void kernel_mixture_responsibilities(int n, int k, int d, DATA MATRIX(x, n, d), DATA MATRIX(mu, k, d),
                                     DATA MATRIX(precision, k, d), DATA VECTOR(logweight, k),
                                     DATA MATRIX(share, n, k), DATA VECTOR(total, k),
                                     DATA MATRIX(moved, k, d))
{
    int i, c, f;
    DATA top, norm;

#pragma scop
    for (i = 0; i < BOUND(n); i++) {
        top = REAL(-1.0e30);
        for (c = 0; c < BOUND(k); c++) {
            share[i][c] = logweight[c];
            for (f = 0; f < BOUND(d); f++)
                share[i][c] -= REAL(0.5) * precision[c][f] * (x[i][f] - mu[c][f])
                               * (x[i][f] - mu[c][f]);
            top = GREATER(top, share[i][c]);
        }
        norm = 0;
        for (c = 0; c < BOUND(k); c++) {
            share[i][c] = EXP(share[i][c] - top);
            norm += share[i][c];
        }
        for (c = 0; c < BOUND(k); c++)
            share[i][c] /= norm;
    }
    for (c = 0; c < BOUND(k); c++) {
        total[c] = 0;
        for (i = 0; i < BOUND(n); i++)
            total[c] += share[i][c];
        for (f = 0; f < BOUND(d); f++) {
            moved[c][f] = 0;
            for (i = 0; i < BOUND(n); i++)
                moved[c][f] += share[i][c] * x[i][f];
            moved[c][f] /= total[c];
        }
    }
#pragma endscop
}
