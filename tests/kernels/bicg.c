/* s = A' r and q = A p in one walk over A. */
#ifndef EXTENT_m
#define EXTENT_m 1900
#define EXTENT_n 2100
#endif
#include "kernel.h"

void kernel_bicg(int m, int n, DATA MATRIX(A, n, m), DATA VECTOR(s, m), DATA VECTOR(q, n),
                 DATA VECTOR(p, m), DATA VECTOR(r, n))
{
    int i, j;

#pragma scop
    for (i = 0; i < BOUND(m); i++)
        s[i] = 0;
    for (i = 0; i < BOUND(n); i++) {
        q[i] = REAL(0.0);
        for (j = 0; j < BOUND(m); j++) {
            s[j] = s[j] + r[i] * A[i][j];
            q[i] = q[i] + A[i][j] * p[j];
        }
    }
#pragma endscop
}
