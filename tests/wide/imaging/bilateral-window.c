/* Edge-preserving smoothing: a mean over 3x3 whose weights fall with distance and difference. */
#include <math.h>

void kernel_bilateral_window(int h, int w, float inv, float in[h][w], float spatial[3][3],
                             float out[h][w])
{
    int i, j, di, dj;
    float centre, sum, norm, d, wgt;

#pragma scop
    for (i = 1; i < h - 1; i++)
        for (j = 1; j < w - 1; j++) {
            centre = in[i][j];
            sum = 0.0f;
            norm = 0.0f;
            for (di = -1; di <= 1; di++)
                for (dj = -1; dj <= 1; dj++) {
                    d = in[i + di][j + dj] - centre;
                    wgt = spatial[di + 1][dj + 1] * expf(-d * d * inv);
                    sum += wgt * in[i + di][j + dj];
                    norm += wgt;
                }
            out[i][j] = sum / norm;
        }
#pragma endscop
}
