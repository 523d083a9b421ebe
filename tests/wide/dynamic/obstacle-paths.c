/* Ways from the top left to every place of a grid, going right, down or both; walls block. Counts
   wrap around. */
void kernel_obstacle_paths(int n, int m, unsigned char wall[n][m], unsigned ways[n][m])
{
    int i, j;

#pragma scop
    ways[0][0] = 1;
    for (j = 1; j < m; j++)
        ways[0][j] = wall[0][j] ? 0 : ways[0][j - 1];
    for (i = 1; i < n; i++) {
        ways[i][0] = wall[i][0] ? 0 : ways[i - 1][0];
        for (j = 1; j < m; j++)
            ways[i][j] = wall[i][j] ? 0 : ways[i - 1][j] + ways[i][j - 1] + ways[i - 1][j - 1];
    }
#pragma endscop
}
