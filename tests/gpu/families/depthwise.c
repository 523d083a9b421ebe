/* A convolution of each channel by itself, every second pixel. */
void depthwise(int c, int n, int m, float x[c][2 * n + 1][2 * m + 1], float w[c][3][3],
               float y[c][n][m])
{
    float sum;
#pragma scop
    for (int f = 0; f < c; f++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < m; j++) {
                sum = 0.0f;
                for (int p = 0; p < 3; p++)
                    for (int q = 0; q < 3; q++)
                        if (2 * i + p < 2 * n + 1 && 2 * j + q < 2 * m + 1)
                            sum += x[f][2 * i + p][2 * j + q] * w[f][p][q];
                y[f][i][j] = sum;
            }
#pragma endscop
}
