/* Maxwell's equations in two dimensions, transverse magnetic: steps in time. */
void fdtd_tm(int t, int n, int m, double ez[n][m], double hx[n][m], double hy[n][m])
{
#pragma scop
    for (int s = 0; s < t; s++) {
        for (int i = 0; i < n; i++)
            for (int j = 0; j < m - 1; j++)
                hx[i][j] -= 0.5 * (ez[i][j + 1] - ez[i][j]);
        for (int i = 0; i < n - 1; i++)
            for (int j = 0; j < m; j++)
                hy[i][j] += 0.5 * (ez[i + 1][j] - ez[i][j]);
        for (int i = 1; i < n - 1; i++)
            for (int j = 1; j < m - 1; j++)
                ez[i][j] += 0.5 * (hy[i][j] - hy[i - 1][j] - hx[i][j] + hx[i][j - 1]);
    }
#pragma endscop
}
