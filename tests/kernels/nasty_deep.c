/* A layer of a network written plainly: loops four and six deep, work before and after the inner
   ones, then a resampling by constant offsets with dyadic bicubic weights. */
#ifndef EXTENT_images
#define EXTENT_images 6
#define EXTENT_rows 100
#define EXTENT_columns 110
#define EXTENT_taps 5
#endif
#include "kernel.h"

void kernel_nasty_deep(int images, int rows, int columns, int taps,
                       DATA CUBE(in, images, rows, columns), DATA MATRIX(w, taps, taps),
                       DATA VECTOR(offset, images), DATA CUBE(out, images, rows, columns),
                       DATA MATRIX(peak, images, rows))
{
    int b, i, j, p, q;

#pragma scop
    for (b = 0; b < BOUND(images); b++) {
        offset[b] += in[b][0][0];
        for (i = 0; i < BOUND(rows) - BOUND(taps) + 1; i++) {
            peak[b][i] = offset[b];
            for (j = 0; j < BOUND(columns) - BOUND(taps) + 1; j++) {
                out[b][i][j] = offset[b];
                for (p = 0; p < BOUND(taps); p++) {
                    for (q = 0; q < BOUND(taps); q++)
                        out[b][i][j] += w[p][q] * in[b][i + p][j + q];
                    out[b][i][j] -= p;
                }
                peak[b][i] = out[b][i][j] > peak[b][i] ? out[b][i][j] : peak[b][i];
            }
        }
        for (i = 1; i < BOUND(rows) - 2; i++)
            for (j = 1; j < BOUND(columns) - 2; j++)
                in[b][i][j] =
                    (9 * (9 * (out[b][i][j] + out[b][i][j + 1])
                          - (out[b][i][j - 1] + out[b][i][j + 2]))
                     + 9 * (9 * (out[b][i + 1][j] + out[b][i + 1][j + 1])
                            - (out[b][i + 1][j - 1] + out[b][i + 1][j + 2]))
                     - (9 * (out[b][i - 1][j] + out[b][i - 1][j + 1])
                        - (out[b][i - 1][j - 1] + out[b][i - 1][j + 2]))
                     - (9 * (out[b][i + 2][j] + out[b][i + 2][j + 1])
                        - (out[b][i + 2][j - 1] + out[b][i + 2][j + 2]))) / 256;
    }
#pragma endscop
}
