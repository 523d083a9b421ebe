/* Cores of a graph: for each k, places with fewer than k neighbours that are left go away, a few
   rounds long. */

#define ROUNDS 8

void kernel_core_numbers(int levels, int n, unsigned char adj[n][n], unsigned char alive[n],
                         int degree[n], int core[n], int left[levels])
{
#pragma scop
    for (int v = 0; v < n; v++) {
        alive[v] = 1;
        core[v] = 0;
    }
    for (int k = 0; k < levels; k++) {
        for (int round = 0; round < ROUNDS; round++) {
            for (int v = 0; v < n; v++) {
                int count = 0;
                for (int u = 0; u < n; u++)
                    count += (adj[v][u] | adj[u][v]) & alive[u];
                degree[v] = count;
            }
            for (int v = 0; v < n; v++)
                if (degree[v] < k * 4)
                    alive[v] = 0;
        }
        left[k] = 0;
        for (int v = 0; v < n; v++)
            if (alive[v]) {
                core[v] = k * 4;
                left[k]++;
            }
    }
#pragma endscop
}
