/* Heat on a torus: neighbours over the edge by conditional expressions. */
void periodic_heat(int n, int m, int steps, double k, double u[n][m], double v[n][m])
{
#pragma scop
    for (int t = 0; t < steps; t++) {
        for (int i = 0; i < n; i++)
            for (int j = 0; j < m; j++)
                v[i][j] = u[i][j] + k * (u[i == 0 ? n - 1 : i - 1][j] + u[i == n - 1 ? 0 : i + 1][j]
                    + u[i][j == 0 ? m - 1 : j - 1] + u[i][j == m - 1 ? 0 : j + 1] - 4.0 * u[i][j]);
        for (int i = 0; i < n; i++)
            for (int j = 0; j < m; j++)
                u[i][j] = v[i][j];
    }
#pragma endscop
}
