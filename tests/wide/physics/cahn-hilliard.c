/* Two phases that part (Cahn and Hilliard): the potential of the mixture, then its diffusion. */
#ifndef EXTENT_steps
#define EXTENT_steps 10
#endif
#ifndef EXTENT_n
#define EXTENT_n 1600
#endif
#include "kernel.h"

#define LAPLACE(x, i, j)                                                                         \
    (x[(i) - 1][j] + x[(i) + 1][j] + x[i][(j) - 1] + x[i][(j) + 1] - REAL(4.0) * x[i][j])

void kernel_cahn_hilliard(int steps, int n, DATA dt, DATA gamma, DATA MATRIX(c, n, n),
                          DATA MATRIX(mu, n, n))
{
    int t, i, j;

#pragma scop
    for (t = 0; t < BOUND(steps); t++) {
        for (i = 1; i < BOUND(n) - 1; i++)
            for (j = 1; j < BOUND(n) - 1; j++)
                mu[i][j] = c[i][j] * c[i][j] * c[i][j] - c[i][j] - gamma * LAPLACE(c, i, j);
        for (i = 2; i < BOUND(n) - 2; i++)
            for (j = 2; j < BOUND(n) - 2; j++)
                c[i][j] += dt * LAPLACE(mu, i, j);
    }
#pragma endscop
}
