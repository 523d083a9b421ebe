/* Shortest paths, which have a kernel of their own with shared memory, and empty problems. */
#include <stdio.h>

static void paths(int n, int d[n][n])
{
    int i, j, k;
#pragma scop
    for (k = 0; k < n; k++)
        for (i = 0; i < n; i++)
            for (j = 0; j < n; j++)
                d[i][j] = d[i][j] < d[i][k] + d[k][j] ? d[i][j] : d[i][k] + d[k][j];
#pragma endscop
}

int main(void)
{
    static int d[45 * 45];
    for (int i = 0; i < 45 * 45; i++)
        d[i] = i % 46 == 0 ? 0 : (i * 29) % 101 + 1;
    paths(0, (void *)d);
    paths(1, (void *)d);
    paths(45, (void *)d);
    long total = 0;
    for (int i = 0; i < 45 * 45; i++)
        total += d[i] * (long)(i % 13);
    printf("%ld %d %d\n", total, d[44], d[44 * 45]);
    return 0;
}
