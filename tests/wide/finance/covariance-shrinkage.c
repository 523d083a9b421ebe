/* Covariance of returns, shrunk towards a multiple of the identity. */
#ifndef EXTENT_days
#define EXTENT_days 800
#endif
#ifndef EXTENT_n
#define EXTENT_n 300
#endif
#include "kernel.h"

void kernel_covariance_shrinkage(int days, int n, DATA lambda, DATA count, DATA MATRIX(r, days, n),
                                 DATA VECTOR(mean, n), DATA MATRIX(cov, n, n))
{
    int t, i, j;
    DATA trace, sum;

#pragma scop
    for (i = 0; i < BOUND(n); i++) {
        mean[i] = 0;
        for (t = 0; t < BOUND(days); t++)
            mean[i] += r[t][i];
        mean[i] /= count;
    }
    for (t = 0; t < BOUND(days); t++)
        for (i = 0; i < BOUND(n); i++)
            r[t][i] -= mean[i];
    trace = 0;
    for (i = 0; i < BOUND(n); i++)
        for (j = i; j < BOUND(n); j++) {
            sum = 0;
            for (t = 0; t < BOUND(days); t++)
                sum += r[t][i] * r[t][j];
            cov[i][j] = sum / (count - 1);
            if (i == j)
                trace += cov[i][j];
        }
    for (i = 0; i < BOUND(n); i++) {
        for (j = i + 1; j < BOUND(n); j++) {
            cov[i][j] *= 1 - lambda;
            cov[j][i] = cov[i][j];
        }
        cov[i][i] = (1 - lambda) * cov[i][i] + lambda * trace / n;
    }
#pragma endscop
}
