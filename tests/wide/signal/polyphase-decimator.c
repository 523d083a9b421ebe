/* Filtering and keeping every fourth sample, by the four phases of the filter; the input is
   real, the mixer before it gives in-phase and quadrature. */
#define M 4

void kernel_polyphase_decimator(int n, int out, int taps, float x[restrict n], float co[restrict n],
                                float si[restrict n], float h[restrict M][taps],
                                float mi[restrict n], float mq[restrict n],
                                float yi[restrict out], float yq[restrict out])
{
    int i, k, p;

#pragma scop
    for (i = 0; i < n; i++) {
        mi[i] = x[i] * co[i];
        mq[i] = x[i] * si[i];
    }
    for (i = 0; i < out; i++) {
        float re = 0.0f, im = 0.0f;
        for (k = 0; k < taps; k++)
            for (p = 0; p < M; p++) {
                re += h[p][k] * mi[M * (i + k) + p];
                im += h[p][k] * mq[M * (i + k) + p];
            }
        yi[i] = re;
        yq[i] = im;
    }
#pragma endscop
}
