/* A = L D L' of a symmetric matrix without square roots; L below the diagonal of A, D in d. */
void kernel_ldlt(int n, double A[restrict n][n], double d[restrict n], double v[restrict n])
{
    int i, j, k;
    double sum;

#pragma scop
    for (j = 0; j < n; j++) {
        for (k = 0; k < j; k++)
            v[k] = A[j][k] * d[k];
        sum = A[j][j];
        for (k = 0; k < j; k++)
            sum -= A[j][k] * v[k];
        d[j] = sum;
        for (i = j + 1; i < n; i++) {
            sum = A[i][j];
            for (k = 0; k < j; k++)
                sum -= A[i][k] * v[k];
            A[i][j] = sum / d[j];
        }
    }
#pragma endscop
}
