/* Lattice Boltzmann, D2Q9, one relaxation time: collide, then stream inside the box. */
#define Q 9
#define SQ(x) ((x) * (x))

static const double tau = 0.6;

static inline double equilibrium(double w, double rho, double cu, double usq)
{
    return w * rho * (1.0 + 3.0 * cu + 4.5 * SQ(cu) - 1.5 * usq);
}

static inline __attribute__((always_inline)) double relax(double f, double feq)
{
    const double omega = 1.0 / tau;
    return f - omega * (f - feq);
}

void lbm(int nx, int ny, int steps, double f[Q][nx][ny], double g[Q][nx][ny])
{
#pragma scop
    for (int t = 0; t < steps; t++) {
        for (int x = 0; x < nx; x++)
            for (int y = 0; y < ny; y++) {
                double rho = f[0][x][y] + f[1][x][y] + f[2][x][y] + f[3][x][y] + f[4][x][y]
                    + f[5][x][y] + f[6][x][y] + f[7][x][y] + f[8][x][y];
                double ux = (f[1][x][y] - f[3][x][y] + f[5][x][y] - f[6][x][y] - f[7][x][y]
                             + f[8][x][y]) / rho;
                double uy = (f[2][x][y] - f[4][x][y] + f[5][x][y] + f[6][x][y] - f[7][x][y]
                             - f[8][x][y]) / rho;
                double usq = SQ(ux) + SQ(uy);
                g[0][x][y] = relax(f[0][x][y], equilibrium(4.0 / 9, rho, 0.0, usq));
                g[1][x][y] = relax(f[1][x][y], equilibrium(1.0 / 9, rho, ux, usq));
                g[2][x][y] = relax(f[2][x][y], equilibrium(1.0 / 9, rho, uy, usq));
                g[3][x][y] = relax(f[3][x][y], equilibrium(1.0 / 9, rho, -ux, usq));
                g[4][x][y] = relax(f[4][x][y], equilibrium(1.0 / 9, rho, -uy, usq));
                g[5][x][y] = relax(f[5][x][y], equilibrium(1.0 / 36, rho, ux + uy, usq));
                g[6][x][y] = relax(f[6][x][y], equilibrium(1.0 / 36, rho, -ux + uy, usq));
                g[7][x][y] = relax(f[7][x][y], equilibrium(1.0 / 36, rho, -ux - uy, usq));
                g[8][x][y] = relax(f[8][x][y], equilibrium(1.0 / 36, rho, ux - uy, usq));
            }
        for (int x = 1; x < nx - 1; x++)
            for (int y = 1; y < ny - 1; y++) {
                f[0][x][y] = g[0][x][y];
                f[1][x][y] = g[1][x - 1][y];
                f[2][x][y] = g[2][x][y - 1];
                f[3][x][y] = g[3][x + 1][y];
                f[4][x][y] = g[4][x][y + 1];
                f[5][x][y] = g[5][x - 1][y - 1];
                f[6][x][y] = g[6][x + 1][y - 1];
                f[7][x][y] = g[7][x + 1][y + 1];
                f[8][x][y] = g[8][x - 1][y + 1];
            }
    }
#pragma endscop
}
