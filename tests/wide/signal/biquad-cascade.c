/* Second order sections one after the other (transposed direct form), for several channels. */
#define SECTIONS 4

void kernel_biquad_cascade(int channels, int n, double coef[SECTIONS][5], double x[channels][n],
                           double y[channels][n])
{
#pragma scop
    for (int c = 0; c < channels; c++) {
        double s1[SECTIONS], s2[SECTIONS];
        for (int k = 0; k < SECTIONS; k++) {
            s1[k] = 0.0;
            s2[k] = 0.0;
        }
        for (int i = 0; i < n; i++) {
            double v = x[c][i];
            for (int k = 0; k < SECTIONS; k++) {
                double w = coef[k][0] * v + s1[k];
                s1[k] = coef[k][1] * v - coef[k][3] * w + s2[k];
                s2[k] = coef[k][2] * v - coef[k][4] * w;
                v = w;
            }
            y[c][i] = v;
        }
    }
#pragma endscop
}
