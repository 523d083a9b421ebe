/* A separable blur: along rows into another image, then along columns. */
void blur(int n, int m, float in[n][m], float half[n][m], float out[n][m])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 2; j < m - 2; j++)
            half[i][j] = 0.0625f * (in[i][j - 2] + in[i][j + 2]) +
                         0.25f * (in[i][j - 1] + in[i][j + 1]) + 0.375f * in[i][j];
    for (int i = 2; i < n - 2; i++)
        for (int j = 2; j < m - 2; j++)
            out[i][j] = 0.0625f * (half[i - 2][j] + half[i + 2][j]) +
                        0.25f * (half[i - 1][j] + half[i + 1][j]) + 0.375f * half[i][j];
#pragma endscop
}
