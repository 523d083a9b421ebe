/* An image of half the size: the mean of four pixels. */
void downscale(int n, int m, double in[2 * n][2 * m], double out[n][m])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            out[i][j] = 0.25 * (in[2 * i][2 * j] + in[2 * i][2 * j + 1] + in[2 * i + 1][2 * j] +
                                in[2 * i + 1][2 * j + 1]);
#pragma endscop
}
