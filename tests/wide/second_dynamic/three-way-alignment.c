/* Alignment of three sequences by sum-of-pairs scores: a cube of seven moves. */
#define MATCH 2
#define MISMATCH (-1)
#define GAP (-2)
#define MAX(a, b) ((a) > (b) ? (a) : (b))

void kernel_three_way_alignment(int l, int m, int n, char a[l], char b[m], char c[n],
                                int score[l + 1][m + 1][n + 1])
{
#pragma scop
    for (int i = 0; i <= l; i++)
        for (int j = 0; j <= m; j++)
            score[i][j][0] = GAP * (i + j);
    for (int i = 0; i <= l; i++)
        for (int k = 0; k <= n; k++)
            score[i][0][k] = GAP * (i + k);
    for (int j = 0; j <= m; j++)
        for (int k = 0; k <= n; k++)
            score[0][j][k] = GAP * (j + k);
    for (int i = 1; i <= l; i++)
        for (int j = 1; j <= m; j++) {
            for (int k = 1; k <= n; k++) {
                int ab = a[i - 1] == b[j - 1] ? MATCH : MISMATCH;
                int ac = a[i - 1] == c[k - 1] ? MATCH : MISMATCH;
                int bc = b[j - 1] == c[k - 1] ? MATCH : MISMATCH;
                int best = score[i - 1][j - 1][k - 1] + ab + ac + bc;
                best = MAX(best, score[i - 1][j - 1][k] + ab + 2 * GAP);
                best = MAX(best, score[i - 1][j][k - 1] + ac + 2 * GAP);
                best = MAX(best, score[i][j - 1][k - 1] + bc + 2 * GAP);
                best = MAX(best, score[i - 1][j][k] + 2 * GAP);
                best = MAX(best, score[i][j - 1][k] + 2 * GAP);
                best = MAX(best, score[i][j][k - 1] + 2 * GAP);
                score[i][j][k] = best;
            }
        }
#pragma endscop
}
