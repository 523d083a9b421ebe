/* A cluster of stars by Hermite's method of fourth order: predicted, accelerations and jerks from all
   others, corrected. */
#include <math.h>

void kernel_hermite_stars(int n, int steps, double dt, double eps2, double pos[n][3], double vel[n][3],
                          double mass[n], double acc[n][3], double jerk[n][3], double acc1[n][3],
                          double jerk1[n][3], double pos1[n][3], double vel1[n][3], double energy[2])
{
#pragma scop
    for (int t = 0; t < steps; t++) {
        for (int i = 0; i < n; i++)
            for (int d = 0; d < 3; d++) {
                pos1[i][d] = pos[i][d] + dt * (vel[i][d] + dt / 2.0 * (acc[i][d] + dt / 3.0 * jerk[i][d]));
                vel1[i][d] = vel[i][d] + dt * (acc[i][d] + dt / 2.0 * jerk[i][d]);
            }
        for (int i = 0; i < n; i++) {
            for (int d = 0; d < 3; d++) {
                acc1[i][d] = 0.0;
                jerk1[i][d] = 0.0;
            }
            for (int j = 0; j < n; j++) {
                if (j != i) {
                    double dr[3], dv[3];
                    double r2 = eps2, rv = 0.0;
                    for (int d = 0; d < 3; d++) {
                        dr[d] = pos1[j][d] - pos1[i][d];
                        dv[d] = vel1[j][d] - vel1[i][d];
                        r2 += dr[d] * dr[d];
                        rv += dr[d] * dv[d];
                    }
                    double inv3 = mass[j] / (r2 * sqrt(r2));
                    for (int d = 0; d < 3; d++) {
                        acc1[i][d] += inv3 * dr[d];
                        jerk1[i][d] += inv3 * (dv[d] - 3.0 * rv / r2 * dr[d]);
                    }
                }
            }
        }
        for (int i = 0; i < n; i++)
            for (int d = 0; d < 3; d++) {
                double v = vel[i][d] + dt / 2.0 * (acc[i][d] + acc1[i][d]) + dt * dt / 12.0 * (jerk[i][d] - jerk1[i][d]);
                pos[i][d] += dt / 2.0 * (vel[i][d] + v) + dt * dt / 12.0 * (acc[i][d] - acc1[i][d]);
                vel[i][d] = v;
                acc[i][d] = acc1[i][d];
                jerk[i][d] = jerk1[i][d];
            }
    }

    double kinetic = 0.0, potential = 0.0;
    for (int i = 0; i < n; i++) {
        kinetic += 0.5 * mass[i] * (vel[i][0] * vel[i][0] + vel[i][1] * vel[i][1] + vel[i][2] * vel[i][2]);
        for (int j = i + 1; j < n; j++) {
            double dx = pos[i][0] - pos[j][0], dy = pos[i][1] - pos[j][1], dz = pos[i][2] - pos[j][2];
            potential -= mass[i] * mass[j] / sqrt(dx * dx + dy * dy + dz * dz + eps2);
        }
    }
    energy[0] = kinetic;
    energy[1] = potential;
#pragma endscop
}
