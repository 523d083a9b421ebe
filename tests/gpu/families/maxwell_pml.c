/* A field with an absorbing layer: coefficients by row and by column. */
void maxwell_pml(int n, int m, double e[n][m], double h[n][m], double hold[n][m], double ci[n],
                 double cj[m], double out[n][m])
{
    double clf, tmp;
#pragma scop
    for (int i = 0; i < n - 1; i++)
        for (int j = 0; j < m - 1; j++) {
            clf = e[i][j] - e[i][j + 1] + e[i + 1][j] - e[i][j];
            tmp = ci[i] / (1.0 + cj[j] * cj[j]) * hold[i][j] - clf / (1.0 + cj[j] * cj[j]);
            out[i][j] = ci[i] * tmp + cj[j] * h[i][j];
            hold[i][j] = tmp;
        }
    for (int j = 0; j < m; j++)
        out[n - 1][j] = 0.0;
#pragma endscop
}
