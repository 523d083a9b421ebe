/* L x = b by forward substitution. */
#ifndef EXTENT_n
#define EXTENT_n 2000
#endif
#include "kernel.h"

void kernel_trisolv(int n, DATA MATRIX(L, n, n), DATA VECTOR(x, n), DATA VECTOR(b, n))
{
    int i, j;

#pragma scop
    for (i = 0; i < BOUND(n); i++) {
        x[i] = b[i];
        for (j = 0; j < i; j++)
            x[i] -= L[i][j] * x[j];
        x[i] = x[i] / L[i][i];
    }
#pragma endscop
}
