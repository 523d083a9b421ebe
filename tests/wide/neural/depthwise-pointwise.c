/* A separable layer: every channel by a filter of its own, then channels mixed point by point. */
#include "kernel.h"
#ifndef EXTENT_c
#define EXTENT_c 64
#define EXTENT_f 96
#define EXTENT_h 64
#define EXTENT_w 64
#endif
#define K 3

void kernel_depthwise_pointwise(int c, int f, int h, int w,
                                DATA in[SOLE EXTENT(c)][EXTENT(h) + 2][EXTENT(w) + 2],
                                DATA depth[SOLE EXTENT(c)][K][K], DATA MATRIX(point, f, c),
                                DATA CUBE(mid, c, h, w), DATA CUBE(out, f, h, w))
{
    int i, o, y, x, a, b;

#pragma scop
    for (i = 0; i < BOUND(c); i++)
        for (y = 0; y < BOUND(h); y++)
            for (x = 0; x < BOUND(w); x++) {
                mid[i][y][x] = REAL(0.0);
                for (a = 0; a < K; a++)
                    for (b = 0; b < K; b++)
                        mid[i][y][x] += in[i][y + a][x + b] * depth[i][a][b];
            }
    for (o = 0; o < BOUND(f); o++)
        for (y = 0; y < BOUND(h); y++)
            for (x = 0; x < BOUND(w); x++) {
                out[o][y][x] = REAL(0.0);
                for (i = 0; i < BOUND(c); i++)
                    out[o][y][x] += point[o][i] * mid[i][y][x];
            }
#pragma endscop
}
