/* Powers of chosen tones in blocks of a signal: a resonator of two states for each tone. */
void kernel_goertzel_bank(int blocks, int n, int tones, float x[blocks][n], float coef[tones],
                          float power[blocks][tones])
{
    int b, k, i;
    float s0, s1, s2;

#pragma scop
    for (b = 0; b < blocks; b++) {
        for (k = 0; k < tones; k++) {
            s1 = 0.0f;
            s2 = 0.0f;
            for (i = 0; i < n; i++) {
                s0 = x[b][i] + coef[k] * s1 - s2;
                s2 = s1;
                s1 = s0;
            }
            power[b][k] = s1 * s1 + s2 * s2 - coef[k] * s1 * s2;
        }
    }
#pragma endscop
}
