/* Small integers in, wide sums inside, floats out and back: every conversion C makes by itself.
   Quotients of negative integers round towards zero. */
#ifndef EXTENT_n
#define EXTENT_n 600
#define EXTENT_m 700
#endif
#include "kernel.h"

#include <stdint.h>

void kernel_nasty_mixed(int n, int m, float scale, int8_t MATRIX(weights, n, m),
                        uint8_t VECTOR(pixels, m), int16_t VECTOR(bias, n), int32_t VECTOR(sums, n),
                        float VECTOR(out, n), int8_t VECTOR(back, n), double VECTOR(exact, n))
{
    int i, j;
    int32_t acc;
    float scaled;

#pragma scop
    for (i = 0; i < BOUND(n); i++) {
        acc = bias[i];
        for (j = 0; j < BOUND(m); j++)
            acc += weights[i][j] * (pixels[j] - 128);
        sums[i] = acc;
        scaled = acc * scale;
        out[i] = scaled + 0.25;
        scaled = scaled < -128.0f ? -128.0f : (scaled > 127.0f ? 127.0f : scaled);
        back[i] = (int8_t)scaled;
        exact[i] = (double)acc / 4 + sums[i] / 4 - sums[i] % 5;
    }
    for (i = 0; i < BOUND(n); i++) {
        bias[i] += 3 * back[i];
        sums[i] = sums[i] + (uint8_t)back[i] + i;
    }
#pragma endscop
}
