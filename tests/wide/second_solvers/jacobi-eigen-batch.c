/* Eigenvalues and vectors of many symmetric matrices of six by cyclic Jacobi rotations. */
#include <math.h>

#define N 6
#define SWEEPS 6

void kernel_jacobi_eigen_batch(int batch, double M[batch][N][N], double values[batch][N],
                               double vectors[batch][N][N])
{
    double a[N][N], v[N][N];
#pragma scop
    for (int m = 0; m < batch; m++) {
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) {
                a[i][j] = 0.5 * (M[m][i][j] + M[m][j][i]);
                v[i][j] = i == j ? 1.0 : 0.0;
            }
        for (int sweep = 0; sweep < SWEEPS; sweep++)
            for (int p = 0; p < N - 1; p++)
                for (int q = p + 1; q < N; q++)
                    if (fabs(a[p][q]) > 1e-13) {
                        double theta = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
                        double t = (theta >= 0.0 ? 1.0 : -1.0) / (fabs(theta) + sqrt(theta * theta + 1.0));
                        double c = 1.0 / sqrt(t * t + 1.0);
                        double s = t * c;
                        for (int k = 0; k < N; k++) {
                            double akp = a[k][p], akq = a[k][q];
                            a[k][p] = c * akp - s * akq;
                            a[k][q] = s * akp + c * akq;
                        }
                        for (int k = 0; k < N; k++) {
                            double apk = a[p][k], aqk = a[q][k];
                            a[p][k] = c * apk - s * aqk;
                            a[q][k] = s * apk + c * aqk;
                        }
                        for (int k = 0; k < N; k++) {
                            double vkp = v[k][p], vkq = v[k][q];
                            v[k][p] = c * vkp - s * vkq;
                            v[k][q] = s * vkp + c * vkq;
                        }
                    }
        for (int i = 0; i < N; i++) {
            values[m][i] = a[i][i];
            for (int j = 0; j < N; j++)
                vectors[m][i][j] = v[i][j];
        }
    }
#pragma endscop
}
