/* Least squares by normal equations: sums over the samples, Cholesky, two substitutions. */
#include <math.h>

void kernel_least_squares_normal(int samples, int n, double ridge, double X[samples][n],
                                 double y[samples], double G[n][n], double w[n])
{
    int s, i, j, k;

#pragma scop
    for (i = 0; i < n; i++) {
        w[i] = 0;
        for (j = 0; j <= i; j++)
            G[i][j] = i == j ? ridge : 0.0;
    }
    for (s = 0; s < samples; s++)
        for (i = 0; i < n; i++) {
            w[i] += X[s][i] * y[s];
            for (j = 0; j <= i; j++)
                G[i][j] += X[s][i] * X[s][j];
        }
    for (i = 0; i < n; i++) {
        for (j = 0; j <= i; j++) {
            for (k = 0; k < j; k++)
                G[i][j] -= G[i][k] * G[j][k];
            if (i == j)
                G[i][i] = sqrt(G[i][i]);
            else
                G[i][j] /= G[j][j];
        }
        for (k = 0; k < i; k++)
            w[i] -= G[i][k] * w[k];
        w[i] /= G[i][i];
    }
    for (i = n - 1; i >= 0; i--) {
        for (k = i + 1; k < n; k++)
            w[i] -= G[k][i] * w[k];
        w[i] /= G[i][i];
    }
#pragma endscop
}
