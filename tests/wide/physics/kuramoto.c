/* Oscillators that pull at each other by the sine of the difference of their phases. */
#include <math.h>

void kernel_kuramoto(int steps, int n, double coupling, double dt, double omega[n], double theta[n],
                     double rate[n])
{
#pragma scop
    for (int t = 0; t < steps; t++) {
        for (int i = 0; i < n; i++) {
            double pull = 0.0;
            for (int j = 0; j < n; j++)
                pull += sin(theta[j] - theta[i]);
            rate[i] = omega[i] + coupling / n * pull;
        }
        for (int i = 0; i < n; i++)
            theta[i] += dt * rate[i];
    }
#pragma endscop
}
