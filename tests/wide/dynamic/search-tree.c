/* Optimal binary search trees: expected depth of the best tree over each range of keys. */
#ifndef EXTENT_n
#define EXTENT_n 800
#define EXTENT_n1 801
#endif
#include "kernel.h"

void kernel_search_tree(int n, int n1, DATA VECTOR(hits, n), DATA MATRIX(mass, n1, n1),
                        DATA MATRIX(cost, n1, n1))
{
    int i, j, r;
    DATA best;

#pragma scop
    /* cost[i][j] is of the keys i to j - 1 */
    for (i = 0; i <= BOUND(n); i++) {
        cost[i][i] = 0;
        mass[i][i] = 0;
    }
    for (i = BOUND(n) - 1; i >= 0; i--)
        for (j = i + 1; j <= BOUND(n); j++) {
            mass[i][j] = mass[i][j - 1] + hits[j - 1];
            best = cost[i][i] + cost[i + 1][j];
            for (r = i + 1; r < j; r++)
                best = LESSER(best, cost[i][r] + cost[r + 1][j]);
            cost[i][j] = best + mass[i][j];
        }
#pragma endscop
}
