/* Gradients by Sobel, and the sum of their absolute values. */
void sobel(int n, int m, int in[n][m], int out[n][m])
{
    int gx, gy;
#pragma scop
    for (int i = 1; i < n - 1; i++)
        for (int j = 1; j < m - 1; j++) {
            gx = in[i - 1][j + 1] + 2 * in[i][j + 1] + in[i + 1][j + 1] - in[i - 1][j - 1] -
                 2 * in[i][j - 1] - in[i + 1][j - 1];
            gy = in[i + 1][j - 1] + 2 * in[i + 1][j] + in[i + 1][j + 1] - in[i - 1][j - 1] -
                 2 * in[i - 1][j] - in[i - 1][j + 1];
            out[i][j] = (gx < 0 ? -gx : gx) + (gy < 0 ? -gy : gy);
        }
#pragma endscop
}
