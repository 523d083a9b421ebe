/* A = Q R by the modified method of Gram and Schmidt, column by column. */
#ifndef EXTENT_m
#define EXTENT_m 700
#define EXTENT_n 600
#endif
#include "kernel.h"

void kernel_gramschmidt(int m, int n, DATA MATRIX(A, m, n), DATA MATRIX(R, n, n),
                        DATA MATRIX(Q, m, n))
{
    int i, j, k;
    DATA norm;

#pragma scop
    for (k = 0; k < BOUND(n); k++) {
        norm = REAL(0.0);
        for (i = 0; i < BOUND(m); i++)
            norm += A[i][k] * A[i][k];
        R[k][k] = SQRT(norm);
        for (i = 0; i < BOUND(m); i++)
            Q[i][k] = A[i][k] / R[k][k];
        for (j = k + 1; j < BOUND(n); j++) {
            R[k][j] = REAL(0.0);
            for (i = 0; i < BOUND(m); i++)
                R[k][j] += Q[i][k] * A[i][j];
            for (i = 0; i < BOUND(m); i++)
                A[i][j] = A[i][j] - Q[i][k] * R[k][j];
        }
    }
#pragma endscop
}
