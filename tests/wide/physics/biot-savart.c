/* The magnetic field of a polygon of wire at many points: one term per segment. */
#include <math.h>
#ifndef EXTENT_points
#define EXTENT_points 5000
#endif
#ifndef EXTENT_n
#define EXTENT_n 2000
#endif

void kernel_biot_savart(int points, int n, double r[EXTENT_points][3], double wire[EXTENT_n][3],
                        double B[EXTENT_points][3])
{
    int p, s;
    double lx, ly, lz, dx, dy, dz, d2, w, bx, by, bz;

#pragma scop
    for (p = 0; p < points; p++) {
        bx = 0;
        by = 0;
        bz = 0;
        for (s = 0; s < n - 1; s++) {
            lx = wire[s + 1][0] - wire[s][0];
            ly = wire[s + 1][1] - wire[s][1];
            lz = wire[s + 1][2] - wire[s][2];
            dx = r[p][0] - 0.5 * (wire[s][0] + wire[s + 1][0]);
            dy = r[p][1] - 0.5 * (wire[s][1] + wire[s + 1][1]);
            dz = r[p][2] - 0.5 * (wire[s][2] + wire[s + 1][2]);
            d2 = dx * dx + dy * dy + dz * dz + 1e-4;
            w = 1.0 / (d2 * sqrt(d2));
            bx += (ly * dz - lz * dy) * w;
            by += (lz * dx - lx * dz) * w;
            bz += (lx * dy - ly * dx) * w;
        }
        B[p][0] = bx;
        B[p][1] = by;
        B[p][2] = bz;
    }
#pragma endscop
}
