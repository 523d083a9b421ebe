/* Electrons in one dimension of space and one of velocity: upwind steps in turn, the field by sums
   of the charge over a ring. */
#include <math.h>

void kernel_plasma_sheet(int steps, int nx, int nv, double dt, double f[nx][nv], double g[nx][nv],
                         double rho[nx], double e[nx], double history[steps])
{
#pragma scop
    double dx = 1.0 / nx, dv = 2.0 / nv;
    for (int t = 0; t < steps; t++) {
        /* along x: electrons of positive velocity come from the left */
        for (int i = 0; i < nx; i++)
            for (int j = 0; j < nv; j++) {
                double v = -1.0 + (j + 0.5) * dv;
                int from = v > 0.0 ? 1 : 0;
                double left = f[i == 0 ? nx - 1 : i - 1][j];
                double right = f[i == nx - 1 ? 0 : i + 1][j];
                if (from)
                    g[i][j] = f[i][j] - 0.25 * v * (f[i][j] - left);
                else
                    g[i][j] = f[i][j] - 0.25 * v * (right - f[i][j]);
            }
        /* the field: the mean charge is that of the ions */
        double mean = 0.0;
        for (int i = 0; i < nx; i++) {
            rho[i] = 0.0;
            for (int j = 0; j < nv; j++)
                rho[i] += g[i][j] * dv;
            mean += rho[i] / nx;
        }
        e[0] = 0.0;
        for (int i = 1; i < nx; i++)
            e[i] = e[i - 1] + dx * (mean - 0.5 * (rho[i - 1] + rho[i]));
        double offset = 0.0, energy = 0.0;
        for (int i = 0; i < nx; i++)
            offset += e[i] / nx;
        for (int i = 0; i < nx; i++) {
            e[i] -= offset;
            energy += 0.5 * e[i] * e[i] * dx;
        }
        history[t] = energy;
        /* along v */
        for (int i = 0; i < nx; i++) {
            double a = -e[i] * dt / dv;
            if (a > 0.5)
                a = 0.5;
            else if (a < -0.5)
                a = -0.5;
            for (int j = 0; j < nv; j++) {
                double below = j > 0 ? g[i][j - 1] : 0.0;
                double above = j < nv - 1 ? g[i][j + 1] : 0.0;
                f[i][j] = a > 0.0 ? g[i][j] - a * (g[i][j] - below) : g[i][j] - a * (above - g[i][j]);
            }
        }
    }
#pragma endscop
}
