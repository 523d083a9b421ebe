/* A X + X B = C where A and B are upper triangles (the rest of them is not read): from the last row
   up, from the first column on; and the largest residual. */
#include <math.h>

void kernel_sylvester_triangles(int n, int m, double A[n][n], double B[m][m], double C[n][m],
                                double X[n][m], double resid[1])
{
    double worst = 0.0;

#pragma scop
    for (int i = n - 1; i >= 0; i--) {
        for (int j = 0; j < m; j++) {
            double sum = C[i][j];
            for (int k = i + 1; k < n; k++)
                sum -= A[i][k] * X[k][j];
            for (int k = 0; k < j; k++)
                sum -= X[i][k] * B[k][j];
            X[i][j] = sum / (A[i][i] + B[j][j]);
        }
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            double left = -C[i][j];
            for (int k = i; k < n; k++)
                left += A[i][k] * X[k][j];
            for (int k = 0; k <= j; k++)
                left += X[i][k] * B[k][j];
            if (fabs(left) > worst)
                worst = fabs(left);
        }
    resid[0] = worst;
#pragma endscop
}
