/* The wave equation with the time before and the time now in two arrays that exchange roles. */
void kernel_wave_two_levels(int half, int n, int m, float c2, float p[restrict n][m],
                            float u[restrict n][m])
{
#pragma scop
    for (int t = 0; t < half; t++) {
        for (int i = 1; i < n - 1; i++)
            for (int j = 1; j < m - 1; j++)
                p[i][j] = 2.0f * u[i][j] - p[i][j]
                          + c2 * (u[i - 1][j] + u[i + 1][j] + u[i][j - 1] + u[i][j + 1] - 4.0f * u[i][j]);
        for (int i = 1; i < n - 1; i++)
            for (int j = 1; j < m - 1; j++)
                u[i][j] = 2.0f * p[i][j] - u[i][j]
                          + c2 * (p[i - 1][j] + p[i + 1][j] + p[i][j - 1] + p[i][j + 1] - 4.0f * p[i][j]);
    }
#pragma endscop
}
