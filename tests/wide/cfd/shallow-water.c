/* Shallow water in two dimensions: fluxes of mass and momentum, then the new state. */
void kernel_shallow_water(int steps, int n, int m, double dt, double h[n][m], double hu[n][m],
                          double hv[n][m], double fx[3][n][m], double fy[3][n][m])
{
    int t, i, j;
#pragma scop
    for (t = 1; t <= steps; ++t) {
        for (i = 0; i < n; ++i)
            for (j = 0; j < m; ++j) {
                double u = hu[i][j] / h[i][j], v = hv[i][j] / h[i][j];
                fx[0][i][j] = hu[i][j];
                fx[1][i][j] = hu[i][j] * u + 4.9 * h[i][j] * h[i][j];
                fx[2][i][j] = hv[i][j] * u;
                fy[0][i][j] = hv[i][j];
                fy[1][i][j] = hu[i][j] * v;
                fy[2][i][j] = hv[i][j] * v + 4.9 * h[i][j] * h[i][j];
            }
        for (i = 1; i < n - 1; ++i)
            for (j = 1; j < m - 1; ++j) {
                h[i][j] -= dt * (fx[0][i + 1][j] - fx[0][i - 1][j] + fy[0][i][j + 1] - fy[0][i][j - 1]);
                hu[i][j] -= dt * (fx[1][i + 1][j] - fx[1][i - 1][j] + fy[1][i][j + 1] - fy[1][i][j - 1]);
                hv[i][j] -= dt * (fx[2][i + 1][j] - fx[2][i - 1][j] + fy[2][i][j + 1] - fy[2][i][j - 1]);
            }
    }
#pragma endscop
}
