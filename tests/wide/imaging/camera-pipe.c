/* From sensor to picture at half size: hot pixels pulled into the range of their neighbours,
   the mosaic taken apart, colours mixed by a matrix, a curve, eight bits. */
#ifndef EXTENT_h
#define EXTENT_h 6000
#define EXTENT_w 8000
#define EXTENT_h2 3000
#define EXTENT_w2 4000
#endif
#include "kernel.h"

#include <stdint.h>

#define CLAMP(v, lo, hi) ((v) < (lo) ? (lo) : ((v) > (hi) ? (hi) : (v)))

void kernel_camera_pipe(int h, int w, int h2, int w2, unsigned short MATRIX(raw, h, w),
                        unsigned short MATRIX(clean, h, w), int colour[3][3],
                        uint8_t out[EXTENT(h2)][EXTENT(w2)][3])
{
    int y, x, k;

#pragma scop
    for (y = 2; y < BOUND(h) - 2; y++)
        for (x = 2; x < BOUND(w) - 2; x++) {
            int most = GREATER(GREATER(raw[y - 2][x], raw[y + 2][x]),
                               GREATER(raw[y][x - 2], raw[y][x + 2]));
            int least = LESSER(LESSER(raw[y - 2][x], raw[y + 2][x]),
                               LESSER(raw[y][x - 2], raw[y][x + 2]));
            clean[y][x] = CLAMP(raw[y][x], least, most);
        }
    for (y = 1; y < BOUND(h2) - 1; y++)
        for (x = 1; x < BOUND(w2) - 1; x++) {
            int r = clean[2 * y][2 * x];
            int g = (clean[2 * y][2 * x + 1] + clean[2 * y + 1][2 * x] + 1) / 2;
            int b = clean[2 * y + 1][2 * x + 1];
            for (k = 0; k < 3; k++) {
                int mixed = (colour[k][0] * r + colour[k][1] * g + colour[k][2] * b) / 8;
                mixed = CLAMP(mixed, 0, 1023);
                /* a parabola that lifts the shadows: 0 stays 0, 1023 becomes 255 */
                out[y][x][k] = (mixed * (2046 - mixed)) / 4104;
            }
        }
#pragma endscop
}
