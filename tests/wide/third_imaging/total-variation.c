/* Noise taken away by total variation: Chambolle's dual steps, and the energy after each. */
#include <math.h>

void kernel_total_variation(int rounds, int h, int w, float weight, float tau, float f[h][w],
                            float u[h][w], float px[h][w], float py[h][w], float energy[rounds])
{
#pragma scop
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            px[y][x] = py[y][x] = 0.0f;
    for (int t = 0; t < rounds; t++) {
        float total = 0.0f;
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++) {
                float div = px[y][x] + py[y][x];
                if (x > 0)
                    div -= px[y][x - 1];
                if (y > 0)
                    div -= py[y - 1][x];
                u[y][x] = f[y][x] - weight * div;
            }
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++) {
                float gx = x < w - 1 ? u[y][x + 1] - u[y][x] : 0.0f;
                float gy = y < h - 1 ? u[y + 1][x] - u[y][x] : 0.0f;
                float norm = hypotf(gx, gy);
                float scale = 1.0f / (1.0f + tau / weight * norm);
                px[y][x] = (px[y][x] - tau / weight * gx) * scale;
                py[y][x] = (py[y][x] - tau / weight * gy) * scale;
                total += weight * norm + 0.5f * (u[y][x] - f[y][x]) * (u[y][x] - f[y][x]);
            }
        energy[t] = total;
    }
#pragma endscop
}
