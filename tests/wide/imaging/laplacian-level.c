/* One level of a Laplacian pyramid: down by two with taps 1 3 3 1, up again, and what is lost. */
#ifndef EXTENT_h
#define EXTENT_h 4097
#define EXTENT_w 4097
#define EXTENT_h2 2048
#define EXTENT_w2 2048
#endif
#include "kernel.h"

void kernel_laplacian_level(int h, int w, int h2, int w2, DATA MATRIX(image, h, w),
                            DATA MATRIX(narrow, h, w2), DATA MATRIX(down, h2, w2),
                            DATA MATRIX(detail, h, w))
{
    int y, x;

#pragma scop
    for (y = 0; y < BOUND(h); y++)
        for (x = 1; x < BOUND(w2) - 1; x++)
            narrow[y][x] = (image[y][2 * x - 1] + 3 * image[y][2 * x] + 3 * image[y][2 * x + 1]
                            + image[y][2 * x + 2]) * REAL(0.125);
    for (y = 1; y < BOUND(h2) - 1; y++)
        for (x = 1; x < BOUND(w2) - 1; x++)
            down[y][x] = (narrow[2 * y - 1][x] + 3 * narrow[2 * y][x] + 3 * narrow[2 * y + 1][x]
                          + narrow[2 * y + 2][x]) * REAL(0.125);
    for (y = 1; y < BOUND(h2) - 2; y++)
        for (x = 1; x < BOUND(w2) - 2; x++) {
            detail[2 * y][2 * x] = image[2 * y][2 * x] - down[y][x];
            detail[2 * y][2 * x + 1] = image[2 * y][2 * x + 1]
                                       - REAL(0.5) * (down[y][x] + down[y][x + 1]);
            detail[2 * y + 1][2 * x] = image[2 * y + 1][2 * x]
                                       - REAL(0.5) * (down[y][x] + down[y + 1][x]);
            detail[2 * y + 1][2 * x + 1] = image[2 * y + 1][2 * x + 1]
                                           - REAL(0.25) * (down[y][x] + down[y][x + 1]
                                                           + down[y + 1][x] + down[y + 1][x + 1]);
        }
#pragma endscop
}
