/* A x = b by factors: A becomes L and U, then y by forward and x by backward substitution. */
#ifndef EXTENT_n
#define EXTENT_n 1200
#endif
#include "kernel.h"

void kernel_ludcmp(int n, DATA MATRIX(A, n, n), DATA VECTOR(b, n), DATA VECTOR(x, n),
                   DATA VECTOR(y, n))
{
    int i, j, k;
    DATA w;

#pragma scop
    for (i = 0; i < BOUND(n); i++) {
        for (j = 0; j < i; j++) {
            w = A[i][j];
            for (k = 0; k < j; k++)
                w -= A[i][k] * A[k][j];
            A[i][j] = w / A[j][j];
        }
        for (j = i; j < BOUND(n); j++) {
            w = A[i][j];
            for (k = 0; k < i; k++)
                w -= A[i][k] * A[k][j];
            A[i][j] = w;
        }
    }
    for (i = 0; i < BOUND(n); i++) {
        w = b[i];
        for (j = 0; j < i; j++)
            w -= A[i][j] * y[j];
        y[i] = w;
    }
    for (i = BOUND(n) - 1; i >= 0; i--) {
        w = y[i];
        for (j = i + 1; j < BOUND(n); j++)
            w -= A[i][j] * x[j];
        x[i] = w / A[i][i];
    }
#pragma endscop
}
