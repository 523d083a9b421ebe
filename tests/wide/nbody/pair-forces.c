/* Action and reaction: each pair of bodies is visited once and pulls at both. */
#ifndef EXTENT_n
#define EXTENT_n 4000
#endif
#include "kernel.h"

void kernel_pair_forces(int n, DATA soft, DATA pos[EXTENT(n)][3], DATA VECTOR(mass, n),
                        DATA force[EXTENT(n)][3])
{
    int i, j, k;
    DATA d[3], r2, scale;

#pragma scop
    for (i = 0; i < BOUND(n); i++)
        for (k = 0; k < 3; k++)
            force[i][k] = 0;

    for (i = 0; i < BOUND(n) - 1; i++)
        for (j = i + 1; j < BOUND(n); j++) {
            r2 = soft;
            for (k = 0; k < 3; k++) {
                d[k] = pos[j][k] - pos[i][k];
                r2 += d[k] * d[k];
            }
            scale = mass[i] * mass[j] / (r2 * SQRT(r2));
            for (k = 0; k < 3; k++) {
                force[i][k] += scale * d[k];
                force[j][k] -= scale * d[k];
            }
        }
#pragma endscop
}
