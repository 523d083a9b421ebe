/* Covariances of m columns of n observations each. */
#ifndef EXTENT_m
#define EXTENT_m 800
#define EXTENT_n 960
#endif
#include "kernel.h"

void kernel_covariance(int m, int n, DATA count, DATA MATRIX(data, n, m), DATA MATRIX(cov, m, m),
                       DATA VECTOR(mean, m))
{
    int i, j, k;

#pragma scop
    for (j = 0; j < BOUND(m); j++) {
        mean[j] = REAL(0.0);
        for (i = 0; i < BOUND(n); i++)
            mean[j] += data[i][j];
        mean[j] /= count;
    }
    for (i = 0; i < BOUND(n); i++)
        for (j = 0; j < BOUND(m); j++)
            data[i][j] -= mean[j];
    for (i = 0; i < BOUND(m); i++)
        for (j = i; j < BOUND(m); j++) {
            cov[i][j] = REAL(0.0);
            for (k = 0; k < BOUND(n); k++)
                cov[i][j] += data[k][i] * data[k][j];
            cov[i][j] /= (count - REAL(1.0));
            cov[j][i] = cov[i][j];
        }
#pragma endscop
}
