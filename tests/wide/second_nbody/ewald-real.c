/* Ewald's sum in real space: nearest images in a cubic box, each pair once, forces on both. */
#include <math.h>

#define TWO_OVER_SQRT_PI 1.1283791670955126

void kernel_ewald_real(int n, double box, double alpha, double cutoff, double r[n][3], double q[n],
                       double f[n][3], double energy[n])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        f[i][0] = 0.0;
        f[i][1] = 0.0;
        f[i][2] = 0.0;
        energy[i] = 0.0;
    }
    for (int i = 0; i < n - 1; i++) {
        for (int j = i + 1; j < n; j++) {
            double dx = r[i][0] - r[j][0];
            double dy = r[i][1] - r[j][1];
            double dz = r[i][2] - r[j][2];
            if (dx > 0.5 * box) dx -= box;
            if (dx < -0.5 * box) dx += box;
            if (dy > 0.5 * box) dy -= box;
            if (dy < -0.5 * box) dy += box;
            if (dz > 0.5 * box) dz -= box;
            if (dz < -0.5 * box) dz += box;
            double d2 = dx * dx + dy * dy + dz * dz;
            if (d2 < cutoff * cutoff && d2 > 0.0) {
                double d = sqrt(d2);
                double screened = q[i] * q[j] * erfc(alpha * d) / d;
                double g = (screened + q[i] * q[j] * TWO_OVER_SQRT_PI * alpha * exp(-alpha * alpha * d2)) / d2;
                energy[i] += screened;
                f[i][0] += g * dx;
                f[i][1] += g * dy;
                f[i][2] += g * dz;
                f[j][0] -= g * dx;
                f[j][1] -= g * dy;
                f[j][2] -= g * dz;
            }
        }
    }
#pragma endscop
}
