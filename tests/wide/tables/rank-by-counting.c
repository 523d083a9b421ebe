/* Ranks of all entries by counting the smaller ones; among equals the earlier ranks first. */
#ifndef EXTENT_n
#define EXTENT_n 12000
#endif
#define N EXTENT_n

void kernel_rank_by_counting(int n, const double x[N], int rank[N])
{
    int i, j;

#pragma scop
    for (i = 0; i < N; i++)
        rank[i] = 0;
    for (i = 0; i < N; i++)
        for (j = 0; j < i; j++) {
            rank[i] += x[j] <= x[i] ? 1 : 0;
            rank[j] += x[j] <= x[i] ? 0 : 1;
        }
#pragma endscop
}
