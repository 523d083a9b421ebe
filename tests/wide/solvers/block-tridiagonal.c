/* Block tridiagonal systems with blocks of 3 x 3: each pivot block is factored where it stands. */
#define B 3

void kernel_block_tridiagonal(int lines, int n, double L[lines][n][B][B], double D[lines][n][B][B],
                              double U[lines][n][B][B], double x[lines][n][B])
{
    int s, i, r, c, k;

#pragma scop
    for (s = 0; s < lines; s++) {
        for (i = 0; i < n; i++) {
            if (i > 0) {
                for (r = 0; r < B; r++) {
                    for (c = 0; c < B; c++)
                        for (k = 0; k < B; k++)
                            D[s][i][r][c] -= L[s][i][r][k] * U[s][i - 1][k][c];
                    for (k = 0; k < B; k++)
                        x[s][i][r] -= L[s][i][r][k] * x[s][i - 1][k];
                }
            }
            /* Gauss-Jordan on [D | U x], without pivots */
            for (k = 0; k < B; k++) {
                double p = 1.0 / D[s][i][k][k];
                for (c = k + 1; c < B; c++)
                    D[s][i][k][c] *= p;
                for (c = 0; c < B; c++)
                    U[s][i][k][c] *= p;
                x[s][i][k] *= p;
                for (r = 0; r < B; r++)
                    if (r != k) {
                        double f = D[s][i][r][k];
                        for (c = k + 1; c < B; c++)
                            D[s][i][r][c] -= f * D[s][i][k][c];
                        for (c = 0; c < B; c++)
                            U[s][i][r][c] -= f * U[s][i][k][c];
                        x[s][i][r] -= f * x[s][i][k];
                    }
            }
        }
        for (i = n - 2; i >= 0; i--)
            for (r = 0; r < B; r++)
                for (k = 0; k < B; k++)
                    x[s][i][r] -= U[s][i][r][k] * x[s][i + 1][k];
    }
#pragma endscop
}
