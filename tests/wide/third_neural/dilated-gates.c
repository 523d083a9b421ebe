/* Convolutions of two taps that lie farther apart from layer to layer, gated; what skips the rest is
   summed up. */
#include <math.h>

static inline float sigmoid(float v) { return 1.0f / (1.0f + expf(-v)); }

void kernel_dilated_gates(int layers, int length, int ch, float wf[layers][2][ch][ch],
                          float wg[layers][2][ch][ch], float skip_w[layers][ch][ch],
                          float x[length][ch], float z[length][ch], float skip[length][ch])
{
#pragma scop
    for (int t = 0; t < length; t++)
        for (int c = 0; c < ch; c++)
            skip[t][c] = 0.0f;
    for (int l = 0; l < layers; l++) {
        for (int t = 0; t < length; t++)
            for (int o = 0; o < ch; o++) {
                float f = 0.0f, g = 0.0f;
                for (int c = 0; c < ch; c++) {
                    f += wf[l][1][o][c] * x[t][c];
                    g += wg[l][1][o][c] * x[t][c];
                }
                /* the earlier tap, zero before the beginning */
                if (t >= 2 * l + 1)
                    for (int c = 0; c < ch; c++) {
                        f += wf[l][0][o][c] * x[t - 2 * l - 1][c];
                        g += wg[l][0][o][c] * x[t - 2 * l - 1][c];
                    }
                z[t][o] = tanhf(f) * sigmoid(g);
            }
        for (int t = 0; t < length; t++)
            for (int o = 0; o < ch; o++) {
                float s = 0.0f;
                for (int c = 0; c < ch; c++)
                    s += skip_w[l][o][c] * z[t][c];
                skip[t][o] += s;
                x[t][o] += z[t][o];
            }
    }
    for (int t = 0; t < length; t++)
        for (int o = 0; o < ch; o++)
            skip[t][o] = skip[t][o] > 0.0f ? skip[t][o] : 0.0f;
#pragma endscop
}
