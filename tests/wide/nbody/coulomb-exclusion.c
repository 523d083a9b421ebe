/* Coulomb energy of the charges of chain molecules; neighbours up to three bonds away are left
   out, as force fields do. */
#ifndef EXTENT_n
#define EXTENT_n 4000
#endif

#include <math.h>

#define N EXTENT_n
#define BONDS 3

void kernel_coulomb_exclusion(int n, double pos[N][3], double q[N], double phi[N])
{
    int i, j;

#pragma scop
    for (i = 0; i < n; i++) {
        phi[i] = 0;
        for (j = 0; j < i - BONDS; j++) {
            double dx = pos[i][0] - pos[j][0];
            double dy = pos[i][1] - pos[j][1];
            double dz = pos[i][2] - pos[j][2];
            phi[i] += q[j] / sqrt(dx * dx + dy * dy + dz * dz);
        }
        for (j = i + BONDS + 1; j < n; j++) {
            double dx = pos[i][0] - pos[j][0];
            double dy = pos[i][1] - pos[j][1];
            double dz = pos[i][2] - pos[j][2];
            phi[i] += q[j] / sqrt(dx * dx + dy * dy + dz * dz);
        }
    }
#pragma endscop
}
