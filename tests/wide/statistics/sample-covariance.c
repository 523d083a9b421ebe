/* Covariances of m variables whose n samples are rows: the lower triangle, then mirrored. */
void kernel_sample_covariance(int n, int m, double count, double x[n][m], double mean[m],
                              double cov[m][m])
{
    int i, j, k;

#pragma scop
    for (j = 0; j < m; j++)
        mean[j] = 0.0;
    for (i = 0; i < n; i++)
        for (j = 0; j < m; j++)
            mean[j] += x[i][j] / count;
    for (j = 0; j < m; j++)
        for (k = 0; k <= j; k++)
            cov[j][k] = 0.0;
    for (i = 0; i < n; i++)
        for (j = 0; j < m; j++)
            for (k = 0; k <= j; k++)
                cov[j][k] += (x[i][j] - mean[j]) * (x[i][k] - mean[k]);
    for (j = 0; j < m; j++)
        for (k = 0; k <= j; k++) {
            cov[j][k] /= count - 1.0;
            cov[k][j] = cov[j][k];
        }
#pragma endscop
}
