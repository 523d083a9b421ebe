/* A gains two products of vectors; x gains beta A' y and z; w gains alpha A x. */
#ifndef EXTENT_n
#define EXTENT_n 2000
#endif
#include "kernel.h"

void kernel_gemver(int n, DATA alpha, DATA beta, DATA MATRIX(A, n, n), DATA VECTOR(u1, n),
                   DATA VECTOR(v1, n), DATA VECTOR(u2, n), DATA VECTOR(v2, n), DATA VECTOR(w, n),
                   DATA VECTOR(x, n), DATA VECTOR(y, n), DATA VECTOR(z, n))
{
    int i, j;

#pragma scop
    for (i = 0; i < BOUND(n); i++)
        for (j = 0; j < BOUND(n); j++)
            A[i][j] = A[i][j] + u1[i] * v1[j] + u2[i] * v2[j];
    for (i = 0; i < BOUND(n); i++)
        for (j = 0; j < BOUND(n); j++)
            x[i] = x[i] + beta * A[j][i] * y[j];
    for (i = 0; i < BOUND(n); i++)
        x[i] = x[i] + z[i];
    for (i = 0; i < BOUND(n); i++)
        for (j = 0; j < BOUND(n); j++)
            w[i] = w[i] + alpha * A[i][j] * x[j];
#pragma endscop
}
