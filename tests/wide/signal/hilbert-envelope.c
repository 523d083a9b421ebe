/* Envelope of a signal: a Hilbert transformer, of whose odd taps only one half is stored, and the
   length of the analytic signal, smoothed by a leaky mean. */
#include <math.h>

#define HALF 31

void kernel_hilbert_envelope(int n, double leak, double x[n], double h[32], double q[n],
                             double env[n])
{
    int i, k;

#pragma scop
    for (i = 0; i < HALF; i++)
        env[i] = 0.0;
    for (i = HALF; i < n - HALF; i++) {
        q[i] = 0.0;
        for (k = 1; k <= HALF; k += 2)
            q[i] += h[k] * (x[i - k] - x[i + k]);
    }
    for (i = HALF; i < n - HALF; i++)
        env[i] = leak * env[i - 1] + (1.0 - leak) * sqrt(x[i] * x[i] + q[i] * q[i]);
#pragma endscop
}
