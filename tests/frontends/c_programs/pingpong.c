/* The wave equation with two planes that take turns. */
void pingpong(int n, int m, int steps, double c, double a[2][n][m])
{
#pragma scop
    for (int t = 0; t < steps; t++)
        for (int i = 1; i < n - 1; i++)
            for (int j = 1; j < m - 1; j++)
                a[(t + 1) % 2][i][j] = a[t % 2][i][j] + c * (a[t % 2][i - 1][j] + a[t % 2][i + 1][j]
                    + a[t % 2][i][j - 1] + a[t % 2][i][j + 1] - 4.0 * a[t % 2][i][j]);
#pragma endscop
}

void three_planes(int n, int steps, double c, double a[3][n])
{
#pragma scop
    for (int t = 1; t <= steps; t++)
        for (int i = 1; i < n - 1; i++)
            a[(t + 1) % 3][i] = 2.0 * a[t % 3][i] - a[(t - 1) % 3][i]
                + c * (a[t % 3][i - 1] - 2.0 * a[t % 3][i] + a[t % 3][i + 1]);
#pragma endscop
}
