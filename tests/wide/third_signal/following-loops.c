/* Phase-locked loops, one for each channel: the phase error steers the rate, the sign is the bit. */
#include <math.h>

#define TWO_PI 6.28318530717958647692

void kernel_following_loops(int channels, int n, double gain, double drift, double x[n][channels],
                            double phase[channels], double rate[channels], double lock[channels],
                            signed char bit[n][channels], int flips[channels])
{
#pragma scop
    for (int c = 0; c < channels; c++) {
        lock[c] = 0.0;
        flips[c] = 0;
    }
    for (int t = 0; t < n; t++) {
        for (int c = 0; c < channels; c++) {
            double i = x[t][c] * cos(TWO_PI * phase[c]);
            double q = -x[t][c] * sin(TWO_PI * phase[c]);
            double error = i * q;
            rate[c] += drift * error;
            phase[c] += rate[c] + gain * error;
            phase[c] -= floor(phase[c]);
            lock[c] += 0.0078125 * (i * i - q * q - lock[c]);
            bit[t][c] = i > 0.0 ? 1 : -1;
            if (t > 0 && bit[t][c] != bit[t - 1][c])
                flips[c]++;
        }
    }
#pragma endscop
}
