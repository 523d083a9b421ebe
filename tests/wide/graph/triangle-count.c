/* Triangles through every vertex of an undirected graph, from its adjacency matrix. */
#ifndef EXTENT_n
#define EXTENT_n 700
#endif
#include "kernel.h"

void kernel_triangle_count(int n, int MATRIX(adj, n, n), int VECTOR(count, n))
{
    int i, j, k;

#pragma scop
    for (i = 0; i < BOUND(n); i++)
        count[i] = 0;
    for (i = 0; i < BOUND(n); i++)
        for (j = i + 1; j < BOUND(n); j++)
            for (k = j + 1; k < BOUND(n); k++) {
                count[i] += adj[i][j] * adj[j][k] * adj[i][k];
                count[j] += adj[i][j] * adj[j][k] * adj[i][k];
                count[k] += adj[i][j] * adj[j][k] * adj[i][k];
            }
#pragma endscop
}
