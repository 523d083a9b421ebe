/* Correlations of m columns of n observations each; columns that hardly vary count as spread 1. */
#ifndef EXTENT_m
#define EXTENT_m 800
#define EXTENT_n 960
#endif
#include "kernel.h"

void kernel_correlation(int m, int n, DATA count, DATA MATRIX(data, n, m), DATA MATRIX(corr, m, m),
                        DATA VECTOR(mean, m), DATA VECTOR(spread, m))
{
    int i, j, k;
    DATA least = REAL(0.1);

#pragma scop
    for (j = 0; j < BOUND(m); j++) {
        mean[j] = REAL(0.0);
        for (i = 0; i < BOUND(n); i++)
            mean[j] += data[i][j];
        mean[j] /= count;
    }
    for (j = 0; j < BOUND(m); j++) {
        spread[j] = REAL(0.0);
        for (i = 0; i < BOUND(n); i++)
            spread[j] += (data[i][j] - mean[j]) * (data[i][j] - mean[j]);
        spread[j] /= count;
        spread[j] = SQRT(spread[j]);
        /* what divides below must not vanish */
        spread[j] = spread[j] <= least ? REAL(1.0) : spread[j];
    }

    /* centred and scaled, so that inner products of columns are correlations */
    for (i = 0; i < BOUND(n); i++)
        for (j = 0; j < BOUND(m); j++) {
            data[i][j] -= mean[j];
            data[i][j] /= SQRT(count) * spread[j];
        }

    for (i = 0; i < BOUND(m) - 1; i++) {
        corr[i][i] = REAL(1.0);
        for (j = i + 1; j < BOUND(m); j++) {
            corr[i][j] = REAL(0.0);
            for (k = 0; k < BOUND(n); k++)
                corr[i][j] += data[k][i] * data[k][j];
            corr[j][i] = corr[i][j];
        }
    }
    corr[BOUND(m) - 1][BOUND(m) - 1] = REAL(1.0);
#pragma endscop
}
