/* Transport of a tracer by a given face velocity: MUSCL slopes with the minmod limiter, upwind fluxes. */
#include <math.h>

void kernel_muscl_limiter(int steps, int ny, int nx, double dt, double q[ny][nx], double u[ny][nx + 1],
                          double v[ny + 1][nx], double fx[ny][nx + 1], double fy[ny + 1][nx])
{
#pragma scop
    for (int t = 0; t < steps; t++) {
        for (int i = 2; i < ny - 2; i++)
            for (int j = 2; j <= nx - 2; j++) {
                double jump = q[i][j] - q[i][j - 1];
                double behind, c = dt * u[i][j];
                if (c > 0.0)
                    behind = q[i][j - 1] - q[i][j - 2];
                else
                    behind = q[i][j + 1] - q[i][j];
                double slope = 0.0;
                if (jump * behind > 0.0)
                    slope = fabs(jump) < fabs(behind) ? jump : behind;
                fx[i][j] = c > 0.0 ? c * (q[i][j - 1] + 0.5 * (1.0 - c) * slope)
                                   : c * (q[i][j] - 0.5 * (1.0 + c) * slope);
            }
        for (int i = 2; i <= ny - 2; i++)
            for (int j = 2; j < nx - 2; j++) {
                double jump = q[i][j] - q[i - 1][j];
                double behind, c = dt * v[i][j];
                if (c > 0.0)
                    behind = q[i - 1][j] - q[i - 2][j];
                else
                    behind = q[i + 1][j] - q[i][j];
                double slope = 0.0;
                if (jump * behind > 0.0)
                    slope = fabs(jump) < fabs(behind) ? jump : behind;
                fy[i][j] = c > 0.0 ? c * (q[i - 1][j] + 0.5 * (1.0 - c) * slope)
                                   : c * (q[i][j] - 0.5 * (1.0 + c) * slope);
            }
        for (int i = 2; i < ny - 2; i++)
            for (int j = 2; j < nx - 2; j++)
                q[i][j] -= fx[i][j + 1] - fx[i][j] + fy[i + 1][j] - fy[i][j];
    }
#pragma endscop
}
