/* Every row to mean 0 and variance 1, then scaled and shifted. */
#include <math.h>

void kernel_layer_norm(int rows, int n, float x[restrict rows][n], float gain[restrict n],
                       float shift[restrict n], float y[restrict rows][n])
{
#pragma scop
    for (int r = 0; r < rows; r++) {
        float mean = 0.f, var = 0.f;
        for (int i = 0; i < n; i++)
            mean += x[r][i];
        mean /= n;
        for (int i = 0; i < n; i++) {
            float d = x[r][i] - mean;
            var += d * d;
        }
        float inv = 1.0f / sqrtf(var / n + 0.001f);
        for (int i = 0; i < n; i++)
            y[r][i] = gain[i] * ((x[r][i] - mean) * inv) + shift[i];
    }
#pragma endscop
}
