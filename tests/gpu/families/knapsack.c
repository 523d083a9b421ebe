/* A knapsack with items of weight 3: the best value of every capacity, item by item. */
void knapsack(int n, int c, int value[n], int best[n + 1][c])
{
#pragma scop
    for (int j = 0; j < c; j++)
        best[0][j] = 0;
    for (int i = 1; i <= n; i++)
        for (int j = 0; j < c; j++) {
            best[i][j] = best[i - 1][j];
            if (j >= 3)
                best[i][j] = best[i][j] > best[i - 1][j - 3] + value[i - 1]
                                 ? best[i][j]
                                 : best[i - 1][j - 3] + value[i - 1];
        }
#pragma endscop
}
