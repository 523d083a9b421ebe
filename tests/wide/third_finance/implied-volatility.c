/* The volatilities that quoted calls imply: Newton's steps on the formula of Black and Scholes, kept
   between bounds. */
#include <math.h>

#define NEWTON 8
#define TOLERANCE 1e-7

void kernel_implied_volatility(int expiries, int strikes, double spot, double r, double years[expiries],
                               double strike[strikes], double quote[expiries][strikes],
                               double vol[expiries][strikes], int steps[expiries][strikes],
                               double worst[1])
{
    double largest;

#pragma scop
    largest = 0.0;
    for (int e = 0; e < expiries; e++) {
        for (int k = 0; k < strikes; k++) {
            double sd = sqrt(years[e]);
            double pv = strike[k] * exp(-r * years[e]);
            double v = 0.25;
            double miss = 1.0;
            int used = 0;
            for (int it = 0; it < NEWTON; it++) {
                if (fabs(miss) > TOLERANCE) {
                    double d1 = (log(spot / strike[k]) + (r + 0.5 * v * v) * years[e]) / (v * sd);
                    double d2 = d1 - v * sd;
                    double call = spot * 0.5 * (1.0 + erf(d1 * 0.70710678118654752440))
                        - pv * 0.5 * (1.0 + erf(d2 * 0.70710678118654752440));
                    double vega = spot * sd * 0.39894228040143267794 * exp(-0.5 * d1 * d1);
                    miss = call - quote[e][k];
                    v -= miss / (vega + 1e-3);
                    if (v < 0.02)
                        v = 0.02;
                    if (v > 2.0)
                        v = 2.0;
                    used++;
                }
            }
            vol[e][k] = v;
            steps[e][k] = used;
            largest = fabs(miss) > largest ? fabs(miss) : largest;
        }
    }
    worst[0] = largest;
#pragma endscop
}
