/* Lengths of shortest paths between all places, and how many paths have that length. */

void kernel_shortest_path_counts(int n, int dist[n][n], double count[n][n])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++)
            count[i][j] = 1.0;
        dist[i][i] = 0;
    }
    for (int k = 0; k < n; k++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                if (i != k && j != k && i != j) {
                    int via = dist[i][k] + dist[k][j];
                    if (via < dist[i][j]) {
                        dist[i][j] = via;
                        count[i][j] = count[i][k] * count[k][j];
                    } else if (via == dist[i][j]) {
                        count[i][j] += count[i][k] * count[k][j];
                    }
                }
#pragma endscop
}
