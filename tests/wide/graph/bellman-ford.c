/* Distances from some sources by rounds over a dense matrix of lengths; rounds are fixed. */
#ifndef EXTENT_n
#define EXTENT_n 1500
#endif
#ifndef EXTENT_rounds
#define EXTENT_rounds 40
#endif

void kernel_bellman_ford(int rounds, int n, const int w[EXTENT_n][EXTENT_n], int d[EXTENT_n])
{
    int r, u, v;
#pragma scop
    for (r = 1; r <= rounds; r++)
        for (u = 0; u < n; u++)
            for (v = 0; v < n; v++)
                d[v] = d[u] + w[u][v] < d[v] ? d[u] + w[u][v] : d[v];
#pragma endscop
}
