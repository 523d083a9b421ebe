/* The edit distance of all prefixes of two sequences; the first row and column are given. */
void edit_distance(int n, int m, int x[n], int y[m], int d[n + 1][m + 1])
{
    int best;
#pragma scop
    for (int i = 1; i <= n; i++)
        for (int j = 1; j <= m; j++) {
            best = d[i - 1][j - 1] + (x[i - 1] == y[j - 1] ? 0 : 1);
            best = best < d[i - 1][j] + 1 ? best : d[i - 1][j] + 1;
            d[i][j] = best < d[i][j - 1] + 1 ? best : d[i][j - 1] + 1;
        }
#pragma endscop
}
