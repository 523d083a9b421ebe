/* Linear prediction of frames of speech by Burg's method: reflections, coefficients, what is left. */

#define LEN 320
#define ORDER 12

void kernel_burg_prediction(int frames, float speech[frames][LEN], float coef[frames][ORDER + 1],
                            float left[frames])
{
    float f[LEN], b[LEN], a[ORDER + 1], old[ORDER + 1];
#pragma scop
    for (int n = 0; n < frames; n++) {
        float err = 0.0f;
        for (int i = 0; i < LEN; i++) {
            f[i] = speech[n][i];
            b[i] = speech[n][i];
            err += speech[n][i] * speech[n][i];
        }
        for (int j = 0; j <= ORDER; j++)
            a[j] = j == 0 ? 1.0f : 0.0f;
        for (int m = 1; m <= ORDER; m++) {
            float num = 0.0f, den = 0.0f;
            for (int i = m; i < LEN; i++) {
                num += f[i] * b[i - 1];
                den += f[i] * f[i] + b[i - 1] * b[i - 1];
            }
            float k = den > 1e-6f ? -2.0f * num / den : 0.0f;
            for (int i = LEN - 1; i >= m; i--) {
                float keep = f[i];
                f[i] = keep + k * b[i - 1];
                b[i] = b[i - 1] + k * keep;
            }
            for (int j = 0; j <= m; j++)
                old[j] = a[j];
            for (int j = 1; j <= m; j++)
                a[j] = old[j] + k * old[m - j];
            err *= 1.0f - k * k;
        }
        for (int j = 0; j <= ORDER; j++)
            coef[n][j] = a[j];
        left[n] = err / LEN;
    }
#pragma endscop
}
