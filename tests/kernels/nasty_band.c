/* A banded matrix: bounds are the greater and the lesser of affine terms, also through abs-like
   differences; rows far from the corners have 2 width + 1 entries. */
#ifndef EXTENT_n
#define EXTENT_n 2000
#define EXTENT_width 20
#endif
#include "kernel.h"

void kernel_nasty_band(int n, int width, DATA MATRIX(a, n, n), DATA VECTOR(x, n), DATA VECTOR(y, n),
                       DATA MATRIX(g, n, n))
{
    int i, j, k;

#pragma scop
    for (i = 0; i < BOUND(n); i++) {
        y[i] = 0;
        for (j = GREATER(0, i - BOUND(width)); j < LESSER(BOUND(n), i + BOUND(width) + 1); j++)
            y[i] += a[i][j] * x[j];
    }
    /* the product of the band with itself, within twice the width */
    for (i = 0; i < BOUND(n); i++)
        for (j = GREATER(0, i - 2 * BOUND(width));
             j <= LESSER(BOUND(n) - 1, i + 2 * BOUND(width)); j++) {
            g[i][j] = 0;
            for (k = GREATER(GREATER(i, j) - BOUND(width), 0);
                 k < LESSER(LESSER(i, j) + BOUND(width) + 1, BOUND(n)); k++)
                g[i][j] += a[i][k] * a[k][j];
        }
#pragma endscop
}
