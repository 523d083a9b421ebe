/* Two layers of a perceptron one after another, leaky between them. */
#include "kernel.h"
#ifndef EXTENT_m
#define EXTENT_m 300
#define EXTENT_k 320
#define EXTENT_h 400
#define EXTENT_n 200
#endif

void kernel_mlp_chain(int m, int k, int h, int n, DATA MATRIX(x, m, k), DATA MATRIX(w1, k, h),
                      DATA MATRIX(w2, h, n), DATA MATRIX(hidden, m, h), DATA MATRIX(y, m, n))
{
    int i, j, l;

#pragma scop
    for (i = 0; i < BOUND(m); i++)
        for (j = 0; j < BOUND(h); j++) {
            hidden[i][j] = REAL(0.0);
            for (l = 0; l < BOUND(k); l++)
                hidden[i][j] += x[i][l] * w1[l][j];
        }
    for (i = 0; i < BOUND(m); i++)
        for (j = 0; j < BOUND(h); j++)
            if (hidden[i][j] < REAL(0.0))
                hidden[i][j] *= REAL(0.125);
    for (i = 0; i < BOUND(m); i++)
        for (j = 0; j < BOUND(n); j++) {
            y[i][j] = REAL(0.0);
            for (l = 0; l < BOUND(h); l++)
                y[i][j] += hidden[i][l] * w2[l][j];
        }
#pragma endscop
}
