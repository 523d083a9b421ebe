/* Binomial blur of five taps, along rows into a buffer and then along columns. */
#ifndef EXTENT_h
#define EXTENT_h 4000
#define EXTENT_w 6000
#endif
#ifndef DATA
#define DATA float
#endif
#include "kernel.h"

void kernel_separable_blur(int h, int w, DATA MATRIX(image, h, w), DATA MATRIX(rows, h, w),
                           DATA MATRIX(out, h, w))
{
    int y, x;

#pragma scop
    for (y = 0; y < BOUND(h); y++)
        for (x = 2; x < BOUND(w) - 2; x++)
            rows[y][x] = REAL(0.0625)
                         * (image[y][x - 2] + 4 * image[y][x - 1] + 6 * image[y][x]
                            + 4 * image[y][x + 1] + image[y][x + 2]);
    for (y = 2; y < BOUND(h) - 2; y++)
        for (x = 2; x < BOUND(w) - 2; x++)
            out[y][x] = REAL(0.0625)
                        * (rows[y - 2][x] + 4 * rows[y - 1][x] + 6 * rows[y][x]
                           + 4 * rows[y + 1][x] + rows[y + 2][x]);
#pragma endscop
}
