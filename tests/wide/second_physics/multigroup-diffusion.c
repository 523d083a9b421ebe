/* Neutrons of several energies in a reactor: fission source, Gauss-Seidel sweeps group after group. */

#define GROUPS 7

void kernel_multigroup_diffusion(int outer, int inner, int ny, int nx, double flux[GROUPS][ny][nx],
                                 double dcoef[GROUPS], double removal[GROUPS], double scatter[GROUPS][GROUPS],
                                 double nufis[GROUPS], double chi[GROUPS], double fuel[ny][nx],
                                 double source[ny][nx], double fission[ny][nx])
{
#pragma scop
    for (int it = 0; it < outer; it++) {
        for (int i = 0; i < ny; i++)
            for (int j = 0; j < nx; j++) {
                fission[i][j] = 0.0;
                for (int g = 0; g < GROUPS; g++)
                    fission[i][j] += nufis[g] * fuel[i][j] * flux[g][i][j];
            }
        for (int g = 0; g < GROUPS; g++) {
            for (int i = 1; i < ny - 1; i++)
                for (int j = 1; j < nx - 1; j++) {
                    double in = 0.125 * chi[g] * fission[i][j];
                    for (int from = 0; from < g; from++)
                        in += 0.125 * scatter[from][g] * flux[from][i][j];
                    source[i][j] = in;
                }
            for (int s = 0; s < inner; s++)
                for (int i = 1; i < ny - 1; i++)
                    for (int j = 1; j < nx - 1; j++)
                        flux[g][i][j] = (source[i][j]
                                         + dcoef[g] * (flux[g][i - 1][j] + flux[g][i + 1][j]
                                                       + flux[g][i][j - 1] + flux[g][i][j + 1]))
                                      / (4.0 * dcoef[g] + removal[g] + 1.0);
        }
    }
#pragma endscop
}
