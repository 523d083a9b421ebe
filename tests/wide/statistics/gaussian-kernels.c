/* The symmetric matrix of Gaussian kernels of all pairs of points, with a ridge on its diagonal. */
#include <math.h>

void kernel_gaussian_kernels(int n, int d, double gamma, double ridge, const double x[n][d],
                             double K[n][n])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < i; j++) {
            double s = 0.0;
            for (int f = 0; f < d; f++) {
                double diff = x[i][f] - x[j][f];
                s += diff * diff;
            }
            K[i][j] = exp(-gamma * s);
            K[j][i] = K[i][j];
        }
        K[i][i] = 1.0 + ridge;
    }
#pragma endscop
}
