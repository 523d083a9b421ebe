/* Least mean squares: a filter that follows the unknown system between x and d, sample by sample,
   for several channels with weights of their own. */
#ifndef EXTENT_channels
#define EXTENT_channels 24
#define EXTENT_n 24000
#define EXTENT_taps 64
#endif
#include "kernel.h"

void kernel_adaptive_lms(int channels, int n, int taps, DATA mu, DATA MATRIX(x, channels, n),
                         DATA MATRIX(d, channels, n), DATA MATRIX(w, channels, taps),
                         DATA MATRIX(e, channels, n))
{
    int c, i, k;
    DATA y;

#pragma scop
    for (c = 0; c < BOUND(channels); c++)
        for (i = BOUND(taps) - 1; i < BOUND(n); i++) {
            y = 0;
            for (k = 0; k < BOUND(taps); k++)
                y += w[c][k] * x[c][i - k];
            e[c][i] = d[c][i] - y;
            for (k = 0; k < BOUND(taps); k++)
                w[c][k] += mu * e[c][i] * x[c][i - k];
        }
#pragma endscop
}
