/* The Laplacian in three dimensions applied to a field, and the product of both. */
void laplacian(int n, float u[n][n][n], float y[n][n][n], float row[n][n])
{
#pragma scop
    for (int i = 1; i < n - 1; i++)
        for (int j = 1; j < n - 1; j++) {
            row[i][j] = 0.0f;
            for (int k = 1; k < n - 1; k++) {
                y[i][j][k] = 6.0f * u[i][j][k] - u[i - 1][j][k] - u[i + 1][j][k] - u[i][j - 1][k] -
                             u[i][j + 1][k] - u[i][j][k - 1] - u[i][j][k + 1];
                row[i][j] += u[i][j][k] * y[i][j][k];
            }
        }
#pragma endscop
}
