/* Bodies that attract each other; distances and forces live in scalars of the inner loop. */
#include <math.h>
#define EPS2 1e-3

void nbody(int n, double dt, double x[][3], double v[][3], double *mass)
{
    int i, j;
    double dx, dy, dz, d2, inv, ax, ay, az;
#pragma scop
    for (i = 0; i < n; i++) {
        ax = ay = az = 0.0;
        for (j = 0; j < n; j++) {
            dx = x[j][0] - x[i][0];
            dy = x[j][1] - x[i][1];
            dz = x[j][2] - x[i][2];
            d2 = dx * dx + dy * dy + dz * dz + EPS2;
            inv = 1.0 / sqrt(d2 * d2 * d2);
            ax += mass[j] * dx * inv;
            ay += mass[j] * dy * inv;
            az += mass[j] * dz * inv;
        }
        v[i][0] += dt * ax;
        v[i][1] += dt * ay;
        v[i][2] += dt * az;
    }
    for (i = 0; i < n; i++) {
        x[i][0] += dt * v[i][0];
        x[i][1] += dt * v[i][1];
        x[i][2] += dt * v[i][2];
    }
#pragma endscop
}
