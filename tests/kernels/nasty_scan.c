/* Sums that run: prefixes in place along both directions, long distances, strides in the reads. */
#ifndef EXTENT_n
#define EXTENT_n 1500
#define EXTENT_m 1300
#endif
#include "kernel.h"

void kernel_nasty_scan(int n, int m, DATA MATRIX(a, n, m), DATA VECTOR(x, n), DATA VECTOR(y, n))
{
    int i, j;

#pragma scop
    for (i = 0; i < BOUND(n); i++)
        for (j = 1; j < BOUND(m); j++)
            a[i][j] += a[i][j - 1];
    for (i = 1; i < BOUND(n); i++)
        for (j = 0; j < BOUND(m); j++)
            a[i][j] += a[i - 1][j];
    for (i = 64; i < BOUND(n); i++)
        x[i] = x[i - 64] + x[i];
    for (i = 0; 2 * i + 1 < BOUND(n); i++)
        y[i] = y[2 * i] - y[2 * i + 1];
    for (i = BOUND(n) - 2; i >= 0; i--)
        x[i] += x[i + 1] - y[i];
    for (i = 37; i < BOUND(n); i++)
        for (j = 0; j < BOUND(m) - 5; j++)
            a[i][j] = a[i][j] - a[i - 37][j + 5];
#pragma endscop
}
