/* The end of a residual block: statistics of every channel over the batch, normalised, the shortcut
   added, nothing below zero. */
#include "kernel.h"
#ifndef EXTENT_b
#define EXTENT_b 16
#define EXTENT_c 32
#define EXTENT_s 4096
#endif

void kernel_batch_norm_add(int b, int c, int s, DATA CUBE(x, b, c, s), DATA CUBE(skip, b, c, s),
                           DATA CUBE(y, b, c, s))
{
    int i, k, p;

#pragma scop
    for (k = 0; k < BOUND(c); k++) {
        DATA mean = REAL(0.0), square = REAL(0.0);
        for (i = 0; i < BOUND(b); i++)
            for (p = 0; p < BOUND(s); p++) {
                mean += x[i][k][p];
                square += x[i][k][p] * x[i][k][p];
            }
        mean /= b * s;
        square = REAL(1.0) / SQRT(square / (b * s) - mean * mean + REAL(0.001));
        for (i = 0; i < BOUND(b); i++)
            for (p = 0; p < BOUND(s); p++)
                y[i][k][p] = fmax((x[i][k][p] - mean) * square + skip[i][k][p], REAL(0.0));
    }
#pragma endscop
}
