/* American puts on a grid of prices: an implicit step relaxed by sweeps, never below the payoff. */
#include <math.h>

#define OMEGA 1.2

void kernel_projected_relaxation(int steps, int sweeps, int n, double r, double sigma, double strike,
                                 double dt, double v[n], double rhs[n], double payoff[n],
                                 double boundary[steps])
{
#pragma scop
    double h = 3.0 * strike / (n - 1);
    for (int i = 0; i < n; i++) {
        payoff[i] = strike - i * h > 0.0 ? strike - i * h : 0.0;
        v[i] = payoff[i];
    }
    for (int t = 0; t < steps; t++) {
        for (int i = 0; i < n; i++)
            rhs[i] = v[i];
        for (int k = 0; k < sweeps; k++) {
            for (int i = 1; i < n - 1; i++) {
                double a = 0.5 * dt * (sigma * sigma * i * i - r * i);
                double b = 1.0 + dt * (sigma * sigma * i * i + r);
                double c = 0.5 * dt * (sigma * sigma * i * i + r * i);
                double y = (rhs[i] + a * v[i - 1] + c * v[i + 1]) / b;
                y = v[i] + OMEGA * (y - v[i]);
                v[i] = y > payoff[i] ? y : payoff[i];
            }
        }
        /* the highest price at which one exercises */
        double last = 0.0;
        for (int i = 1; i < n - 1; i++)
            if (v[i] <= payoff[i] && payoff[i] > 0.0)
                last = i * h;
        boundary[t] = last;
    }
#pragma endscop
}
