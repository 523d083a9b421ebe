/* The highest entry so far of every column, the fall from it, and the deepest fall. */
#ifndef EXTENT_n
#define EXTENT_n 12000
#endif
#ifndef EXTENT_m
#define EXTENT_m 1800
#endif
#ifndef DATA
#define DATA float
#endif
#include "kernel.h"

void kernel_running_peak(int n, int m, DATA MATRIX(x, n, m), DATA MATRIX(peak, n, m),
                         DATA MATRIX(fall, n, m), DATA VECTOR(deepest, m))
{
#pragma scop
    for (int j = 0; j < BOUND(m); ++j) {
        peak[0][j] = x[0][j];
        fall[0][j] = 0;
        deepest[j] = 0;
    }
    for (int i = 1; i < BOUND(n); ++i)
        for (int j = 0; j < BOUND(m); ++j) {
            peak[i][j] = GREATER(x[i][j], peak[i - 1][j]);
            fall[i][j] = peak[i][j] - x[i][j];
            if (fall[i][j] > deepest[j])
                deepest[j] = fall[i][j];
        }
#pragma endscop
}
