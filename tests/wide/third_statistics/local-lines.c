/* Lines fitted around each point with tricube weights (lowess), once more with weights that spare
   outliers. */
#include <math.h>

void kernel_local_lines(int n, double width, double x[n], double y[n], double fit[n], double robust[n],
                        double spread[2])
{
    int i, j, pass;

#pragma scop
    for (i = 0; i < n; i++)
        robust[i] = 1.0;
    for (pass = 0; pass < 2; pass++) {
        double sum = 0.0;
        for (i = 0; i < n; i++) {
            double w0 = 0.0, wx = 0.0, wy = 0.0, wxx = 0.0, wxy = 0.0;
            for (j = 0; j < n; j++) {
                double u = fabs(x[j] - x[i]) / width;
                if (u < 1.0) {
                    double c = 1.0 - u * u * u;
                    double w = robust[j] * c * c * c;
                    double d = x[j] - x[i];
                    w0 += w;
                    wx += w * d;
                    wy += w * y[j];
                    wxx += w * d * d;
                    wxy += w * d * y[j];
                }
            }
            double det = w0 * wxx - wx * wx;
            fit[i] = det > 1e-9 ? (wy * wxx - wx * wxy) / det : y[i];
            sum += fabs(y[i] - fit[i]);
        }
        spread[pass] = sum / n;
        for (i = 0; i < n; i++) {
            double e = (y[i] - fit[i]) / (6.0 * spread[pass] + 1e-12);
            robust[i] = fabs(e) < 1.0 ? (1.0 - e * e) * (1.0 - e * e) : 0.0;
        }
    }
#pragma endscop
}
