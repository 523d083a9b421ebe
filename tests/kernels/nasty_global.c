/* Arrays that are no arguments: one of the file, one of the function. Time ends at a literal. */
#ifndef EXTENT_n
#define EXTENT_n 20000
#endif
#include "kernel.h"

#define STEPS 6

DATA history[STEPS + 1][EXTENT_n + PADDING];

void kernel_nasty_global(int n, DATA VECTOR(x, n), DATA VECTOR(y, n))
{
    DATA slope[EXTENT(n)], curve[2][EXTENT(n)];
    int i, t;

#pragma scop
    for (i = 0; i < BOUND(n); i++)
        history[0][i] = x[i];
    for (t = 0; t < STEPS; t++) {
        for (i = 0; i < BOUND(n) - 1; i++)
            slope[i] = history[t][i + 1] - history[t][i];
        for (i = 1; i < BOUND(n) - 1; i++)
            curve[t % 2][i] = slope[i] - slope[i - 1];
        for (i = 0; i < BOUND(n); i++) {
            history[t + 1][i] = history[t][i];
            if (i >= 1 && i < BOUND(n) - 1)
                history[t + 1][i] += REAL(0.25) * curve[t % 2][i];
        }
    }
    for (i = 0; i < BOUND(n); i++)
        y[i] = history[STEPS][i] - history[STEPS / 2][i] + y[i];
#pragma endscop
}
