/* Cheapest seams of a picture, down and across: energy of gradients, sums, the step taken. */
#include <stdlib.h>

void kernel_seam_costs(int rows, int cols, unsigned char pic[rows][cols][3], int energy[rows][cols],
                       int cost[rows][cols], signed char from[rows][cols], int across[rows][cols])
{
    int i, j, c;
#pragma scop
    for (i = 0; i < rows; i++)
        for (j = 0; j < cols; j++)
            energy[i][j] = 3000;
    for (i = 1; i < rows - 1; i++)
        for (j = 1; j < cols - 1; j++) {
            energy[i][j] = 0;
            for (c = 0; c < 3; c++)
                energy[i][j] += abs(pic[i][j + 1][c] - pic[i][j - 1][c])
                              + abs(pic[i + 1][j][c] - pic[i - 1][j][c]);
        }
    for (j = 0; j < cols; j++) {
        cost[0][j] = energy[0][j];
        from[0][j] = 0;
    }
    for (i = 1; i < rows; i++) {
        cost[i][0] = cost[i - 1][0] + energy[i][0];
        from[i][0] = 0;
        for (j = 1; j < cols - 1; j++) {
            int best = cost[i - 1][j];
            int step = 0;
            if (cost[i - 1][j - 1] < best) {
                best = cost[i - 1][j - 1];
                step = -1;
            }
            if (cost[i - 1][j + 1] < best) {
                best = cost[i - 1][j + 1];
                step = 1;
            }
            cost[i][j] = best + energy[i][j];
            from[i][j] = step;
        }
        cost[i][cols - 1] = cost[i - 1][cols - 1] + energy[i][cols - 1];
        from[i][cols - 1] = 0;
    }
    for (i = 0; i < rows; i++)
        across[i][0] = energy[i][0];
    for (j = 1; j < cols; j++)
        for (i = 0; i < rows; i++) {
            int best = across[i][j - 1];
            if (i > 0 && across[i - 1][j - 1] < best)
                best = across[i - 1][j - 1];
            if (i < rows - 1 && across[i + 1][j - 1] < best)
                best = across[i + 1][j - 1];
            across[i][j] = best + energy[i][j];
        }
#pragma endscop
}
