/* Over-relaxation of a Poisson problem: the red points of all rows, then the black ones. */
#ifndef EXTENT_n
#define EXTENT_n 1500
#endif
#ifndef EXTENT_sweeps
#define EXTENT_sweeps 10
#endif
#include "kernel.h"

#define RELAX(i, j)                                                                              \
    u[i][j] = (REAL(1.0) - omega) * u[i][j]                                                      \
              + omega * REAL(0.25)                                                               \
                    * (u[(i) - 1][j] + u[(i) + 1][j] + u[i][(j) - 1] + u[i][(j) + 1] - f[i][j])

void kernel_red_black_sor(int sweeps, int n, DATA omega, DATA MATRIX(u, n, n), DATA MATRIX(f, n, n))
{
    int t, i, j;

#pragma scop
    for (t = 0; t < BOUND(sweeps); t++) {
        for (i = 1; i < BOUND(n) - 1; i += 2)
            for (j = 1; j < BOUND(n) - 1; j += 2)
                RELAX(i, j);
        for (i = 2; i < BOUND(n) - 1; i += 2)
            for (j = 2; j < BOUND(n) - 1; j += 2)
                RELAX(i, j);
        for (i = 1; i < BOUND(n) - 1; i += 2)
            for (j = 2; j < BOUND(n) - 1; j += 2)
                RELAX(i, j);
        for (i = 2; i < BOUND(n) - 1; i += 2)
            for (j = 1; j < BOUND(n) - 1; j += 2)
                RELAX(i, j);
    }
#pragma endscop
}
