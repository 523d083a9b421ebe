/* Gauss-Seidel in two colours: red points from black ones, then black from red. */
void red_black(int t, int n, int m, double u[n][m], double f[n][m])
{
#pragma scop
    for (int s = 0; s < t; s++)
        for (int colour = 0; colour < 2; colour++)
            for (int i = 1; i < n - 1; i++)
                for (int j = 1; j < m - 1; j++)
                    if ((i + j + colour) % 2 == 0)
                        u[i][j] = 0.25 * (u[i - 1][j] + u[i + 1][j] + u[i][j - 1] + u[i][j + 1] -
                                          f[i][j]);
#pragma endscop
}
