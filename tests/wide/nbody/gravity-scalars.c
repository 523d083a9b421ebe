/* Accelerations of n bodies under softened gravity, and one step of symplectic Euler. */
#include <math.h>

void kernel_gravity_scalars(int n, double dt, double soft, double x[n], double y[n], double z[n],
                            double vx[n], double vy[n], double vz[n], double m[n])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        double ax = 0.0;
        double ay = 0.0;
        double az = 0.0;
        for (int j = 0; j < n; j++) {
            double dx = x[j] - x[i];
            double dy = y[j] - y[i];
            double dz = z[j] - z[i];
            double d2 = dx * dx + dy * dy + dz * dz + soft;
            double inv = m[j] / (d2 * sqrt(d2));
            ax += dx * inv;
            ay += dy * inv;
            az += dz * inv;
        }
        vx[i] += dt * ax;
        vy[i] += dt * ay;
        vz[i] += dt * az;
    }
    for (int i = 0; i < n; i++) {
        x[i] += dt * vx[i];
        y[i] += dt * vy[i];
        z[i] += dt * vz[i];
    }
#pragma endscop
}
