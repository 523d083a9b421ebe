/* Shortest paths of at most four edges: the matrix of lengths squared twice over (min, +). */
void kernel_two_step_paths(int n, float w[restrict n][n], float two[restrict n][n],
                           float four[restrict n][n])
{
    int i, j, k;
#pragma scop
    for (i = 0; i < n; i++)
        for (j = 0; j < n; j++) {
            two[i][j] = w[i][j];
            for (k = 0; k < n; k++) {
                float through = w[i][k] + w[k][j];
                if (through < two[i][j])
                    two[i][j] = through;
            }
        }
    for (i = 0; i < n; i++)
        for (j = 0; j < n; j++) {
            four[i][j] = two[i][j];
            for (k = 0; k < n; k++)
                four[i][j] = two[i][k] + two[k][j] < four[i][j] ? two[i][k] + two[k][j] : four[i][j];
        }
#pragma endscop
}
