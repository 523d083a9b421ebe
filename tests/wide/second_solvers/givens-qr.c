/* Least squares by Givens' rotations from the bottom up, then back substitution. */
#include <math.h>

void kernel_givens_qr(int m, int n, double A[m][n], double b[m], double x[n])
{
#pragma scop
    for (int j = 0; j < n; j++)
        for (int i = m - 1; i > j; i--) {
            if (A[i][j] != 0.0) {
                double r = sqrt(A[i - 1][j] * A[i - 1][j] + A[i][j] * A[i][j]);
                double c = A[i - 1][j] / r;
                double s = A[i][j] / r;
                for (int k = j; k < n; k++) {
                    double upper = A[i - 1][k];
                    double lower = A[i][k];
                    A[i - 1][k] = c * upper + s * lower;
                    A[i][k] = c * lower - s * upper;
                }
                double above = b[i - 1];
                b[i - 1] = c * above + s * b[i];
                b[i] = c * b[i] - s * above;
            }
        }
    for (int j = n - 1; j >= 0; j--) {
        double sum = b[j];
        for (int k = j + 1; k < n; k++)
            sum -= A[j][k] * x[k];
        x[j] = sum / A[j][j];
    }
#pragma endscop
}
