/* Spectral density by Welch: half overlapping segments, mean taken off, window, averaged power. */

#define SEG 256
#define HOP (SEG / 2)
#define BINS (SEG / 2 + 1)

void kernel_welch_spectrum(int channels, int segments, double fs, double x[channels][HOP * (segments + 1)],
                           double window[SEG], double cosine[BINS][SEG], double sine[BINS][SEG],
                           double buf[SEG], double psd[channels][BINS])
{
    int c, s, k, t;
    double mean, re, im, power;
#pragma scop
    power = 0.0;
    for (t = 0; t < SEG; t++)
        power += window[t] * window[t];
    for (c = 0; c < channels; c++) {
        for (k = 0; k < BINS; k++)
            psd[c][k] = 0.0;
        for (s = 0; s < segments; s++) {
            mean = 0.0;
            for (t = 0; t < SEG; t++)
                mean += x[c][s * HOP + t];
            mean /= SEG;
            for (t = 0; t < SEG; t++)
                buf[t] = (x[c][s * HOP + t] - mean) * window[t];
            for (k = 0; k < BINS; k++) {
                re = 0.0;
                im = 0.0;
                for (t = 0; t < SEG; t++) {
                    re += buf[t] * cosine[k][t];
                    im -= buf[t] * sine[k][t];
                }
                psd[c][k] += re * re + im * im;
            }
        }
        for (k = 0; k < BINS; k++)
            psd[c][k] /= fs * power * segments;
        for (k = 1; k < BINS - 1; k++)
            psd[c][k] *= 2.0;
    }
#pragma endscop
}
