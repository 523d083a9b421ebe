/* Cepstral coefficients of speech: energies in triangular bands, logarithms, cosines, differences. */
#include <math.h>

#define BANDS 26
#define COEFS 13
#define PI 3.14159265f

void kernel_mel_cepstra(int frames, int bins, float re[frames][bins], float im[frames][bins],
                        float edge[BANDS + 2], float energy[frames][BANDS], float ceps[frames][COEFS],
                        float delta[frames][COEFS])
{
    float basis[COEFS][BANDS];
    float lifter[COEFS];

#pragma scop
    for (int c = 0; c < COEFS; c++) {
        lifter[c] = 1.0f + 11.0f * sinf(PI * c / 22.0f);
        for (int b = 0; b < BANDS; b++)
            basis[c][b] = cosf(PI * c * (b + 0.5f) / BANDS);
    }
    for (int t = 0; t < frames; t++) {
        for (int b = 0; b < BANDS; b++)
            energy[t][b] = 1e-6f;
        for (int k = 0; k < bins; k++) {
            float power = re[t][k] * re[t][k] + im[t][k] * im[t][k];
            for (int b = 0; b < BANDS; b++) {
                float up = (k - edge[b]) / (edge[b + 1] - edge[b]);
                float down = (edge[b + 2] - k) / (edge[b + 2] - edge[b + 1]);
                float weight = up < down ? up : down;
                if (weight > 0.0f)
                    energy[t][b] += weight * power;
            }
        }
        for (int c = 0; c < COEFS; c++) {
            float sum = 0.0f;
            for (int b = 0; b < BANDS; b++)
                sum += basis[c][b] * logf(energy[t][b]);
            ceps[t][c] = lifter[c] * sum;
        }
    }
    for (int t = 0; t < frames; t++)
        for (int c = 0; c < COEFS; c++) {
            int before = t > 0 ? t - 1 : t;
            int after = t < frames - 1 ? t + 1 : t;
            delta[t][c] = 0.5f * (ceps[after][c] - ceps[before][c]);
        }
#pragma endscop
}
