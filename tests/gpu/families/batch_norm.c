/* Batch normalisation: mean and variance of each channel, then all elements. */
#include <math.h>
void batch_norm(int b, int c, int n, float x[b][c][n], float gain[c], float shift[c], float mean[c],
                float var[c], float y[b][c][n])
{
#pragma scop
    for (int f = 0; f < c; f++) {
        mean[f] = 0.0f;
        for (int s = 0; s < b; s++)
            for (int k = 0; k < n; k++)
                mean[f] += x[s][f][k];
        mean[f] = mean[f] / (b * n + 1);
        var[f] = 0.0f;
        for (int s = 0; s < b; s++)
            for (int k = 0; k < n; k++)
                var[f] += (x[s][f][k] - mean[f]) * (x[s][f][k] - mean[f]);
        var[f] = var[f] / (b * n + 1);
    }
    for (int s = 0; s < b; s++)
        for (int f = 0; f < c; f++)
            for (int k = 0; k < n; k++)
                y[s][f][k] = gain[f] * (x[s][f][k] - mean[f]) / sqrtf(var[f] + 1.0e-5f) + shift[f];
#pragma endscop
}
