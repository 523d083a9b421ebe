/* Keys of a transformer: rows scaled by their root mean square, projected, turned by their position. */
#include <math.h>
#ifndef EXTENT_tokens
#define EXTENT_tokens 160
#define EXTENT_heads 6
#define EXTENT_half 24
#endif
#define HEADS EXTENT_heads
#define HALF EXTENT_half
#define WIDTH (HEADS * 2 * HALF)

void kernel_rotary_keys(int tokens, int heads, int half, float eps, float x[EXTENT_tokens][WIDTH],
                        float gain[WIDTH], float w[WIDTH][WIDTH], float freq[HALF],
                        float k[EXTENT_tokens][HEADS][2 * HALF])
{
#pragma scop
    for (int t = 0; t < tokens; t++) {
        float ss = 0.0f;
        for (int c = 0; c < WIDTH; c++)
            ss += x[t][c] * x[t][c];
        float scale = 1.0f / sqrtf(ss / WIDTH + eps);
        for (int c = 0; c < WIDTH; c++)
            x[t][c] *= scale * gain[c];
        for (int h = 0; h < heads; h++)
            for (int d = 0; d < 2 * HALF; d++) {
                float sum = 0.0f;
                for (int c = 0; c < WIDTH; c++)
                    sum += w[h * 2 * HALF + d][c] * x[t][c];
                k[t][h][d] = sum;
            }
        for (int h = 0; h < heads; h++)
            for (int d = 0; d < half; d++) {
                float angle = t * freq[d];
                float c = cosf(angle), s = sinf(angle);
                float a = k[t][h][2 * d], b = k[t][h][2 * d + 1];
                k[t][h][2 * d] = a * c - b * s;
                k[t][h][2 * d + 1] = a * s + b * c;
            }
    }
#pragma endscop
}
