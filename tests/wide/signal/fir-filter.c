/* A finite impulse response filter over a long signal. */
#ifndef EXTENT_n
#define EXTENT_n 1500000
#define EXTENT_taps 64
#endif
#ifndef DATA
#define DATA float
#endif
#include "kernel.h"

void kernel_fir_filter(int n, int taps, DATA VECTOR(x, n), DATA VECTOR(h, taps), DATA VECTOR(y, n))
{
    int i, k;

#pragma scop
    for (i = BOUND(taps) - 1; i < BOUND(n); i++) {
        y[i] = 0;
        for (k = 0; k < BOUND(taps); k++)
            y[i] += h[k] * x[i - k];
    }
#pragma endscop
}
