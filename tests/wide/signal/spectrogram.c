/* Magnitudes of windowed frames that overlap by half, by a plain transform with tables. */
#include <math.h>

#define HOP 64
#define FRAME 128
#define BINS 65

void kernel_spectrogram(int frames, int n, double x[n], double window[FRAME],
                        double co[BINS][FRAME], double si[BINS][FRAME], double mag[frames][BINS])
{
    int f, b, t;

#pragma scop
    for (f = 0; f < frames; f++) {
        double buf[FRAME];
        for (t = 0; t < FRAME; t++)
            buf[t] = x[HOP * f + t] * window[t];
        for (b = 0; b < BINS; b++) {
            double re = 0, im = 0;
            for (t = 0; t < FRAME; t++) {
                re += buf[t] * co[b][t];
                im -= buf[t] * si[b][t];
            }
            mag[f][b] = sqrt(re * re + im * im);
        }
    }
#pragma endscop
}
