/* Recurrences that run only along slanted fronts: an edit distance, then a sweep that looks up and
   to the right, then one that carries on every loop. */
#ifndef EXTENT_n
#define EXTENT_n 1500
#define EXTENT_m 1300
#endif
#ifndef DATA
#define DATA int
#endif
#include "kernel.h"

void kernel_nasty_wavefront(int n, int m, char VECTOR(s, n), char VECTOR(t, m),
                            DATA MATRIX(cost, n, m), DATA MATRIX(grid, n, m))
{
    int i, j, k;

#pragma scop
    for (i = 1; i < BOUND(n); i++)
        for (j = 1; j < BOUND(m); j++)
            cost[i][j] = LESSER(LESSER(cost[i - 1][j] + 1, cost[i][j - 1] + 1),
                                cost[i - 1][j - 1] + (s[i] == t[j] ? 0 : 2));
    for (i = 1; i < BOUND(n); i++)
        for (j = 1; j < BOUND(m) - 1; j++)
            grid[i][j] = GREATER(grid[i][j], grid[i - 1][j + 1] + cost[i][j] - grid[i][j - 1]);
    for (k = 0; k < 3; k++)
        for (i = 2; i < BOUND(n); i++)
            for (j = 0; j < BOUND(m) - 2; j++)
                grid[i][j] = LESSER(grid[i - 2][j + 1] + k, grid[i - 1][j + 2]);
#pragma endscop
}
