/* Lengths of shortest paths between all pairs, through one more vertex at a time. */
#ifndef EXTENT_n
#define EXTENT_n 900
#endif
#ifndef DATA
#define DATA int
#endif
#include "kernel.h"

void kernel_floyd_warshall(int n, DATA MATRIX(path, n, n))
{
    int i, j, k;

#pragma scop
    for (k = 0; k < BOUND(n); k++)
        for (i = 0; i < BOUND(n); i++)
            for (j = 0; j < BOUND(n); j++)
                path[i][j] = path[i][j] < path[i][k] + path[k][j] ? path[i][j]
                                                                  : path[i][k] + path[k][j];
#pragma endscop
}
