/* Distance correlation of two samples of points: distances, both means taken off, three averages. */
#include <math.h>

#define D 3

void kernel_distance_correlation(int n, float x[n][D], float y[n][D], double a[n][n], double b[n][n],
                                 double ra[n], double rb[n], double result[4])
{
    double ga, gb;
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            double da = 0.0;
            double db = 0.0;
            for (int d = 0; d < D; d++) {
                da += (x[i][d] - x[j][d]) * (x[i][d] - x[j][d]);
                db += fabs(y[i][d] - y[j][d]);
            }
            a[i][j] = sqrt(da);
            a[j][i] = a[i][j];
            b[i][j] = db;
            b[j][i] = db;
        }
    ga = 0.0;
    gb = 0.0;
    for (int i = 0; i < n; i++) {
        ra[i] = 0.0;
        rb[i] = 0.0;
        for (int j = 0; j < n; j++) {
            ra[i] += a[i][j];
            rb[i] += b[i][j];
        }
        ga += ra[i];
        gb += rb[i];
        ra[i] /= n;
        rb[i] /= n;
    }
    ga /= (double)n * n;
    gb /= (double)n * n;
    result[0] = 0.0;
    result[1] = 0.0;
    result[2] = 0.0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double u = a[i][j] - ra[i] - ra[j] + ga;
            double v = b[i][j] - rb[i] - rb[j] + gb;
            result[0] += u * v;
            result[1] += u * u;
            result[2] += v * v;
        }
    result[3] = result[1] * result[2] > 0.0 ? sqrt(fabs(result[0]) / sqrt(result[1] * result[2])) : 0.0;
#pragma endscop
}
