/* One component of each field of Maxwell's equations in three dimensions. */
void fdtd_3d(int t, int n, float ex[n][n][n], float ey[n][n][n], float hz[n][n][n])
{
#pragma scop
    for (int s = 0; s < t; s++) {
        for (int i = 0; i < n; i++)
            for (int j = 1; j < n; j++)
                for (int k = 0; k < n; k++)
                    ex[i][j][k] += 0.4f * (hz[i][j][k] - hz[i][j - 1][k]);
        for (int i = 1; i < n; i++)
            for (int j = 0; j < n; j++)
                for (int k = 0; k < n; k++)
                    ey[i][j][k] -= 0.4f * (hz[i][j][k] - hz[i - 1][j][k]);
        for (int i = 0; i < n - 1; i++)
            for (int j = 0; j < n - 1; j++)
                for (int k = 0; k < n; k++)
                    hz[i][j][k] += 0.4f * (ex[i][j + 1][k] - ex[i][j][k] - ey[i + 1][j][k] +
                                           ey[i][j][k]);
    }
#pragma endscop
}
