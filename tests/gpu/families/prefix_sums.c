/* Prefix sums of rows, then of columns: the integral of an image. */
void prefix_sums(int n, int m, int in[n][m], int out[n][m])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            out[i][j] = in[i][j] + (j > 0 ? out[i][j - 1] : 0);
    for (int i = 1; i < n; i++)
        for (int j = 0; j < m; j++)
            out[i][j] += out[i - 1][j];
#pragma endscop
}
