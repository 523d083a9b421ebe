/* Barotropic vorticity on a periodic plane with ghost rows: Arakawa's Jacobian, diffusion, Euler steps. */

void kernel_arakawa_vorticity(int steps, int n, int m, double dt, double nu, double psi[n + 2][m + 2],
                              double zeta[n + 2][m + 2], double rhs[n + 2][m + 2])
{
#pragma scop
    for (int t = 0; t < steps; t++) {
        for (int j = 1; j <= m; j++) {
            zeta[0][j] = zeta[n][j];
            zeta[n + 1][j] = zeta[1][j];
        }
        for (int i = 0; i <= n + 1; i++) {
            zeta[i][0] = zeta[i][m];
            zeta[i][m + 1] = zeta[i][1];
        }
        for (int i = 1; i <= n; i++)
            for (int j = 1; j <= m; j++) {
                double jpp = (psi[i + 1][j] - psi[i - 1][j]) * (zeta[i][j + 1] - zeta[i][j - 1])
                           - (psi[i][j + 1] - psi[i][j - 1]) * (zeta[i + 1][j] - zeta[i - 1][j]);
                double jpx = psi[i + 1][j] * (zeta[i + 1][j + 1] - zeta[i + 1][j - 1])
                           - psi[i - 1][j] * (zeta[i - 1][j + 1] - zeta[i - 1][j - 1])
                           - psi[i][j + 1] * (zeta[i + 1][j + 1] - zeta[i - 1][j + 1])
                           + psi[i][j - 1] * (zeta[i + 1][j - 1] - zeta[i - 1][j - 1]);
                double jxp = zeta[i][j + 1] * (psi[i + 1][j + 1] - psi[i - 1][j + 1])
                           - zeta[i][j - 1] * (psi[i + 1][j - 1] - psi[i - 1][j - 1])
                           - zeta[i + 1][j] * (psi[i + 1][j + 1] - psi[i + 1][j - 1])
                           + zeta[i - 1][j] * (psi[i - 1][j + 1] - psi[i - 1][j - 1]);
                double lap = zeta[i + 1][j] + zeta[i - 1][j] + zeta[i][j + 1] + zeta[i][j - 1]
                           - 4.0 * zeta[i][j];
                rhs[i][j] = nu * lap - (jpp + jpx + jxp) / 12.0;
            }
        for (int i = 1; i <= n; i++)
            for (int j = 1; j <= m; j++)
                zeta[i][j] += dt * rhs[i][j];
    }
#pragma endscop
}
