/* x1 gains A y1 and x2 gains A' y2. */
#ifndef EXTENT_n
#define EXTENT_n 2000
#endif
#include "kernel.h"

void kernel_mvt(int n, DATA VECTOR(x1, n), DATA VECTOR(x2, n), DATA VECTOR(y1, n),
                DATA VECTOR(y2, n), DATA MATRIX(A, n, n))
{
    int i, j;

#pragma scop
    for (i = 0; i < BOUND(n); i++)
        for (j = 0; j < BOUND(n); j++)
            x1[i] = x1[i] + A[i][j] * y1[j];
    for (i = 0; i < BOUND(n); i++)
        for (j = 0; j < BOUND(n); j++)
            x2[i] = x2[i] + A[j][i] * y2[j];
#pragma endscop
}
