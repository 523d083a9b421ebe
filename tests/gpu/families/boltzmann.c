/* Lattice Boltzmann, D2Q9: densities of nine directions stream on a periodic grid. */
void boltzmann(int n, int m, float f[9][n][m], float g[9][n][m])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            g[0][i][j] = f[0][i][j];
            g[1][i][j] = f[1][i][j == 0 ? m - 1 : j - 1];
            g[2][i][j] = f[2][i == 0 ? n - 1 : i - 1][j];
            g[3][i][j] = f[3][i][j == m - 1 ? 0 : j + 1];
            g[4][i][j] = f[4][i == n - 1 ? 0 : i + 1][j];
            g[5][i][j] = f[5][i == 0 ? n - 1 : i - 1][j == 0 ? m - 1 : j - 1];
            g[6][i][j] = f[6][i == 0 ? n - 1 : i - 1][j == m - 1 ? 0 : j + 1];
            g[7][i][j] = f[7][i == n - 1 ? 0 : i + 1][j == m - 1 ? 0 : j + 1];
            g[8][i][j] = f[8][i == n - 1 ? 0 : i + 1][j == 0 ? m - 1 : j - 1];
        }
#pragma endscop
}
