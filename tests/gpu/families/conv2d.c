/* A convolution of images with several channels, without padding. */
void conv2d(int ci, int co, int n, int m, float x[ci][n + 2][m + 2], float w[co][ci][3][3],
            float y[co][n][m])
{
#pragma scop
    for (int o = 0; o < co; o++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < m; j++) {
                y[o][i][j] = 0.0f;
                for (int c = 0; c < ci; c++)
                    for (int p = 0; p < 3; p++)
                        for (int q = 0; q < 3; q++)
                            y[o][i][j] += x[c][i + p][j + q] * w[o][c][p][q];
            }
#pragma endscop
}
