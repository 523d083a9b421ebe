/* The fewest multiplications of a chain of matrices, by lengths of its parts. */
void matrix_chain(int n, int dims[n + 1], int cost[n][n])
{
#pragma scop
    for (int i = 0; i < n; i++)
        cost[i][i] = 0;
    for (int l = 1; l < n; l++)
        for (int i = 0; i < n - l; i++) {
            cost[i][i + l] = 1000000000;
            for (int k = i; k < i + l; k++)
                cost[i][i + l] =
                    cost[i][i + l] < cost[i][k] + cost[k + 1][i + l] + dims[i] * dims[k + 1]
                        ? cost[i][i + l]
                        : cost[i][k] + cost[k + 1][i + l] + dims[i] * dims[k + 1];
        }
#pragma endscop
}
