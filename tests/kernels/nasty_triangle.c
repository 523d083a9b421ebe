/* Triangles with offsets, trapezoids, the diagonal, a pentadiagonal update, empty loops. */
#ifndef EXTENT_n
#define EXTENT_n 1500
#endif
#include "kernel.h"

void kernel_nasty_triangle(int n, DATA MATRIX(a, n, n), DATA MATRIX(b, n, n), DATA VECTOR(d, n))
{
    int i, j, k;

#pragma scop
    for (i = 0; i < BOUND(n); i++)
        d[i] = a[i][i] + b[BOUND(n) - 1 - i][i];
    for (i = 2; i < BOUND(n); i++)
        for (j = 1; j < i - 1; j++)
            a[i][j] += d[i] - a[j][i];
    for (i = 0; i < BOUND(n); i++)
        for (j = i + 2; j <= BOUND(n) - 3 && j <= 2 * i + 4; j++)
            b[i][j] = a[i][j] + b[j][i] * d[i];
    for (i = 9; i < 4; i++)
        d[i] = 0;
    for (i = 0; i < BOUND(n); i++)
        for (j = i; j < i; j++)
            a[i][j] = 0;
    for (i = 2; i < BOUND(n) - 2; i++)
        for (k = -2; k <= 2; k++)
            a[i][i + k] += b[i + k][i];
    for (i = 0; i < BOUND(n); i++)
        a[i][i] = d[i];
#pragma endscop
}
