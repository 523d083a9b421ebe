/* American puts on simulated paths: what waiting is worth is regressed on 1, s and s squared over the
   paths in the money, from the last date to the first. */
#include <math.h>

void kernel_regression_exercise(int dates, int paths, double strike, double disc, double s[dates][paths],
                                double cash[paths], double price[2])
{
    double sum = 0.0, squares = 0.0;

#pragma scop
    for (int p = 0; p < paths; p++)
        cash[p] = fmax(strike - s[dates - 1][p], 0.0);
    for (int t = dates - 2; t >= 0; t--) {
        double m0 = 1e-9, m1 = 0.0, m2 = 1e-9, m3 = 0.0, m4 = 1e-9;
        double y0 = 0.0, y1 = 0.0, y2 = 0.0;
        for (int p = 0; p < paths; p++) {
            if (s[t][p] < strike) {
                double x = s[t][p];
                double y = disc * cash[p];
                m0 += 1.0;
                m1 += x;
                m2 += x * x;
                m3 += x * x * x;
                m4 += x * x * x * x;
                y0 += y;
                y1 += x * y;
                y2 += x * x * y;
            }
        }
        /* three equations by Cramer's rule */
        double det = m0 * (m2 * m4 - m3 * m3) - m1 * (m1 * m4 - m2 * m3) + m2 * (m1 * m3 - m2 * m2);
        double b0 = y0 * (m2 * m4 - m3 * m3) - m1 * (y1 * m4 - m3 * y2) + m2 * (y1 * m3 - m2 * y2);
        double b1 = m0 * (y1 * m4 - m3 * y2) - y0 * (m1 * m4 - m2 * m3) + m2 * (m1 * y2 - m2 * y1);
        double b2 = m0 * (m2 * y2 - m3 * y1) - m1 * (m1 * y2 - m2 * y1) + y0 * (m1 * m3 - m2 * m2);
        double scale = fabs(det) > 1e-12 ? 1.0 / det : 0.0;
        for (int p = 0; p < paths; p++) {
            double now = strike - s[t][p];
            double wait = scale * (b0 + s[t][p] * (b1 + s[t][p] * b2));
            if (now > 0.0 && now > wait)
                cash[p] = now;
            else
                cash[p] = disc * cash[p];
        }
    }
    for (int p = 0; p < paths; p++) {
        sum += cash[p];
        squares += cash[p] * cash[p];
    }
    price[0] = sum / paths;
    price[1] = sqrt(fabs(squares / paths - sum / paths * (sum / paths)) / paths);
#pragma endscop
}
