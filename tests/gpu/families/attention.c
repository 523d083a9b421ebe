/* Causal attention scores: q times the transpose of k, scaled, zero above the diagonal. */
void attention(int h, int n, int d, double q[h][n][d], double k[h][n][d], double s[h][n][n],
               double scale)
{
#pragma scop
    for (int a = 0; a < h; a++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) {
                s[a][i][j] = 0.0;
                if (j <= i) {
                    for (int p = 0; p < d; p++)
                        s[a][i][j] += q[a][i][p] * k[a][j][p];
                    s[a][i][j] *= scale;
                }
            }
#pragma endscop
}
