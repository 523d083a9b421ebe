/* Local alignment of two strings, affine in nothing but the loops. */
#define MAX(a, b) ((a) > (b) ? (a) : (b))

enum { MATCH = 2, MISMATCH = -1, GAP = -2 };

static inline int score(char a, char b) { return a == b ? MATCH : MISMATCH; }

void smith_waterman(int n, int m, const char *s, const char *t, int h[n + 1][m + 1], int best[1])
{
#pragma scop
    for (int i = 0; i <= n; i++)
        h[i][0] = 0;
    for (int j = 0; j <= m; j++)
        h[0][j] = 0;
    best[0] = 0;
    for (int i = 1; i <= n; i++)
        for (int j = 1; j <= m; j++) {
            h[i][j] = MAX(0, MAX(h[i - 1][j - 1] + score(s[i - 1], t[j - 1]),
                                 MAX(h[i - 1][j] + GAP, h[i][j - 1] + GAP)));
            best[0] = MAX(best[0], h[i][j]);
        }
#pragma endscop
}
