/* City block and Chebyshev distances between two sets of points. */
#ifndef EXTENT_n
#define EXTENT_n 2000
#define EXTENT_m 1800
#define EXTENT_d 16
#endif

void kernel_manhattan_distances(int n, int m, int d, int a[EXTENT_n][EXTENT_d],
                                int b[EXTENT_m][EXTENT_d], int city[EXTENT_n][EXTENT_m],
                                int chess[EXTENT_n][EXTENT_m])
{
    int i, j, k;

#pragma scop
    for (i = 0; i < n; i++)
        for (j = 0; j < m; j++) {
            city[i][j] = 0;
            chess[i][j] = 0;
            for (k = 0; k < EXTENT_d; k++) {
                int gap = a[i][k] > b[j][k] ? a[i][k] - b[j][k] : b[j][k] - a[i][k];
                city[i][j] += gap;
                if (gap > chess[i][j])
                    chess[i][j] = gap;
            }
        }
#pragma endscop
}
