/* Local alignment with gaps that cost more to open than to extend (Smith and Waterman, Gotoh):
   three tables, and the best score of every row. */
#define MAX(a, b) (((a) > (b)) ? (a) : (b))

void kernel_local_alignment_affine(int n, int m, int open, int extend, const char q[restrict n],
                                   const char d[restrict m], int H[restrict n][m],
                                   int E[restrict n][m], int F[restrict n][m],
                                   int best[restrict n])
{
#pragma scop
    for (int j = 0; j < m; ++j) {
        H[0][j] = 0;
        E[0][j] = 0;
        F[0][j] = 0;
    }
    best[0] = 0;
    for (int i = 1; i < n; ++i) {
        H[i][0] = 0;
        E[i][0] = 0;
        F[i][0] = 0;
        best[i] = 0;
        for (int j = 1; j < m; ++j) {
            E[i][j] = MAX(E[i][j - 1] - extend, H[i][j - 1] - open);
            F[i][j] = MAX(F[i - 1][j] - extend, H[i - 1][j] - open);
            int diag = H[i - 1][j - 1] + (q[i] == d[j] ? 5 : -4);
            int h = MAX(0, diag);
            h = MAX(h, E[i][j]);
            h = MAX(h, F[i][j]);
            H[i][j] = h;
            best[i] = MAX(best[i], h);
        }
    }
#pragma endscop
}
