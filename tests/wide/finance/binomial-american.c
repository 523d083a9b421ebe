/* American puts on binomial trees: backwards in place, held or exercised at every node. */
#include <math.h>

void kernel_binomial_american(int options, int n, double up, double p, double discount,
                              double spot[options], double strike[options], double v[options][n])
{
#pragma scop
    for (int o = 0; o < options; o++) {
        /* node j of the last level has gone up j times and down n - 1 - j times */
        double s = spot[o];
        for (int j = 0; j < n - 1; j++)
            s /= up;
        for (int j = 0; j < n; j++) {
            v[o][j] = fmax(strike[o] - s, 0.0);
            s *= up * up;
        }
        double lowest = spot[o];
        for (int t = 0; t < n - 2; t++)
            lowest /= up;
        for (int level = n - 2; level >= 0; level--) {
            double price = lowest;
            for (int j = 0; j <= level; j++) {
                double hold = discount * (p * v[o][j + 1] + (1.0 - p) * v[o][j]);
                v[o][j] = fmax(hold, strike[o] - price);
                price *= up * up;
            }
            lowest *= up;
        }
    }
#pragma endscop
}
