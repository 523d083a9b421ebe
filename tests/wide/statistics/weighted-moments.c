/* Weighted sums of powers of every column in one pass; mean, variance, skewness and kurtosis
   after it. */
#ifndef EXTENT_n
#define EXTENT_n 40000
#define EXTENT_m 600
#endif
#include "kernel.h"

void kernel_weighted_moments(int n, int m, DATA MATRIX(x, n, m), DATA VECTOR(w, n),
                             DATA sums[5][EXTENT(m)], DATA moments[EXTENT(m)][4])
{
    int i, j, p;
    DATA mean, var, power;

#pragma scop
    for (p = 0; p < 5; p++)
        for (j = 0; j < BOUND(m); j++)
            sums[p][j] = 0;
    for (i = 0; i < BOUND(n); i++)
        for (j = 0; j < BOUND(m); j++) {
            power = w[i];
            for (p = 0; p < 5; p++) {
                sums[p][j] += power;
                power *= x[i][j];
            }
        }
    for (j = 0; j < BOUND(m); j++) {
        mean = sums[1][j] / sums[0][j];
        var = sums[2][j] / sums[0][j] - mean * mean;
        moments[j][0] = mean;
        moments[j][1] = var;
        moments[j][2] = (sums[3][j] / sums[0][j] - 3 * mean * var - mean * mean * mean)
                        / (var * SQRT(var));
        moments[j][3] = (sums[4][j] / sums[0][j] - 4 * mean * sums[3][j] / sums[0][j]
                         + 6 * mean * mean * sums[2][j] / sums[0][j]
                         - 3 * mean * mean * mean * mean) / (var * var);
    }
#pragma endscop
}
