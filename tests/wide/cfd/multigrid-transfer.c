/* Between two grids: the residual weighted onto the coarse one, its correction spread back. */
#include "kernel.h"
#ifndef EXTENT_n
#define EXTENT_n 1000
#endif

void kernel_multigrid_transfer(int n, DATA r[SOLE 2 * EXTENT_n + 1][2 * EXTENT_n + 1], DATA MATRIX(coarse, n, n),
                               DATA u[SOLE 2 * EXTENT_n + 1][2 * EXTENT_n + 1])
{
    int i, j;

#pragma scop
    for (i = 0; i < BOUND(n); i++)
        for (j = 0; j < BOUND(n); j++)
            coarse[i][j] = REAL(0.25) * r[2 * i + 1][2 * j + 1]
                + REAL(0.125) * (r[2 * i][2 * j + 1] + r[2 * i + 2][2 * j + 1] + r[2 * i + 1][2 * j] + r[2 * i + 1][2 * j + 2])
                + REAL(0.0625) * (r[2 * i][2 * j] + r[2 * i][2 * j + 2] + r[2 * i + 2][2 * j] + r[2 * i + 2][2 * j + 2]);
    for (i = 0; i < BOUND(n) - 1; i++)
        for (j = 0; j < BOUND(n) - 1; j++) {
            u[2 * i + 1][2 * j + 1] += coarse[i][j];
            u[2 * i + 1][2 * j + 2] += REAL(0.5) * (coarse[i][j] + coarse[i][j + 1]);
            u[2 * i + 2][2 * j + 1] += REAL(0.5) * (coarse[i][j] + coarse[i + 1][j]);
            u[2 * i + 2][2 * j + 2] += REAL(0.25) * (coarse[i][j] + coarse[i][j + 1] + coarse[i + 1][j] + coarse[i + 1][j + 1]);
        }
#pragma endscop
}
