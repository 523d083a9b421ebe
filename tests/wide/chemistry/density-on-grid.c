/* The electron density at grid points, rho = sum_mn D_mn phi_m phi_n, and its gradient along x. */
void kernel_density_on_grid(int ng, int nb, float phi[ng][nb], float dphi[ng][nb], float D[nb][nb],
                            float rho[ng], float grad[ng])
{
    int g, m, n;
#pragma scop
    for (g = 0; g < ng; g++) {
        float r = 0.0f, d = 0.0f;
        for (m = 0; m < nb; m++) {
            float t = 0.0f;
            for (n = 0; n < nb; n++)
                t += D[m][n] * phi[g][n];
            r += phi[g][m] * t;
            d += dphi[g][m] * t;
        }
        rho[g] = r;
        grad[g] = 2.0f * d;
    }
#pragma endscop
}
