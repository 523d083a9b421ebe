/* An orthogonal basis of a Krylov space and the Hessenberg matrix in it: modified Gram and Schmidt,
   done twice for each vector, and how far from orthogonal the basis is. */
#include <math.h>

void kernel_arnoldi_basis(int n, int m, double A[n][n], double start[n], double Q[m + 1][n],
                          double H[m + 1][m], double lost[1])
{
    int i, j, k, pass;
    double norm, worst;

#pragma scop
    for (i = 0; i <= m; i++)
        for (j = 0; j < m; j++)
            H[i][j] = 0.0;
    norm = 0.0;
    for (i = 0; i < n; i++)
        norm += start[i] * start[i];
    norm = sqrt(norm);
    for (i = 0; i < n; i++)
        Q[0][i] = norm > 0.0 ? start[i] / norm : 0.0;

    for (k = 0; k < m; k++) {
        for (i = 0; i < n; i++) {
            Q[k + 1][i] = 0.0;
            for (j = 0; j < n; j++)
                Q[k + 1][i] += A[i][j] * Q[k][j];
        }
        for (pass = 0; pass < 2; pass++)
            for (j = 0; j <= k; j++) {
                double dot = 0.0;
                for (i = 0; i < n; i++)
                    dot += Q[j][i] * Q[k + 1][i];
                H[j][k] += dot;
                for (i = 0; i < n; i++)
                    Q[k + 1][i] -= dot * Q[j][i];
            }
        norm = 0.0;
        for (i = 0; i < n; i++)
            norm += Q[k + 1][i] * Q[k + 1][i];
        H[k + 1][k] = sqrt(norm);
        if (H[k + 1][k] > 1e-14)
            for (i = 0; i < n; i++)
                Q[k + 1][i] /= H[k + 1][k];
    }

    worst = 0.0;
    for (k = 0; k <= m; k++)
        for (j = 0; j < k; j++) {
            double dot = 0.0;
            for (i = 0; i < n; i++)
                dot += Q[j][i] * Q[k][i];
            worst = fabs(dot) > worst ? fabs(dot) : worst;
        }
    lost[0] = worst;
#pragma endscop
}
