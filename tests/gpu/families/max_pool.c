/* The largest of four pixels, of every image. */
void max_pool(int c, int n, int m, int x[c][2 * n][2 * m], int y[c][n][m])
{
#pragma scop
    for (int f = 0; f < c; f++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < m; j++) {
                y[f][i][j] = x[f][2 * i][2 * j];
                for (int p = 0; p < 2; p++)
                    for (int q = 0; q < 2; q++)
                        y[f][i][j] = y[f][i][j] > x[f][2 * i + p][2 * j + q]
                                         ? y[f][i][j]
                                         : x[f][2 * i + p][2 * j + q];
            }
#pragma endscop
}
