/* Ranks of pages by repeated steps along links that are chosen at random, links as a dense matrix. */
#include <math.h>

void kernel_page_rank(int steps, int n, double damping, double link[restrict n][n],
                      double rank[restrict n], double next[restrict n], double change[restrict steps])
{
    int t, i, j;
#pragma scop
    for (t = 0; t < steps; t++) {
        for (i = 0; i < n; i++) {
            next[i] = 0.0;
            for (j = 0; j < n; j++)
                next[i] += link[j][i] * rank[j];
            next[i] = (1.0 - damping) / n + damping * next[i];
        }
        change[t] = 0.0;
        for (i = 0; i < n; i++) {
            change[t] += fabs(next[i] - rank[i]);
            rank[i] = next[i];
        }
    }
#pragma endscop
}
