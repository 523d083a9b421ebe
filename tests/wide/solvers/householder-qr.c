/* QR by reflections: R in the upper triangle of A, the reflectors below it, factors in tau. */
#ifndef EXTENT_m
#define EXTENT_m 700
#endif
#ifndef EXTENT_n
#define EXTENT_n 450
#endif
#include "kernel.h"

void kernel_householder_qr(int m, int n, DATA MATRIX(A, m, n), DATA VECTOR(tau, n))
{
    int i, j, k;
    DATA norm, alpha, head, dot;

#pragma scop
    for (k = 0; k < BOUND(n); k++) {
        norm = REAL(0.0);
        for (i = k; i < BOUND(m); i++)
            norm += A[i][k] * A[i][k];
        norm = SQRT(norm);
        alpha = A[k][k] > REAL(0.0) ? -norm : norm;
        head = A[k][k] - alpha;
        tau[k] = -head / alpha;
        for (i = k + 1; i < BOUND(m); i++)
            A[i][k] = A[i][k] / head;
        A[k][k] = alpha;
        for (j = k + 1; j < BOUND(n); j++) {
            dot = A[k][j];
            for (i = k + 1; i < BOUND(m); i++)
                dot += A[i][k] * A[i][j];
            dot = dot * tau[k];
            A[k][j] = A[k][j] - dot;
            for (i = k + 1; i < BOUND(m); i++)
                A[i][j] = A[i][j] - A[i][k] * dot;
        }
    }
#pragma endscop
}
