/* A wave function in two dimensions: real and imaginary part pass each other by half a step. */
#ifndef EXTENT_steps
#define EXTENT_steps 10
#endif
#ifndef EXTENT_n
#define EXTENT_n 1300
#endif
#include "kernel.h"

void kernel_schroedinger_leapfrog(int steps, int n, DATA dt, DATA MATRIX(re, n, n),
                                  DATA MATRIX(im, n, n), DATA MATRIX(V, n, n),
                                  DATA MATRIX(density, n, n))
{
    int t, i, j;

#pragma scop
    for (t = 0; t < BOUND(steps); t++) {
        for (i = 1; i < BOUND(n) - 1; i++)
            for (j = 1; j < BOUND(n) - 1; j++)
                re[i][j] += dt * (V[i][j] * im[i][j]
                    - REAL(0.5) * (im[i - 1][j] + im[i + 1][j] + im[i][j - 1] + im[i][j + 1]
                                   - REAL(4.0) * im[i][j]));
        for (i = 1; i < BOUND(n) - 1; i++)
            for (j = 1; j < BOUND(n) - 1; j++)
                im[i][j] -= dt * (V[i][j] * re[i][j]
                    - REAL(0.5) * (re[i - 1][j] + re[i + 1][j] + re[i][j - 1] + re[i][j + 1]
                                   - REAL(4.0) * re[i][j]));
    }
    for (i = 0; i < BOUND(n); i++)
        for (j = 0; j < BOUND(n); j++)
            density[i][j] = re[i][j] * re[i][j] + im[i][j] * im[i][j];
#pragma endscop
}
