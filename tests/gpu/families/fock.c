/* A Fock matrix: Coulomb and exchange from two-electron integrals and a density. */
void fock(int n, double density[n][n], double eri[n][n][n][n], double core[n][n], double f[n][n])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            f[i][j] = core[i][j];
            for (int k = 0; k < n; k++)
                for (int l = 0; l < n; l++)
                    f[i][j] += density[k][l] * (eri[i][j][k][l] - 0.5 * eri[i][k][j][l]);
        }
#pragma endscop
}
