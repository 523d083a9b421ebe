/* Two quarters of a four-index transform of integrals. */
void four_index(int n, int m, double c[n][m], double in[n][n][n], double half[m][n][n],
                double out[m][m][n])
{
#pragma scop
    for (int a = 0; a < m; a++)
        for (int q = 0; q < n; q++)
            for (int r = 0; r < n; r++) {
                half[a][q][r] = 0.0;
                for (int p = 0; p < n; p++)
                    half[a][q][r] += c[p][a] * in[p][q][r];
            }
    for (int a = 0; a < m; a++)
        for (int b = 0; b < m; b++)
            for (int r = 0; r < n; r++) {
                out[a][b][r] = 0.0;
                for (int q = 0; q < n; q++)
                    out[a][b][r] += c[q][b] * half[a][q][r];
            }
#pragma endscop
}
