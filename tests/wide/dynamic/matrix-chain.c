/* The cheapest order of a chain of matrix products, by the length of the stretch. */
#ifndef EXTENT_n
#define EXTENT_n 900
#define EXTENT_n1 901
#endif

#define INFINITE 9007199254740992.0

void kernel_matrix_chain(int n, int n1, double p[EXTENT_n1], double cost[EXTENT_n][EXTENT_n])
{
    int i, j, k, len;

#pragma scop
    for (i = 0; i < n; i++)
        cost[i][i] = 0;
    for (len = 2; len <= n; len++) {
        for (i = 0; i <= n - len; i++) {
            j = i + len - 1;
            cost[i][j] = INFINITE;
            for (k = i; k < j; k++) {
                double c = cost[i][k] + cost[k + 1][j] + p[i] * p[k + 1] * p[j + 1];
                if (c < cost[i][j])
                    cost[i][j] = c;
            }
        }
    }
#pragma endscop
}
