/* The greatest capacity between all pairs, the loop over the middle reversed, self-loops skipped. */
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#ifndef EXTENT_n
#define EXTENT_n 420
#endif

void kernel_widest_paths(int n, int cap[EXTENT_n][EXTENT_n])
{
    int i, j, k;
#pragma scop
    for (k = n - 1; k >= 0; k--)
        for (i = 0; i < n; i++)
            for (j = 0; j < n; j++)
                if (i != j)
                    cap[i][j] = MAX(cap[i][j], MIN(cap[i][k], cap[k][j]));
#pragma endscop
}
