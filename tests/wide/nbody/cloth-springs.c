/* A hanging cloth: masses on a grid, springs along both directions, explicit Euler with damping.
   The top row is fixed. */
#include <math.h>

void kernel_cloth_springs(int steps, int n, int m, double dt, double k, double px[n][m],
                          double py[n][m], double vx[n][m], double vy[n][m], double fx[n][m],
                          double fy[n][m])
{
    int t, i, j;
    double dx, dy, len, f;

#pragma scop
    for (t = 0; t < steps; t++) {
        for (i = 0; i < n; i++)
            for (j = 0; j < m; j++) {
                fx[i][j] = -0.125 * vx[i][j];
                fy[i][j] = -0.125 * vy[i][j] - 1.0;
            }
        /* springs along rows */
        for (i = 0; i < n; i++)
            for (j = 0; j < m - 1; j++) {
                dx = px[i][j + 1] - px[i][j] + 1.0;
                dy = py[i][j + 1] - py[i][j];
                len = sqrt(dx * dx + dy * dy + 1e-9);
                f = k * (len - 1.0) / len;
                fx[i][j] += f * dx;
                fy[i][j] += f * dy;
                fx[i][j + 1] -= f * dx;
                fy[i][j + 1] -= f * dy;
            }
        /* and along columns */
        for (i = 0; i < n - 1; i++)
            for (j = 0; j < m; j++) {
                dx = px[i + 1][j] - px[i][j];
                dy = py[i + 1][j] - py[i][j] - 1.0;
                len = sqrt(dx * dx + dy * dy + 1e-9);
                f = k * (len - 1.0) / len;
                fx[i][j] += f * dx;
                fy[i][j] += f * dy;
                fx[i + 1][j] -= f * dx;
                fy[i + 1][j] -= f * dy;
            }
        for (i = 1; i < n; i++)
            for (j = 0; j < m; j++) {
                vx[i][j] += dt * fx[i][j];
                vy[i][j] += dt * fy[i][j];
                px[i][j] += dt * vx[i][j];
                py[i][j] += dt * vy[i][j];
            }
    }
#pragma endscop
}
