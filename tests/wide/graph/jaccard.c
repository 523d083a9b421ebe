/* How alike the neighbourhoods of all pairs are: shared neighbours over all of both. */
#ifndef EXTENT_n
#define EXTENT_n 600
#endif
enum { LAST = 1 };

void kernel_jaccard(int n, double adj[EXTENT_n][EXTENT_n], double degree[EXTENT_n],
                    double alike[EXTENT_n][EXTENT_n])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        degree[i] = 0;
        for (int k = 0; k < n; k++)
            degree[i] += adj[i][k];
    }
    for (int i = 0; i <= n - LAST; i++)
        for (int j = 0; j <= i; j++) {
            double both = 0.0;
            for (int k = 0; k < n; k++)
                both += adj[i][k] * adj[j][k];
            alike[i][j] = both / (degree[i] + degree[j] - both + 1.0);
            alike[j][i] = alike[i][j];
        }
#pragma endscop
}
