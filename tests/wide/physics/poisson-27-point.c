/* Jacobi steps of a Poisson problem in space whose stencil is a cube of 27 weights. */
#ifndef EXTENT_steps
#define EXTENT_steps 4
#endif
#ifndef EXTENT_n
#define EXTENT_n 140
#endif
#include "kernel.h"

void kernel_poisson_27_point(int steps, int n, DATA weight[3][3][3], DATA CUBE(u, n, n, n),
                             DATA CUBE(v, n, n, n), DATA CUBE(f, n, n, n))
{
    int t, i, j, k, a, b, c;
    DATA sum;

#pragma scop
    for (t = 0; t < BOUND(steps); t++) {
        for (i = 1; i < BOUND(n) - 1; i++)
            for (j = 1; j < BOUND(n) - 1; j++)
                for (k = 1; k < BOUND(n) - 1; k++) {
                    sum = f[i][j][k];
                    for (a = 0; a < 3; a++)
                        for (b = 0; b < 3; b++)
                            for (c = 0; c < 3; c++)
                                sum += weight[a][b][c] * u[i + a - 1][j + b - 1][k + c - 1];
                    v[i][j][k] = sum * REAL(0.03125);
                }
        for (i = 1; i < BOUND(n) - 1; i++)
            for (j = 1; j < BOUND(n) - 1; j++)
                for (k = 1; k < BOUND(n) - 1; k++)
                    u[i][j][k] = v[i][j][k];
    }
#pragma endscop
}
