/* Forces between bodies in two dimensions, summed in scalars, then velocities. */
#include <math.h>
void nbody(int n, double x[n], double y[n], double mass[n], double vx[n], double vy[n])
{
    double fx, fy, r;
#pragma scop
    for (int i = 0; i < n; i++) {
        fx = 0.0;
        fy = 0.0;
        for (int j = 0; j < n; j++) {
            r = (x[j] - x[i]) * (x[j] - x[i]) + (y[j] - y[i]) * (y[j] - y[i]) + 0.01;
            fx += mass[j] * (x[j] - x[i]) / (r * sqrt(r));
            fy += mass[j] * (y[j] - y[i]) / (r * sqrt(r));
        }
        vx[i] += 0.1 * fx;
        vy[i] += 0.1 * fy;
    }
#pragma endscop
}
