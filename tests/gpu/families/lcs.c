/* The length of the longest common subsequence of two sequences, by prefixes. */
void lcs(int n, int m, int x[n], int y[m], int len[n + 1][m + 1])
{
#pragma scop
    for (int i = 0; i <= n; i++)
        len[i][0] = 0;
    for (int j = 0; j <= m; j++)
        len[0][j] = 0;
    for (int i = 1; i <= n; i++)
        for (int j = 1; j <= m; j++)
            len[i][j] = x[i - 1] == y[j - 1]
                            ? len[i - 1][j - 1] + 1
                            : (len[i - 1][j] > len[i][j - 1] ? len[i - 1][j] : len[i][j - 1]);
#pragma endscop
}
