/* Shares of shortest paths handed back level by level, from the farthest to the nearest; edges
   between levels are dense matrices. */
void kernel_betweenness_levels(int levels, int w, double adj[levels][w][w], double paths[levels][w],
                               double share[levels][w])
{
    int l, u, v;
#pragma scop
    for (v = 0; v < w; v++)
        share[levels - 1][v] = 0.0;
    for (l = levels - 2; l >= 0; l--)
        for (u = 0; u < w; u++) {
            share[l][u] = 0.0;
            for (v = 0; v < w; v++)
                share[l][u] += adj[l][u][v] * paths[l][u] / paths[l + 1][v] * (1.0 + share[l + 1][v]);
        }
#pragma endscop
}
