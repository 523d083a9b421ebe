/* A velocity made free of divergence: its divergence, some sweeps for the pressure over all nine
   neighbours, the gradient taken off. */
#ifndef EXTENT_n
#define EXTENT_n 600
#define EXTENT_sweeps 10
#endif

void kernel_divergence_project(int sweeps, int n, double u[EXTENT_n][EXTENT_n], double v[EXTENT_n][EXTENT_n],
                               double div[EXTENT_n][EXTENT_n], double p[EXTENT_n][EXTENT_n],
                               double q[EXTENT_n][EXTENT_n])
{
    int i, j, s;
#pragma scop
    for (i = 1; i < n - 1; i++)
        for (j = 1; j < n - 1; j++)
            div[i][j] = 0.5 * (u[i + 1][j] - u[i - 1][j] + v[i][j + 1] - v[i][j - 1]);
    for (s = 0; s < sweeps; s++) {
        for (i = 1; i < n - 1; i++)
            for (j = 1; j < n - 1; j++)
                q[i][j] = (4.0 * (p[i - 1][j] + p[i + 1][j] + p[i][j - 1] + p[i][j + 1])
                           + p[i - 1][j - 1] + p[i - 1][j + 1] + p[i + 1][j - 1] + p[i + 1][j + 1]
                           - 6.0 * div[i][j]) / 20.0;
        for (i = 1; i < n - 1; i++)
            for (j = 1; j < n - 1; j++)
                p[i][j] = q[i][j];
    }
    for (i = 1; i < n - 1; i++)
        for (j = 1; j < n - 1; j++) {
            u[i][j] -= 0.5 * (p[i + 1][j] - p[i - 1][j]);
            v[i][j] -= 0.5 * (p[i][j + 1] - p[i][j - 1]);
        }
#pragma endscop
}
