/* Pixels above the mean of their row become 1, all others 0. */
void threshold(int n, int m, int in[n][m], int out[n][m])
{
    int total;
#pragma scop
    for (int i = 0; i < n; i++) {
        total = 0;
        for (int j = 0; j < m; j++)
            total += in[i][j];
        for (int j = 0; j < m; j++)
            out[i][j] = in[i][j] * m > total ? 1 : 0;
    }
#pragma endscop
}
