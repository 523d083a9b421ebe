/* One level of the Haar wavelet of a picture: means and differences of pairs along rows, then
   along columns; details below a threshold are dropped. */
#ifndef EXTENT_h
#define EXTENT_h 4000
#define EXTENT_w 4000
#define EXTENT_h2 2000
#define EXTENT_w2 2000
#endif
#ifndef DATA
#define DATA float
#endif
#include "kernel.h"

#define SHRINK(v) ((v) < limit && -(v) < limit ? 0 : (v))

void kernel_haar_level(int h, int w, int h2, int w2, DATA limit, DATA MATRIX(image, h, w),
                       DATA MATRIX(low, h, w2), DATA MATRIX(high, h, w2), DATA MATRIX(ll, h2, w2),
                       DATA MATRIX(lh, h2, w2), DATA MATRIX(hl, h2, w2), DATA MATRIX(hh, h2, w2))
{
    int y, x;
    DATA a, b, c;

#pragma scop
    for (y = 0; y < BOUND(h); y++)
        for (x = 0; x < BOUND(w2); x++) {
            low[y][x] = REAL(0.5) * (image[y][2 * x] + image[y][2 * x + 1]);
            high[y][x] = REAL(0.5) * (image[y][2 * x] - image[y][2 * x + 1]);
        }
    for (y = 0; y < BOUND(h2); y++)
        for (x = 0; x < BOUND(w2); x++) {
            ll[y][x] = REAL(0.5) * (low[2 * y][x] + low[2 * y + 1][x]);
            a = REAL(0.5) * (low[2 * y][x] - low[2 * y + 1][x]);
            b = REAL(0.5) * (high[2 * y][x] + high[2 * y + 1][x]);
            c = REAL(0.5) * (high[2 * y][x] - high[2 * y + 1][x]);
            lh[y][x] = SHRINK(a);
            hl[y][x] = SHRINK(b);
            hh[y][x] = SHRINK(c);
        }
#pragma endscop
}
