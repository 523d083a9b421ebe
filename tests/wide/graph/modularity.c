/* The modularity matrix and one step of its power iteration. */
#include <math.h>
#include "kernel.h"
#ifndef EXTENT_n
#define EXTENT_n 2200
#endif

void kernel_modularity(int n, DATA MATRIX(a, n, n), DATA VECTOR(k, n), DATA MATRIX(b, n, n),
                       DATA VECTOR(x, n), DATA VECTOR(y, n))
{
    int i, j;

#pragma scop
    DATA edges = REAL(1.0);
    for (i = 0; i < BOUND(n); i++) {
        k[i] = REAL(0.0);
        for (j = 0; j < BOUND(n); j++)
            k[i] += a[i][j];
        edges += k[i];
    }
    for (i = 0; i < BOUND(n); i++)
        for (j = 0; j < BOUND(n); j++)
            b[i][j] = a[i][j] - k[i] * k[j] / edges;
    for (i = 0; i < BOUND(n); i++) {
        y[i] = REAL(0.0);
        for (j = 0; j < BOUND(n); j++)
            y[i] += b[i][j] * x[j];
    }
    DATA norm = REAL(1.0);
    for (i = 0; i < BOUND(n); i++)
        norm += y[i] * y[i];
    for (i = 0; i < BOUND(n); i++)
        y[i] = y[i] / SQRT(norm);
#pragma endscop
}
