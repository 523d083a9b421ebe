/* Concordant less discordant pairs of observations, for every pair of variables. */
void kernel_kendall_tau(int m, int n, int rank[m][n], int tau[m][m])
{
    int a, b, i, j;

#pragma scop
    for (a = 0; a < m; a++) {
        tau[a][a] = n * (n - 1) / 2;
        for (b = a + 1; b < m; b++) {
            int score = 0;
            for (i = 1; i < n; i++)
                for (j = 0; j < i; j++) {
                    int u = rank[a][i] - rank[a][j];
                    int v = rank[b][i] - rank[b][j];
                    int su = u > 0 ? 1 : (u < 0 ? -1 : 0);
                    int sv = v > 0 ? 1 : (v < 0 ? -1 : 0);
                    score += su * sv;
                }
            tau[a][b] = score;
            tau[b][a] = score;
        }
    }
#pragma endscop
}
