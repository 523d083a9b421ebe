/* Columns moved to mean 0 and spread 1, then cut off at three spreads. */
#ifndef EXTENT_n
#define EXTENT_n 20000
#endif
#ifndef EXTENT_m
#define EXTENT_m 250
#endif
#ifndef DATA
#define DATA float
#endif
#include "kernel.h"

void kernel_scale_columns(int n, int m, DATA rows, DATA MATRIX(x, n, m), DATA VECTOR(mean, m),
                          DATA VECTOR(spread, m))
{
    int i, j;

#pragma scop
    for (j = 0; j < BOUND(m); j++) {
        mean[j] = REAL(0.0);
        for (i = 0; i < BOUND(n); i++)
            mean[j] += x[i][j];
        mean[j] /= rows;
        spread[j] = REAL(0.0);
        for (i = 0; i < BOUND(n); i++)
            spread[j] += (x[i][j] - mean[j]) * (x[i][j] - mean[j]);
        spread[j] = SQRT(spread[j] / rows) + REAL(0.001);
        for (i = 0; i < BOUND(n); i++) {
            x[i][j] = (x[i][j] - mean[j]) / spread[j];
            x[i][j] = LESSER(GREATER(x[i][j], REAL(-3.0)), REAL(3.0));
        }
    }
#pragma endscop
}
