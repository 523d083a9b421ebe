/* An ensemble of Lorenz's model of 1996 by Runge and Kutta's method of fourth order; mean and spread. */
#include <math.h>

#define K 40
#define FORCING 8.0

void kernel_lorenz96_ensemble(int members, int steps, double dt, double x[members][K], double mean[K],
                              double spread[K])
{
    double y[K + 3], k[K], sum[K];
#pragma scop
    for (int e = 0; e < members; e++)
        for (int t = 0; t < steps; t++) {
            for (int i = 0; i < K; i++) {
                y[i + 2] = x[e][i];
                sum[i] = 0.0;
            }
            for (int stage = 0; stage < 4; stage++) {
                double ahead = stage < 2 ? 0.5 : 1.0;
                double weight = (stage == 0 || stage == 3) ? 1.0 / 6.0 : 1.0 / 3.0;
                y[0] = y[K];
                y[1] = y[K + 1];
                y[K + 2] = y[2];
                for (int i = 0; i < K; i++)
                    k[i] = (y[i + 3] - y[i]) * y[i + 1] - y[i + 2] + FORCING;
                for (int i = 0; i < K; i++) {
                    sum[i] += weight * k[i];
                    y[i + 2] = x[e][i] + ahead * dt * k[i];
                }
            }
            for (int i = 0; i < K; i++)
                x[e][i] += dt * sum[i];
        }
    for (int i = 0; i < K; i++) {
        mean[i] = 0.0;
        spread[i] = 0.0;
        for (int e = 0; e < members; e++)
            mean[i] += x[e][i];
        mean[i] /= members;
        for (int e = 0; e < members; e++)
            spread[i] += (x[e][i] - mean[i]) * (x[e][i] - mean[i]);
        spread[i] = sqrt(spread[i] / members);
    }
#pragma endscop
}
