/* Least squares with a constant term: X'X and X'y, where column p stands for the ones. */
void kernel_normal_equations(int n, int p, int p1, const float X[restrict static n][p],
                             const float y[restrict static n], float A[restrict static p1][p1],
                             float b[restrict static p1])
{
    int i, j, k;

#pragma scop
    for (j = 0; j <= p; j++) {
        b[j] = 0.0f;
        for (k = 0; k <= p; k++)
            A[j][k] = 0.0f;
    }
    for (i = 0; i < n; i++) {
        for (j = 0; j < p; j++) {
            for (k = j; k < p; k++)
                A[j][k] += X[i][j] * X[i][k];
            A[j][p] += X[i][j];
            b[j] += X[i][j] * y[i];
        }
        A[p][p] += 1.0f;
        b[p] += y[i];
    }
    for (j = 1; j <= p; j++)
        for (k = 0; k < j; k++)
            A[j][k] = A[k][j];
#pragma endscop
}
