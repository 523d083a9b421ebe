/* Lengths of shortest paths with the last stop before each destination. */
#ifndef EXTENT_n
#define EXTENT_n 400
#endif
#define V EXTENT_n

void kernel_floyd_predecessor(int n, float dist[V][V], int pred[V][V])
{
    int i, j, k;
#pragma scop
    for (k = 0; k < n; k++)
        for (i = 0; i < n; i++)
            for (j = 0; j < n; j++)
                if (dist[i][k] + dist[k][j] < dist[i][j]) {
                    dist[i][j] = dist[i][k] + dist[k][j];
                    pred[i][j] = pred[k][j];
                }
#pragma endscop
}
